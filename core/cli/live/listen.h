// SPDX-License-Identifier: Apache-2.0
// --listen: the place to be watched at is taken before the program starts, and the server is
// started when its file is there.
#pragma once

#include "cli/options/capture_options.h"
#include "serve/listen.h"

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
