// SPDX-License-Identifier: Apache-2.0
#include "render/export/slices.h"

#include <stdlib.h>

#include "aggregate/tree/view.h"
#include "render/shared/label.h"

struct thread_rows {
	struct fm_path path;             // of the row of samples
	uint64_t sampled_ns;             // the end of the latest sample
	struct fm_trace_stack calls;     // of the row of calls
	uint64_t cpu_from_ns, cpu_to_ns; // a stretch of samples on one CPU; equal = there is none
	uint16_t cpu;
};

struct reading {
	const struct fm_analysis *a;
	const struct fm_slice_writer *writer;
	void *arg;
	uint64_t origin_ns;
	FM_VEC(struct thread_rows) threads;
	FM_VEC(uint64_t) told_ns; // by CPU: the end of what the writer was told last
};

uint64_t fm_slices_origin_ns(const struct fm_analysis *a)
{
	uint64_t origin_ns = UINT64_MAX;
	for (size_t i = 0; i < a->tally.threads.n; i++)
		if (a->tally.threads.items[i].n)
			origin_ns = FM_MIN(origin_ns, a->tally.threads.items[i].first_ns);
	if (a->profile->processes.n && a->profile->processes.items[0].info.start_ns)
		origin_ns = FM_MIN(origin_ns, a->profile->processes.items[0].info.start_ns);
	return origin_ns;
}

struct fm_slice_place fm_slice_name(struct fm_buf *name, const struct fm_analysis *a, struct fm_slice slice)
{
	struct fm_slice_place place = { { "", 0 }, 0 };
	struct fm_str text = FM_STR_LIT("(lost)");
	if (slice.kind == FM_SLICE_CALL) {
		const struct fm_code_info *code = &a->profile->codes.items[slice.id];
		text = fm_symbolizer_function(a->symbolizer, fm_symbolizer_code(a->symbolizer, slice.id))->name;
		place = (struct fm_slice_place){ code->filename, code->first_line };
	} else if (slice.kind == FM_SLICE_ZONE) {
		const struct fm_trace_name *zone = &a->profile->trace_names.items[slice.id];
		text = zone->name;
		place = (struct fm_slice_place){ zone->file, zone->line };
	} else if (slice.kind == FM_SLICE_FRAME) {
		const struct fm_node *node = &a->view.nodes.items[slice.id];
		fm_label_name(name, a, node);
		return (struct fm_slice_place){ fm_label_file(a, node->function_id), node->line };
	}
	fm_buf_bytes(name, text.p, text.len);
	return place;
}

// ---- samples ----

// Closes and opens frames so that the thread stands in node from ns on.
static void move_to(struct reading *r, uint32_t thread_id, uint64_t ns, uint32_t node)
{
	struct fm_path *path = &r->threads.items[thread_id].path;
	struct fm_slice_row row = { thread_id, true };
	const struct fm_view *view = &r->a->view;
	size_t n_before = path->nodes.n;
	uint32_t kept = fm_path_move(path, view, node);
	for (size_t d = n_before; d > kept; d--)
		r->writer->end(r->arg, row, ns);
	for (uint32_t d = kept; d < path->nodes.n; d++)
		r->writer->begin(r->arg, row, ns, (struct fm_slice){ FM_SLICE_FRAME, path->nodes.items[d] });
}

static void tell_cpu(struct reading *r, uint32_t thread_id)
{
	struct thread_rows *t = &r->threads.items[thread_id];
	fm_vec_grow_to(&r->told_ns, (size_t)t->cpu + 1);
	uint64_t from_ns = FM_MAX(t->cpu_from_ns, r->told_ns.items[t->cpu]);
	if (from_ns < t->cpu_to_ns) {
		r->writer->on_cpu(r->arg, t->cpu, thread_id, from_ns, t->cpu_to_ns);
		r->told_ns.items[t->cpu] = t->cpu_to_ns;
	}
	t->cpu_from_ns = t->cpu_to_ns;
}

static void add_cpu(struct reading *r, const struct fm_sample *s, uint64_t start_ns, bool is_hole)
{
	struct thread_rows *t = &r->threads.items[s->thread_id];
	if (!r->writer->on_cpu || !fm_class_is_cpu(s->class))
		return;
	if (is_hole || t->cpu != s->cpu || t->cpu_to_ns != start_ns) {
		tell_cpu(r, s->thread_id);
		t->cpu_from_ns = start_ns;
	}
	t->cpu = s->cpu;
	t->cpu_to_ns = FM_MAX(s->time_ns, start_ns);
}

