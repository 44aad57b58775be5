// SPDX-License-Identifier: Apache-2.0
#include "cli/captures/load_runs.h"

#include <stdlib.h>
#include <string.h>

#include "render/render.h"
#include "render/shared/compare.h"

enum fm_err fm_load_runs(struct fm_runs *ret, const struct fm_captures *captures, const struct fm_view_options *options,
			 struct fm_diag *diag)
{
	*ret = (struct fm_runs){ 0 };
	for (size_t i = 0; i < captures->paths.n; i++) {
		struct fm_analysis *a;
		enum fm_err err = fm_render_open(captures->paths.items[i], options, FM_ANALYSIS_STACKS, &a, diag);
		if (err) {
			fm_runs_deinit(ret);
			return err;
		}
		fm_compare_add(ret, a);
		fm_analysis_close(a);
	}
	return FM_OK;
}

enum fm_err fm_report_runs(FILE *out, const struct fm_captures *captures, const struct fm_view_options *options,
			   struct fm_diag *diag)
{
	struct fm_runs runs;
	enum fm_err err = fm_load_runs(&runs, captures, options, diag);
	if (err)
		return err;
	fm_compare_repeat(out, &runs, options);
	fm_runs_deinit(&runs);
	return FM_OK;
}
