// What a trace adds to the bundle: calls and their durations per function, and the longest zones, marks and counters for the
// timeline. Absent when the capture has no trace.
#include <stdlib.h>

#include "aggregate/trace.h"
#include "render/bundle_part.h"

bool fm_bundle_has_trace(const struct fm_analysis *a)
{
	return fm_profile_meta(a->profile, "trace_events", (struct fm_str){ "", 0 }).len > 0;
}

// FM_NO_ID: the file has grown since the analysis, or it is no code.
static uint32_t function_of_code(const struct fm_bundle *b, uint32_t code_id)
{
	return code_id < b->a->profile->codes.n ? fm_symbolizer_code(b->a->symbolizer, code_id) : FM_NO_ID;
}

enum fm_err fm_bundle_read_trace(struct fm_bundle *b, struct fm_diag *diag)
{
	struct fm_trace_stats *s;
	enum fm_err err = fm_zones_read(&b->zones, b->a->path, b->limits->max_zones, diag);
	if (err || (err = fm_trace_stats_read(b->a->path, &s, diag)))
		return err;
	bool *is_done = fm_alloc(s->functions.n + 1); // several codes may be one function
	for (uint32_t i = 1; i < s->of_code.n; i++) {
		uint32_t traced = s->of_code.items[i], function_id = traced ? function_of_code(b, i - 1) : FM_NO_ID;
		if (function_id == FM_NO_ID || is_done[traced - 1])
			continue;
		is_done[traced - 1] = true;
		const struct fm_trace_function *f = &s->functions.items[traced - 1];
		uint64_t *at = fm_map_at(&b->call_index, function_id, NULL);
		if (!*at) {
			fm_vec_push(&b->calls,
				    (struct fm_bundle_calls){ .function_id = function_id, .min_ns = UINT64_MAX });
			*at = b->calls.n;
		}
		struct fm_bundle_calls *calls = &b->calls.items[*at - 1];
		calls->n_calls += f->n_calls;
		calls->n_spans += f->n_spans;
		calls->spans_ns += f->spans_ns;
		calls->min_ns = FM_MIN(calls->min_ns, f->min_ns);
		calls->max_ns = FM_MAX(calls->max_ns, f->max_ns);
	}
	free(is_done);
	fm_trace_stats_free(s);
	return FM_OK;
}

void fm_bundle_add_calls(struct fm_bundle *b, const uint32_t *function_ids, size_t n)
{
	if (!b->calls.n)
		return;
	double *calls = fm_columns_f64(&b->columns, "func_row.calls", n);
	double *min = fm_columns_f64(&b->columns, "func_row.min_s", n);
	double *mean = fm_columns_f64(&b->columns, "func_row.mean_s", n);
	double *max = fm_columns_f64(&b->columns, "func_row.max_s", n);
	for (size_t i = 0; i < n; i++) {
		const uint64_t *at = fm_map_find(&b->call_index, function_ids[i]);
		if (!at)
			continue;
		const struct fm_bundle_calls *c = &b->calls.items[*at - 1];
		calls[i] = (double)c->n_calls;
		min[i] = c->n_spans ? fm_seconds(c->min_ns) : 0;
		mean[i] = c->n_spans ? fm_seconds(c->spans_ns / c->n_spans) : 0;
		max[i] = fm_seconds(c->max_ns);
	}
}

static double since_start(const struct fm_bundle *b, uint64_t time_ns)
{
	return time_ns > b->start_ns ? fm_seconds(time_ns - b->start_ns) : 0;
}

static uint32_t text_of_name(struct fm_bundle *b, uint32_t name_id)
{
	const struct fm_profile *p = b->a->profile;
	return name_id < p->trace_names.n ? fm_string_table_name(&b->text, p->trace_names.items[name_id].name) : 0;
}

enum { CALL = 0, ZONE = 1 };

