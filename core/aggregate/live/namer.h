// SPDX-License-Identifier: Apache-2.0
// Names for the frames of a capture that still grows.
//
// Python functions are named at once, from the capture itself. For native ones, and for lines, all
// frames are looked at and files are read, which may take longer than the program under watch
// should have to share its CPUs with: that is done anew only after ten times as long as it took.
// Until then a new native frame goes by its library's name, and a new Python frame stands at the
// line where its function begins.
#pragma once

#include "symbolize/symbolize.h"

struct fm_namer;
struct fm_namer *fm_namer_create(const struct fm_profile *profile);
void fm_namer_destroy(struct fm_namer *n); // NULL is fine
// The profile may have grown. What was handed out before is gone.
void fm_namer_refresh(struct fm_namer *n, uint64_t now_ns);

struct fm_named {
	uint64_t key; // equal for equal functions, until the next refresh
	struct fm_function function;
	uint32_t line;
};
struct fm_named fm_namer_frame(struct fm_namer *n, uint32_t frame_id);
struct fm_named fm_namer_code(struct fm_namer *n, uint32_t code_id); // of the profile's codes
