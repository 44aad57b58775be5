// SPDX-License-Identifier: Apache-2.0
// Two commands run in turns: in pairs, in random order within each, so that whatever else happens on
// the machine meets both alike. One pair before the others warms up and is not counted.
#pragma once

#include <stdbool.h>

#include "aggregate/compare/paired.h"
#include "base/err.h"
#include "collect/capture/capture.h"

enum fm_side { FM_BASE, FM_HEAD, FM_N_SIDES };

struct fm_pairs_side {
	char **argv;        // NULL-terminated
	const char *folder; // where it runs; NULL = here
	const char *dir;    // where its profile_1.fathom, profile_2.fathom, ... go; an absolute path
};

struct fm_pairs {
	struct fm_pairs_side sides[FM_N_SIDES];
	unsigned n; // of pairs, FM_PAIRED_MOST at most
	const struct fm_capture_options *capture;
	bool is_head_first[FM_PAIRED_MOST]; // filled by the runs
	struct fm_diag no_instructions;     // why they are not counted; "" = they are
};

// A command that does not end well, or a signal to this process, ends it: one line in diag.
FM_MUST_CHECK enum fm_err fm_pairs_run(struct fm_pairs *p, struct fm_diag *diag);