static void write_zones(struct fm_bundle *b, uint32_t n_threads)
{
	size_t n = 0;
	for (size_t i = 0; i < b->zones.items.n;
	     i++) // threads that the file got since the analysis have no number here
		n += b->zones.items.items[i].thread_id < n_threads;
	uint32_t *thread = fm_columns_u32(&b->columns, "zone.thread", n);
	double *start = fm_columns_f64(&b->columns, "zone.start_s", n);
	double *duration = fm_columns_f64(&b->columns, "zone.duration_s", n);
	uint32_t *name = fm_columns_u32(&b->columns, "zone.name", n);
	uint32_t *function = fm_columns_u32(&b->columns, "zone.function", n);
	uint16_t *depth = fm_columns_u16(&b->columns, "zone.depth", n);
	uint8_t *kind = fm_columns_u8(&b->columns, "zone.kind", n);
	for (size_t i = 0; i < n; i++) { // sorted by thread: the unknown ones come last
		const struct fm_zone *z = &b->zones.items.items[i];
		bool is_name = fm_zone_ref_is_name(z->ref);
		uint32_t id = z->ref ? fm_zone_ref_id(z->ref) : FM_NO_ID;
		uint32_t function_id = is_name ? FM_NO_ID : function_of_code(b, id);
		thread[i] = z->thread_id;
		start[i] = since_start(b, z->begin_ns);
		duration[i] = fm_seconds(z->duration_ns);
		name[i] = is_name ? text_of_name(b, id)
			  : function_id == FM_NO_ID
				  ? fm_string_table_name(&b->text, FM_STR_LIT("(events were lost here)"))
				  : 0;
		function[i] = function_id == FM_NO_ID ? FM_NO_ID : fm_bundle_function(b, function_id);
		depth[i] = z->depth;
		kind[i] = is_name && id < b->a->profile->trace_names.n &&
					  b->a->profile->trace_names.items[id].kind == FM_NAME_ZONE
				  ? ZONE
				  : CALL;
	}
}

static void write_marks(struct fm_bundle *b)
{
	size_t n = b->zones.marks.n;
	uint32_t *thread = fm_columns_u32(&b->columns, "mark.thread", n);
	double *time_s = fm_columns_f64(&b->columns, "mark.time_s", n);
	uint32_t *text = fm_columns_u32(&b->columns, "mark.text", n);
	for (size_t i = 0; i < n; i++) {
		thread[i] = b->zones.marks.items[i].thread_id;
		time_s[i] = since_start(b, b->zones.marks.items[i].time_ns);
		text[i] = text_of_name(b, b->zones.marks.items[i].name);
	}
}

static void write_counters(struct fm_bundle *b)
{
	size_t n = 0, at = 0;
	for (size_t i = 0; i < b->zones.counters.n; i++)
		n += b->zones.counters.items[i].points.n;
	uint32_t *name = fm_columns_u32(&b->columns, "counter.name", n);
	double *time_s = fm_columns_f64(&b->columns, "counter.time_s", n);
	double *value = fm_columns_f64(&b->columns, "counter.value", n);
	for (size_t i = 0; i < b->zones.counters.n; i++) {
		const struct fm_zone_counter *c = &b->zones.counters.items[i];
		uint32_t text = text_of_name(b, c->name);
		for (size_t k = 0; k < c->points.n; k++, at++) {
			name[at] = text;
			time_s[at] = since_start(b, c->points.items[k].time_ns);
			value[at] = c->points.items[k].value;
		}
	}
}

void fm_bundle_add_trace(struct fm_bundle *b)
{
	uint32_t n_threads = (uint32_t)FM_MAX(b->a->profile->threads.n, b->a->tally.threads.n);
	if (b->zones.items.n)
		write_zones(b, n_threads);
	if (b->zones.marks.n)
		write_marks(b);
	if (b->zones.counters.n)
		write_counters(b);
}

void fm_bundle_trace_deinit(struct fm_bundle *b)
{
	fm_zones_deinit(&b->zones);
	fm_vec_deinit(&b->calls);
	fm_map_deinit(&b->call_index);
}
