// SPDX-License-Identifier: Apache-2.0
// What `fathom run` tells when the target has ended: the summary on the terminal, everything and
// the page to look at in the results folder.
#pragma once

#include "aggregate/tree/view.h"

// command: what the user typed, the first line of profile_results.txt. view: the user's wishes
// (detailed, no_inlines).
void fm_results_tell(const char *dir, const char *command, const struct fm_view_options *view, bool is_quiet,
		     bool is_open);
