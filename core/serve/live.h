// The stream that tells a page when the capture has grown.
#pragma once

#include <microhttpd.h>

#include "serve/session.h"

// Server-sent events: `update` whenever the file changed, a comment every second, which finds out that a page is gone.
struct MHD_Response *fm_live_response(struct fm_session *session);
