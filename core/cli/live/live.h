// SPDX-License-Identifier: Apache-2.0
// The two ends of --listen: the place that a program is watched at, and the client and the screen of
// who watches.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/options/groups.h"
#include "render/shared/style.h"
#include "serve/serve.h"

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

// What `fathom live` shows: one screen of fathom.live/1.

// By what functions are in order.
enum fm_live_sort { FM_LIVE_BY_SELF, FM_LIVE_BY_TOTAL, FM_LIVE_BY_WAITS, FM_LIVE_N_SORTS };

struct fm_live_screen {
	const struct fm_style *style; // .out is where it goes
	unsigned rows;                // that fit; 0 = as many as there are
	enum fm_live_sort sort;
	const char *status; // the last line: keys, or what is wrong; NULL = none
};

void fm_live_screen_draw(const struct fm_live_screen *screen, const struct fm_json_value *now);

// --listen: the place to be watched at is taken before the program starts, and the server is
// started when its file is there.

struct fm_listener {
	struct fm_listen_place place;
	char token[FM_TOKEN_CHARS + 1];
	int socket;
};

// The values of --listen and --token, for the command line's sake. One line in diag when they are
// wrong.
FM_MUST_CHECK enum fm_err fm_listener_check(const struct fm_capture_flags *flags, struct fm_diag *diag);
// Says where to watch, and has the capture start the server; l must live until the capture has
// begun. A place that cannot be had is one line on stderr, and the program runs unwatched. Without
// --listen nothing happens.
void fm_listener_open(struct fm_listener *l, const struct fm_capture_flags *flags, struct fm_capture_options *capture);