static void add_sample(struct reading *r, const struct fm_sample *s)
{
	struct thread_rows *t = &r->threads.items[s->thread_id];
	uint64_t start = s->time_ns > s->weight_ns ? s->time_ns - s->weight_ns : 0;
	start = FM_MAX(start, r->origin_ns);
	// Timers jitter: only a hole of half a sample's weight or more is one.
	bool is_hole = start > t->sampled_ns && start - t->sampled_ns > s->weight_ns / 2;
	if (is_hole && t->path.nodes.n)
		move_to(r, s->thread_id, t->sampled_ns, 0);
	if (!is_hole || start < t->sampled_ns)
		start = t->sampled_ns;
	move_to(r, s->thread_id, start, fm_analysis_node(r->a, s));
	add_cpu(r, s, start, is_hole);
	t->sampled_ns = FM_MAX(s->time_ns, start);
}

// ---- calls ----

static struct fm_slice slice_of(fm_zone_ref ref)
{
	if (!ref)
		return (struct fm_slice){ FM_SLICE_LOST, FM_NO_ID };
	return (struct fm_slice){ fm_zone_ref_is_name(ref) ? FM_SLICE_ZONE : FM_SLICE_CALL, fm_zone_ref_id(ref) };
}

static struct fm_str name_of(const struct reading *r, uint32_t id)
{
	return id == FM_NO_ID ? FM_STR_LIT("(lost)") : r->a->profile->trace_names.items[id].name;
}

static void add_batch(struct reading *r, struct fm_zone_batch *batch)
{
	fm_vec_grow_to(&r->threads, (size_t)batch->thread_id + 1);
	struct fm_trace_stack *calls = &r->threads.items[batch->thread_id].calls;
	struct fm_slice_row row = { batch->thread_id, false };
	struct fm_trace_walk walk;
	struct fm_trace_step step;
	calls->last_ns = FM_MAX(calls->last_ns, r->origin_ns);
	fm_trace_walk_begin(&walk, r->a->profile, calls, batch);
	while (!r->writer->is_over(r->arg) && fm_trace_walk_next(&walk, &step)) {
		switch (step.kind) {
		case FM_TRACE_BEGIN:
			r->writer->begin(r->arg, row, step.ns, slice_of(step.ref));
			break;
		case FM_TRACE_END:
			r->writer->end(r->arg, row, step.ns);
			break;
		case FM_TRACE_MARK:
			r->writer->mark(r->arg, row, step.ns, name_of(r, step.id));
			break;
		case FM_TRACE_COUNTER:
			r->writer->counter(r->arg, row, step.ns, name_of(r, step.id), step.value);
			break;
		}
	}
}

// ---- both, as they come ----

static void on_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	struct reading *r = ctx;
	for (const struct fm_sample *s = samples; s < samples + n && !r->writer->is_over(r->arg); s++)
		if (fm_analysis_knows(r->a, s) && fm_view_shows_class(&r->a->options, s->class))
			add_sample(r, s);
}

static void on_event(void *ctx, const struct fm_profile *profile, struct fm_event *event)
{
	(void)profile;
	if (event->type == FM_EVENT_TRACE)
		add_batch(ctx, event->trace);
}

static bool is_done(void *ctx)
{
	const struct reading *r = ctx;
	return r->writer->is_over(r->arg);
}

enum fm_err fm_slices_read(const struct fm_analysis *a, const struct fm_slice_writer *writer, void *arg,
			   struct fm_diag *diag)
{
	struct reading r = { .a = a, .writer = writer, .arg = arg, .origin_ns = fm_slices_origin_ns(a) };
	const struct fm_observer observer = { writer->leaves_samples_out ? NULL : on_samples, on_event, is_done, &r };
	fm_vec_grow_to(&r.threads, a->tally.threads.n);
	enum fm_err err = fm_reader_replay(a->reader, &observer, diag);
	for (uint32_t i = 0; i < r.threads.n; i++) {
		struct thread_rows *t = &r.threads.items[i];
		move_to(&r, i, FM_MAX(t->sampled_ns, r.origin_ns), 0);
		if (writer->on_cpu)
			tell_cpu(&r, i);
		for (; t->calls.n_open; t->calls.n_open--)
			writer->end(arg, (struct fm_slice_row){ i, false }, t->calls.last_ns);
		fm_path_deinit(&t->path);
	}
	fm_vec_deinit(&r.threads);
	fm_vec_deinit(&r.told_ns);
	for (size_t i = 0; i < a->profile->memory_levels.n && !writer->is_over(arg); i++) {
		const struct fm_memory_level *level = &a->profile->memory_levels.items[i];
		if (level->process_id < a->profile->processes.n)
			writer->memory(arg, level->process_id, FM_MAX(level->time_ns, r.origin_ns), level->rss_bytes);
	}
	return err;
}
