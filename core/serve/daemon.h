// SPDX-License-Identifier: Apache-2.0
// The HTTP server itself: its threads, its limits, and the policy that its pages are sent with.
#pragma once

#include <microhttpd.h>

#include "serve/session.h"

// On a socket that listens already, which it takes over; or with socket -1 on loopback at that port
// (0 = any free one). Fills the session's port and policy. NULL with errno set: refused.
struct MHD_Daemon *fm_daemon_start(struct fm_session *s, uint16_t port, int socket);
void fm_daemon_stop(struct fm_session *s, struct MHD_Daemon *daemon);
