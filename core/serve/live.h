// SPDX-License-Identifier: Apache-2.0
// The stream that tells a page, or fathom live, what is new.
#pragma once

#include <microhttpd.h>

#include "serve/session.h"

// Server-sent events: `update` whenever the file changed, otherwise a comment every second, which
// finds out that a page is gone. Of a program that runs also `now` twice a second (fathom.live/1),
// and `end` as the last one.
struct MHD_Response *fm_live_response(struct fm_session *session);
