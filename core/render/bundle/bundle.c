// SPDX-License-Identifier: Apache-2.0
#include "render/bundle/bundle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "render/bundle/part.h"
#include "render/shared/facts.h"
#include "render/shared/label.h"
#include "render/json/report_json.h"

const struct fm_bundle_limits fm_bundle_for_server = {
	.max_nodes = 200000,
	.max_cells = 600000,
	.max_heap_rows = 200000,
	.max_blocks = 200000,
	.max_zones = 200000,
	.max_zone_spans = 50000, // the page asks for the rest as it is looked at
	.max_samples = 250000,
	.max_instructions = 40000,
	.max_functions = 50000,
	.max_lines = 50000,
	.max_edges = 50000,
	.text_bytes = 64u << 20,
	.source_bytes = 16u << 20,
};

// Together below 4 MB when packed, whatever the capture: what mail and chat programs take.
const struct fm_bundle_limits fm_bundle_for_file = {
	.max_nodes = 80000,
	.max_cells = 100000,
	.max_heap_rows = 40000,
	.max_blocks = 100000,
	.max_zones = 40000,
	.max_zone_spans = 40000,
	.max_samples = 80000,
	.max_instructions = 8000,
	.max_functions = 10000,
	.max_lines = 10000,
	.max_edges = 10000,
	.text_bytes = 8u << 20,
	.source_bytes = 3u << 20,
};

uint64_t fm_bundle_start_ns(const struct fm_analysis *a)
{
	uint64_t start = UINT64_MAX;
	for (size_t i = 0; i < a->profile->processes.n; i++)
		if (a->profile->processes.items[i].info.start_ns)
			start = FM_MIN(start, a->profile->processes.items[i].info.start_ns);
	for (size_t i = 0; i < a->tally.threads.n; i++)
		if (a->tally.threads.items[i].n)
			start = FM_MIN(start, a->tally.threads.items[i].first_ns);
	return start == UINT64_MAX ? 0 : start;
}

static void add_head(struct fm_json *j, void *ctx)
{
	const struct fm_bundle *b = ctx;
	struct fm_buf title = { 0 };
	fm_label_command(&title, fm_facts_command(b->a->profile));
	fm_json_str(j, "title", (struct fm_str){ (const char *)title.data, (uint32_t)FM_MIN(title.len, 4096u) });
	fm_buf_deinit(&title);
	fm_json_str(j, "fathom", FM_STR_LIT(FM_VERSION));
	fm_json_bool(j, "live", b->options->is_live);
	fm_json_bool(j, "can_diff", b->options->can_diff);
	fm_json_bool(j, "lacks_disassembler", b->lacks_disassembler);
	fm_json_object(j, "limits");
	fm_json_u64(j, "max_samples", b->limits->max_samples);
	fm_json_u64(j, "nodes_left_out", b->tree.n_left_out);
	fm_json_u64(j, "samples_left_out", b->timeline.n_merged);
	fm_json_u64(j, "functions_left_out", b->n_functions_left_out);
	fm_json_u64(j, "lines_left_out", b->n_lines_left_out);
	fm_json_u64(j, "texts_left_out", b->text.n_left_out);
	if (b->zones) {
		fm_json_u64(j, "zones", b->zones->n + b->zones->n_left_out);
		fm_json_u64(j, "zones_merged", b->spans.n_merged);
		fm_json_u64(j, "zone_pixels", b->zone_pixels);
		fm_json_u64(j, "zones_left_out", b->zones->n_left_out + b->spans.n_deeper);
		fm_json_real(j, "zones_left_out_s", fm_seconds(b->zones->left_out_ns + b->spans.deeper_ns));
		fm_json_u64(j, "marks_left_out", b->zones->n_marks_left_out);
		fm_json_u64(j, "counter_values_left_out", b->n_values_left_out);
	}
	if (b->block_grain_s > 0) {
		fm_json_real(j, "block_grain_s", b->block_grain_s);
		fm_json_real(j, "block_step_s", b->block_step_s);
	}
	fm_json_end(j);
	fm_json_newline(j);
	fm_json_object(j, "report");
	fm_report_json(j, b->a, b->summary, &b->libraries, false);
	fm_json_end(j);
}

// The parts that take long need nothing of each other, and nothing that they are made of changes
// meanwhile: so they are made at once. Where no thread can be had, one after the other.
struct job {
	void (*run)(struct job *job);
	struct fm_bundle *b;
	pthread_t thread;
	bool has_thread;
	enum fm_err err;
	struct fm_diag diag;
};

