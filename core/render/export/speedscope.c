// SPDX-License-Identifier: Apache-2.0
// The file format of speedscope.app: a sampled profile per thread, in order of time, weights in
// seconds.
//
// A stack is written out for every run of equal samples, so the file grows with runs. Past MAX_RUNS
// no browser opens it any more: then each distinct stack is written once, which the left-heavy and
// sandwich views show exactly the same.
#include <stdlib.h>

#include "aggregate/analysis/leaves.h"
#include "aggregate/tree/view.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/export/runs.h"

#define MAX_RUNS 1000000u // at 30 frames and 5 digits each: 150 MB

struct writer {
	struct fm_json j;
	struct fm_analysis *a;
	uint32_t *node_frame; // by node: index into shared.frames
	struct fm_path path;
};

static void write_frames(struct writer *w)
{
	const struct fm_view *view = &w->a->view;
	struct fm_map index = { 0 };
	fm_json_object(&w->j, "shared");
	fm_json_array(&w->j, "frames");
	for (uint32_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		bool is_new;
		uint64_t *frame =
			fm_map_at(&index, fm_place_key(node->function_id, node->line, node->is_inlined), &is_new);
		if (is_new) {
			*frame = index.n - 1;
			struct fm_buf name = { 0 };
			fm_label_name(&name, w->a, node);
			struct fm_str file = fm_label_file(w->a, node->function_id);
			fm_json_newline(&w->j);
			fm_json_object(&w->j, NULL);
			fm_json_str(&w->j, "name", (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
			fm_buf_deinit(&name);
			if (file.len)
				fm_json_str(&w->j, "file", file);
			if (node->line)
				fm_json_u64(&w->j, "line", node->line);
			fm_json_end(&w->j);
		}
		w->node_frame[i] = (uint32_t)*frame;
	}
	fm_json_end(&w->j);
	fm_json_end(&w->j);
	fm_map_deinit(&index);
}

static void write_stack(struct writer *w, uint32_t node)
{
	fm_path_move(&w->path, &w->a->view, node);
	fm_json_array(&w->j, NULL);
	for (size_t d = 0; d < w->path.nodes.n; d++)
		fm_json_u64(&w->j, NULL, w->node_frame[w->path.nodes.items[d]]);
	fm_json_end(&w->j);
}

static bool is_bytes(const struct writer *w)
{
	return w->a->options.metric != FM_METRIC_TIME;
}

static void write_weight(struct writer *w, const char *key, uint64_t weight)
{
	if (is_bytes(w))
		fm_json_u64(&w->j, key, weight);
	else
		fm_json_real(&w->j, key, fm_seconds(weight));
}

static void begin_profile(struct writer *w, uint32_t thread_id, uint64_t weight_ns)
{
	struct fm_buf name = { 0 };
	uint32_t process = fm_label_process_of(w->a, thread_id);
	if (process != FM_NO_ID && w->a->profile->processes.n > 1)
		fm_buf_printf(&name, "process %u ", w->a->profile->processes.items[process].info.pid);
	fm_label_thread(&name, w->a, thread_id);
	fm_json_newline(&w->j);
	fm_json_object(&w->j, NULL);
	fm_json_str(&w->j, "type", FM_STR_LIT("sampled"));
	fm_json_str(&w->j, "name", (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
	fm_json_str(&w->j, "unit", is_bytes(w) ? FM_STR_LIT("bytes") : FM_STR_LIT("seconds"));
	fm_json_u64(&w->j, "startValue", 0);
	write_weight(w, "endValue", weight_ns);
	fm_buf_deinit(&name);
}

static enum fm_err write_timeline(struct writer *w, struct fm_spool *spool, uint32_t thread_id, struct fm_diag *diag)
{
	struct fm_run runs[FM_SPOOL_BLOCK];
	uint32_t n;
	enum fm_err err = FM_OK;
	begin_profile(w, thread_id, spool->threads.items[thread_id].weight_ns);
	for (int is_weights = 0; is_weights < 2; is_weights++) {
		fm_json_array(&w->j, is_weights ? "weights" : "samples");
		for (size_t b = 0; !(err = fm_spool_read(spool, thread_id, b, runs, &n, diag)); b++)
			for (uint32_t i = 0; i < n; i++)
				if (is_weights)
					fm_json_real(&w->j, NULL, fm_seconds(runs[i].weight_ns));
				else
					write_stack(w, runs[i].node);
		fm_json_end(&w->j);
		if (err != FM_E_END)
			return err;
	}
	fm_json_end(&w->j);
	return FM_OK;
}

static void write_distinct(struct writer *w, const struct fm_leaf *leaves, size_t n)
{
	uint64_t weight_ns = 0;
	for (size_t i = 0; i < n; i++)
		weight_ns += leaves[i].weight_ns;
	begin_profile(w, leaves[0].group, weight_ns);
	fm_json_array(&w->j, "samples");
	for (size_t i = 0; i < n; i++)
		write_stack(w, leaves[i].node);
	fm_json_end(&w->j);
	fm_json_array(&w->j, "weights");
	for (size_t i = 0; i < n; i++)
		write_weight(w, NULL, leaves[i].weight_ns);
	fm_json_end(&w->j);
	fm_json_end(&w->j);
}

// The viewer refuses a file without a profile.
static void write_empty(struct writer *w)
{
	begin_profile(w, 0, 0);
	fm_json_array(&w->j, "samples");
	fm_json_end(&w->j);
	fm_json_array(&w->j, "weights");
	fm_json_end(&w->j);
	fm_json_end(&w->j);
}

static enum fm_err write_timelines(struct writer *w, struct fm_spool *spool, struct fm_diag *diag)
{
	size_t n;
	_cleanup_free_ struct fm_busy *order = fm_runs_busiest(w->a, &n); // it opens the first one
	enum fm_err err = FM_OK;
	for (size_t i = 0; i < n && !err; i++)
		err = write_timeline(w, spool, order[i].thread_id, diag);
	if (!n)
		write_empty(w);
	return err;
}

static void write_leaves(struct writer *w)
{
	struct fm_view_options by_thread = w->a->options;
	by_thread.threads = true;
	struct fm_leaves leaves;
	fm_leaves_of(&leaves, w->a, &by_thread);
	for (size_t i = 0, n; i < leaves.items.n; i += n) {
		for (n = 1; i + n < leaves.items.n && leaves.items.items[i + n].group == leaves.items.items[i].group;)
			n++;
		write_distinct(w, &leaves.items.items[i], n);
	}
	if (!leaves.items.n)
		write_empty(w);
	fm_leaves_deinit(&leaves);
}

enum fm_err fm_write_speedscope(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct fm_spool spool = { 0 };
	// Bytes have no length in time: each distinct stack once.
	const struct fm_runs_wanted wanted = { .thread_id = FM_NO_ID, .max_runs = MAX_RUNS };
	enum fm_err err = a->options.metric == FM_METRIC_TIME ? fm_runs_fill(&spool, a, &wanted, diag) : FM_E_END;
	bool is_in_order = err != FM_E_END;
	if (err && is_in_order) {
		fm_spool_deinit(&spool);
		return err;
	}
	err = FM_OK;
	struct writer w = { .a = a, .node_frame = fm_alloc(a->view.nodes.n * sizeof(uint32_t)) };
	fm_json_init(&w.j, out);
	fm_json_object(&w.j, NULL);
	fm_json_str(&w.j, "$schema", FM_STR_LIT("https://www.speedscope.app/file-format-schema.json"));
	fm_json_str(&w.j, "exporter", FM_STR_LIT("fathom@" FM_VERSION));
	fm_json_str(&w.j, "name",
		    is_in_order ? FM_STR_LIT("fathom profile")
		    : is_bytes(&w)
			    ? FM_STR_LIT("fathom profile, bytes")
			    : FM_STR_LIT("fathom profile (each distinct stack once: too many samples for a timeline)"));
	fm_json_u64(&w.j, "activeProfileIndex", 0);
	write_frames(&w);
	fm_json_array(&w.j, "profiles");
	if (is_in_order)
		err = write_timelines(&w, &spool, diag);
	else
		write_leaves(&w);
	fm_json_end(&w.j);
	fm_json_end(&w.j);
	fm_json_newline(&w.j);
	free(w.node_frame);
	fm_path_deinit(&w.path);
	fm_spool_deinit(&spool);
	return err;
}
