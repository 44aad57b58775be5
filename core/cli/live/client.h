// SPDX-License-Identifier: Apache-2.0
// The other end of --listen: asks the server beside a running program, and takes its stream of
// events apart.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "serve/listen.h"

struct fm_live_client {
	int fd; // -1 = not connected
	struct fm_buf in;
	size_t pos; // what was taken of `in`
};

enum fm_live_question { FM_LIVE_STREAM, FM_LIVE_NOW };

// FM_E_NOT_FOUND: nobody listens there, so far. FM_E_REFUSED: somebody does, and says no (diag has
// its words), or is not Fathom.
FM_MUST_CHECK enum fm_err fm_live_connect(struct fm_live_client *c, const struct fm_listen_place *place,
					  enum fm_live_question what, const char *token, struct fm_diag *diag);
// What it says is not what our server says: disconnects, FM_E_REFUSED with one line.
enum fm_err fm_live_not_ours(struct fm_live_client *c, struct fm_diag *diag);
void fm_live_disconnect(struct fm_live_client *c); // a zeroed client with fd -1 is fine

struct fm_live_event {
	struct fm_str name, data; // live until the next call
};
// FM_OK: an event. FM_E_NOT_FOUND: none yet, wait for more by fm_live_read(). FM_E_CORRUPT: not
// what we speak.
FM_MUST_CHECK enum fm_err fm_live_next(struct fm_live_client *c, struct fm_live_event *ret);
// Takes what has come. False: the connection is over.
bool fm_live_read(struct fm_live_client *c);
// All until the connection's end, at most for so long; for a question with one answer.
// FM_E_CORRUPT: more than ours ever is.
FM_MUST_CHECK enum fm_err fm_live_read_all(struct fm_live_client *c, int timeout_ms, struct fm_str *ret);