static void *run_job(void *ctx)
{
	struct job *job = ctx;
	job->run(job);
	return NULL;
}

static void begin(struct job *job)
{
	job->has_thread = pthread_create(&job->thread, NULL, run_job, job) == 0;
	if (!job->has_thread)
		job->run(job);
}

static enum fm_err end(struct job *job, struct fm_diag *diag)
{
	if (job->has_thread)
		pthread_join(job->thread, NULL);
	job->has_thread = false;
	return job->err ? fm_diag_set(diag, job->err, "%s", job->diag.text) : FM_OK;
}

static void read_timeline(struct job *job)
{
	struct fm_bundle *b = job->b;
	struct fm_timeline_builder builder = { &b->timeline, &b->own_zones, b->limits->max_samples };
	const struct fm_observer observer = fm_timeline_observer(&builder);
	job->err = fm_reader_replay(b->a->reader, &observer, &job->diag);
	fm_timeline_finish(&builder);
}

static void build_summary(struct job *job)
{
	job->b->summary = fm_analysis_summary(job->b->a);
}

enum fm_err fm_bundle_write(FILE *out, struct fm_analysis *a, const struct fm_bundle_options *o, struct fm_diag *diag)
{
	struct fm_analysis *counted = a;
	bool is_filtered = o->filter && !fm_filter_is_empty(o->filter);
	enum fm_err err = FM_OK;
	if (is_filtered && (err = fm_filter_apply(o->filter, a, &counted, diag)))
		return err;
	struct fm_bundle b = { .a = counted,
			       .options = o,
			       .limits = o->limits,
			       .start_ns = fm_bundle_start_ns(a),
			       .memory = &a->tally.memory,
			       .heap_stacks = &a->heap.stacks };
	struct fm_heap_stack_rows in_range = { 0 };
	if (is_filtered && (o->filter->from_ns || o->filter->to_ns)) {
		fm_heap_stacks_within(&in_range, b.memory, o->filter->from_ns,
				      o->filter->to_ns ? o->filter->to_ns : UINT64_MAX);
		b.heap_stacks = &in_range;
	}
	struct job summary = { .run = build_summary, .b = &b }, timeline = { .run = read_timeline, .b = &b };
	if (!is_filtered && o->timeline) {
		b.timeline = *o->timeline;
		*o->timeline = (struct fm_timeline){ 0 };
		b.zones = o->zones;
	} else if (!is_filtered) {
		begin(&timeline);
		if (fm_analysis_may_have_trace(a) && !(err = end(&timeline, diag)))
			b.zones = &b.own_zones;
	}
	if (b.zones && !b.zones->end_ns)
		b.zones = NULL; // no trace after all
	if (b.zones)
		fm_bundle_name_trace(&b);
	fm_bundle_name_sums(&b);
	begin(&summary);
	fm_string_table_init(&b.text, o->limits->text_bytes);
	b.function_index = fm_alloc((fm_symbolizer_n_functions(a->symbolizer) + 1) * sizeof(*b.function_index));
	fm_bundle_add_tree(&b);
	fm_libraries_build(&b.libraries, &counted->tally, &counted->view, counted->symbolizer);
	err = end(&summary, diag);
	b.whole = fm_analysis_summary(a);
	fm_bundle_add_people(&b);
	fm_bundle_add_rows(&b);
	fm_bundle_add_memory(&b);
	fm_bundle_add_trace(&b);
	if (!is_filtered && !(err = end(&timeline, diag))) {
		fm_timeline_name(&b.timeline, counted);
		fm_bundle_add_samples(&b);
		if (!o->is_live) // it is read anew for each bundle
			fm_bundle_add_code(&b);
	}
	if (!err) {
		fm_bundle_add_names(&b);
		fm_string_table_columns(&b.text, &b.columns);
		fm_columns_write(&b.columns, out, add_head, &b);
	}
	if (is_filtered)
		fm_analysis_close(counted);
	fm_columns_deinit(&b.columns);
	fm_string_table_deinit(&b.text);
	fm_timeline_deinit(&b.timeline);
	fm_pruned_deinit(&b.tree);
	fm_libraries_deinit(&b.libraries);
	fm_bundle_trace_deinit(&b);
	fm_vec_deinit(&b.heap_rows);
	fm_vec_deinit(&in_range);
	fm_vec_deinit(&b.functions);
	fm_vec_deinit(&b.files);
	fm_map_deinit(&b.file_index);
	free(b.function_index);
	return err;
}
