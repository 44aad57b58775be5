// SPDX-License-Identifier: Apache-2.0
#include "render/export/slices.h"

#include <stdlib.h>

#include "aggregate/tree/path.h"
#include "render/shared/label.h"

struct thread_rows {
	struct fm_path path;           // of the row of samples
	uint64_t sampled_ns;           // the end of the latest sample
	uint64_t depth, last_event_ns; // of the row of calls
};

struct reading {
	const struct fm_analysis *a;
	const struct fm_slice_writer *writer;
	void *arg;
	uint64_t origin_ns;
	FM_VEC(struct thread_rows) threads;
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

bool fm_slices_has_calls(const struct fm_analysis *a)
{
	return fm_profile_meta(a->profile, "trace_events", (struct fm_str){ "", 0 }).len > 0;
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
	t->sampled_ns = FM_MAX(s->time_ns, start);
}

// ---- calls ----

static void begin(struct reading *r, uint32_t thread_id, uint64_t ns, enum fm_slice_kind kind, uint32_t id)
{
	if (id == FM_NO_ID)
		kind = FM_SLICE_LOST;
	r->writer->begin(r->arg, (struct fm_slice_row){ thread_id, false }, ns, (struct fm_slice){ kind, id });
	r->threads.items[thread_id].depth++;
}

static void end(struct reading *r, uint32_t thread_id, uint64_t ns)
{
	if (!r->threads.items[thread_id].depth)
		return;
	r->writer->end(r->arg, (struct fm_slice_row){ thread_id, false }, ns);
	r->threads.items[thread_id].depth--;
}

static struct fm_str name_of(const struct reading *r, uint32_t id)
{
	return id == FM_NO_ID ? FM_STR_LIT("(lost)") : r->a->profile->trace_names.items[id].name;
}

static void add_event(struct reading *r, uint32_t thread_id, const struct fm_zone_event *ev)
{
	struct fm_slice_row row = { thread_id, false };
	switch (ev->op) {
	case FM_ZONE_ENTER:
	case FM_ZONE_RESUME:
		begin(r, thread_id, ev->time_ns, FM_SLICE_CALL, ev->ref);
		break;
	case FM_ZONE_BEGIN:
		begin(r, thread_id, ev->time_ns, FM_SLICE_ZONE, ev->ref);
		break;
	case FM_ZONE_LEAVE:
		end(r, thread_id, ev->time_ns);
		break;
	case FM_ZONE_MARK:
		r->writer->mark(r->arg, row, ev->time_ns, name_of(r, ev->ref));
		break;
	case FM_ZONE_COUNTER:
		r->writer->counter(r->arg, row, ev->time_ns, name_of(r, ev->ref), ev->value);
		break;
	case FM_ZONE_NOTE:
		while (ev->ref == FM_ZONE_OFF && r->threads.items[thread_id].depth)
			end(r, thread_id, ev->time_ns);
		break;
	}
}

static void add_batch(struct reading *r, struct fm_zone_batch *batch)
{
	fm_vec_grow_to(&r->threads, (size_t)batch->thread_id + 1);
	struct thread_rows *t = &r->threads.items[batch->thread_id];
	uint64_t start_ns = FM_MAX(FM_MAX(batch->time_ns, r->origin_ns), t->last_event_ns);
	while (t->depth > batch->depth) // parts of the file are missing
		end(r, batch->thread_id, start_ns);
	for (uint32_t i = 0; t->depth < batch->depth && i < batch->n_listed; i++)
		begin(r, batch->thread_id, start_ns, FM_SLICE_LOST, FM_NO_ID);
	struct fm_zone_event ev;
	while (fm_trace_next(r->a->profile, batch, &ev) == FM_OK && !r->writer->is_over(r->arg)) {
		ev.time_ns = FM_MAX(FM_MAX(ev.time_ns, r->origin_ns), t->last_event_ns);
		t->last_event_ns = ev.time_ns;
		add_event(r, batch->thread_id, &ev);
	}
}

enum fm_err fm_slices_read(const struct fm_analysis *a, const struct fm_slice_writer *writer, void *arg,
			   struct fm_diag *diag)
{
	struct reading r = { .a = a, .writer = writer, .arg = arg, .origin_ns = fm_slices_origin_ns(a) };
	fm_vec_grow_to(&r.threads, a->tally.threads.n);
	struct fm_reader *reader;
	enum fm_err err = fm_reader_open(a->path, &reader, diag);
	if (err)
		return err;
	struct fm_event event;
	while (!fm_reader_next(reader, &event) && !writer->is_over(arg)) {
		const struct fm_sample *s = &event.sample;
		if (event.type == FM_EVENT_SAMPLE && s->thread_id < a->tally.threads.n && s->class < FM_N_CLASSES &&
		    fm_view_shows_class(&a->options, s->class))
			add_sample(&r, s);
		else if (event.type == FM_EVENT_TRACE)
			add_batch(&r, event.trace);
	}
	for (uint32_t i = 0; i < r.threads.n; i++) {
		move_to(&r, i, FM_MAX(r.threads.items[i].sampled_ns, r.origin_ns), 0);
		while (r.threads.items[i].depth)
			end(&r, i, r.threads.items[i].last_event_ns);
		fm_path_deinit(&r.threads.items[i].path);
	}
	fm_reader_close(reader);
	fm_vec_deinit(&r.threads);
	for (size_t i = 0; i < a->profile->memory_levels.n && !writer->is_over(arg); i++) {
		const struct fm_memory_level *level = &a->profile->memory_levels.items[i];
		if (level->process_id < a->profile->processes.n)
			writer->memory(arg, level->process_id, FM_MAX(level->time_ns, r.origin_ns), level->rss_bytes);
	}
	return FM_OK;
}
