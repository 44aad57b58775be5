// SPDX-License-Identifier: Apache-2.0
// The stacks in a core file, as a profile of one look at a process that is over.
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct fm_writer;
struct fm_locals;

struct fm_post_mortem_options {
	const char *core_path, *output_path;
	bool native;              // native frames too
	struct fm_locals *locals; // the frames' local variables, too; NULL = no
	void (*at_end)(struct fm_writer *w, void *arg);
	void *at_end_arg; // as in fm_capture_options
};

// Otherwise diag says why not, with the remedy.
FM_MUST_CHECK enum fm_err fm_post_mortem(const struct fm_post_mortem_options *options, struct fm_diag *diag);
