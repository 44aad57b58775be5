// SPDX-License-Identifier: Apache-2.0
#include "cli/options/text_options.h"

#include "base/compiler.h"

#define MAX_TOP 1000000u
#define MAX_WIDTH 1000u

void fm_text_flags_apply(const struct fm_text_flags *flags, struct fm_view_options *view)
{
	view->n_top = (unsigned)FM_MIN(flags->n_top, (uint64_t)MAX_TOP);
	view->width = (unsigned)FM_MIN(flags->width, (uint64_t)MAX_WIDTH);
	view->color = flags->color[1] == 'u' ? -1 : flags->color[0] == 'a'; // auto, always, never
}
