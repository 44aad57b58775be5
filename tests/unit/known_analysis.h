// SPDX-License-Identifier: Apache-2.0
// The profile of support/known.h, written and opened.
#pragma once

#include "scratch.h"

#include "aggregate/analysis/analysis.h"
#include "support/known.h"
#include "support/open.h"

static inline struct fm_analysis *open_known(const struct fm_view_options *options)
{
	// No such file: the frames are named by address.
	struct known_images images = { "/nonexistent/libkernel.so", FM_STR_LIT(""), 0x4000, 0x5000 };
	const char *path = scratch_file();
	struct fm_diag diag;
	CHECK_EQ(known_write(path, &images, &diag), FM_OK);
	struct fm_analysis *a;
	CHECK_EQ(open_analysis(path, options, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	return a;
}
