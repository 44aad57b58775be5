#include "cli/load_runs.h"

#include <stdlib.h>
#include <string.h>

#include "render/compare.h"
#include "render/facts.h"

enum fm_err fm_load_runs(struct fm_runs *ret, const struct fm_captures *captures, const struct fm_view_options *options,
			 struct fm_diag *diag)
{
	*ret = (struct fm_runs){ 0 };
	for (size_t i = 0; i < captures->paths.n; i++) {
		struct fm_analysis *a;
		enum fm_err err = fm_analysis_open(captures->paths.items[i], options, &a, diag);
		if (err) {
			fm_runs_deinit(ret);
			return err;
		}
		struct fm_summary t;
		struct fm_facts f;
		fm_summary_build(&t, a->profile, &a->tally, &a->view, a->symbolizer, options);
		fm_facts_gather(&f, a);
		uint64_t block = a->heap.is_exact ? 0 : fm_facts_meta_u64(a->profile, "alloc_mean_bytes");
		struct fm_run_totals totals = { f.wall_s, f.cpu_s, (double)f.max_rss_bytes, (double)block };
		fm_runs_add(ret, a, &t, &totals);
		fm_summary_deinit(&t);
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
