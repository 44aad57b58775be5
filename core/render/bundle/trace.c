// SPDX-License-Identifier: Apache-2.0
// What a trace adds to the bundle: calls and their durations per function, and zones, marks and
// counters for the timeline. Absent when the capture has no trace.
#include <stdlib.h>

#include "render/bundle/part.h"

// FM_NO_ID: it is no code.
static uint32_t function_of(const struct fm_bundle *b, fm_zone_ref ref)
{
	uint32_t id = ref && !fm_zone_ref_is_name(ref) ? fm_zone_ref_id(ref) : FM_NO_ID;
	return id < b->a->profile->codes.n ? fm_symbolizer_code(b->a->symbolizer, id) : FM_NO_ID;
}

static struct fm_bundle_calls *calls_of(struct fm_bundle *b, uint32_t function_id)
{
	uint64_t *at = fm_map_at(&b->call_index, function_id, NULL);
	if (!*at) {
		fm_vec_push(&b->calls, (struct fm_bundle_calls){ .function_id = function_id, .min_ns = UINT64_MAX });
		*at = b->calls.n;
	}
	return &b->calls.items[*at - 1];
}

void fm_bundle_name_sums(struct fm_bundle *b)
{
	const struct fm_profile *p = b->a->profile;
	for (size_t i = 0; i < p->call_sums.n; i++) {
		const struct fm_call_sum *sum = &p->call_sums.items[i];
		uint32_t function_id = sum->is_pair ? FM_NO_ID : function_of(b, sum->callee);
		if (function_id == FM_NO_ID)
			continue;
		struct fm_bundle_calls *calls = calls_of(b, function_id);
		calls->n_calls += sum->n_calls;
		calls->own_ns += sum->own_ns;
		calls->total_ns += sum->total_ns;
	}
}

void fm_bundle_name_trace(struct fm_bundle *b)
{
	const struct fm_zones *z = b->zones;
	b->label_functions = fm_alloc((z->labels.n + 1) * sizeof(*b->label_functions));
	for (size_t i = 0; i < z->labels.n; i++) {
		const struct fm_zone_label *label = &z->labels.items[i];
		uint32_t function_id = b->label_functions[i] = function_of(b, label->ref);
		if (function_id == FM_NO_ID)
			continue;
		struct fm_bundle_calls *calls = calls_of(b, function_id); // several codes may be one function
		calls->n_calls += label->n_calls;
		calls->n_spans += label->spans.n;
		calls->spans_ns += label->spans.sum_ns;
		calls->own_ns += label->own_ns;
		calls->total_ns += label->total_ns;
		if (label->spans.n)
			calls->min_ns = FM_MIN(calls->min_ns, label->spans.min_ns);
		calls->max_ns = FM_MAX(calls->max_ns, label->spans.max_ns);
	}
}

void fm_bundle_add_calls(struct fm_bundle *b, const uint32_t *function_ids, size_t n)
{
	if (!b->calls.n)
		return;
	double *calls = fm_columns_f64(&b->columns, "func_row.calls", n);
	double *spans = fm_columns_f64(&b->columns, "func_row.spans", n);
	double *own = fm_columns_f64(&b->columns, "func_row.traced_own_s", n);
	double *total = fm_columns_f64(&b->columns, "func_row.traced_total_s", n);
	double *min = fm_columns_f64(&b->columns, "func_row.min_s", n);
	double *mean = fm_columns_f64(&b->columns, "func_row.mean_s", n);
	double *max = fm_columns_f64(&b->columns, "func_row.max_s", n);
	for (size_t i = 0; i < n; i++) {
		const uint64_t *at = fm_map_find(&b->call_index, function_ids[i]);
		if (!at)
			continue;
		const struct fm_bundle_calls *c = &b->calls.items[*at - 1];
		calls[i] = (double)c->n_calls;
		spans[i] = (double)c->n_spans;
		own[i] = fm_seconds(c->own_ns);
		total[i] = fm_seconds(c->total_ns);
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

static void write_labels(struct fm_bundle *b)
{
	size_t n = b->zones->labels.n;
	uint32_t *name = fm_columns_u32(&b->columns, "what.name", n);
	uint32_t *function = fm_columns_u32(&b->columns, "what.function", n);
	uint8_t *kind = fm_columns_u8(&b->columns, "what.kind", n);
	uint32_t *file = fm_columns_u32(&b->columns, "what.file", n);
	uint32_t *line = fm_columns_u32(&b->columns, "what.line", n);
	for (size_t i = 0; i < n; i++) {
		fm_zone_ref ref = b->zones->labels.items[i].ref;
		bool is_name = fm_zone_ref_is_name(ref);
		uint32_t id = fm_zone_ref_id(ref), function_id = b->label_functions[i];
		function[i] = function_id == FM_NO_ID ? FM_NO_ID : fm_bundle_function(b, function_id);
		name[i] = is_name ? text_of_name(b, id)
			  : function_id == FM_NO_ID
				  ? fm_string_table_name(&b->text, FM_STR_LIT("(events were lost here)"))
				  : 0;
		const struct fm_trace_name *named =
			is_name && id < b->a->profile->trace_names.n ? &b->a->profile->trace_names.items[id] : NULL;
		kind[i] = named && named->kind == FM_NAME_ZONE ? FM_BUNDLE_ZONE : FM_BUNDLE_CALL;
		file[i] = named ? fm_string_table_name(&b->text, named->file) : 0;
		line[i] = named ? named->line : 0;
	}
}

// Sums over all zones of each, whatever of them is in the picture.
static void write_label_sums(struct fm_bundle *b)
{
	size_t n = b->zones->labels.n;
	double *calls = fm_columns_f64(&b->columns, "what.calls", n);
	double *spans = fm_columns_f64(&b->columns, "what.spans", n);
	double *sum = fm_columns_f64(&b->columns, "what.sum_s", n);
	double *own = fm_columns_f64(&b->columns, "what.own_s", n);
	double *total = fm_columns_f64(&b->columns, "what.total_s", n);
	double *min = fm_columns_f64(&b->columns, "what.min_s", n);
	double *max = fm_columns_f64(&b->columns, "what.max_s", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_zone_label *label = &b->zones->labels.items[i];
		calls[i] = (double)label->n_calls;
		spans[i] = (double)label->spans.n;
		sum[i] = fm_seconds(label->spans.sum_ns);
		own[i] = fm_seconds(label->own_ns);
		total[i] = fm_seconds(label->total_ns);
		min[i] = fm_seconds(label->spans.min_ns);
		max[i] = fm_seconds(label->spans.max_ns);
	}
}

// How long calls took: exact, whatever of them is in the picture.
static void write_durations(struct fm_bundle *b)
{
	size_t n = 0, at = 0;
	for (size_t i = 0; i < b->zones->labels.n; i++)
		for (unsigned k = 0; k < FM_DURATION_BUCKETS && b->zones->labels.items[i].spans.buckets; k++)
			n += b->zones->labels.items[i].spans.buckets[k] > 0;
	uint32_t *what = fm_columns_u32(&b->columns, "duration.what", n);
	double *from = fm_columns_f64(&b->columns, "duration.from_s", n);
	double *to = fm_columns_f64(&b->columns, "duration.to_s", n);
	uint32_t *count = fm_columns_u32(&b->columns, "duration.n", n);
	for (uint32_t i = 0; i < b->zones->labels.n; i++)
		for (unsigned k = 0; k < FM_DURATION_BUCKETS && b->zones->labels.items[i].spans.buckets; k++)
			if (b->zones->labels.items[i].spans.buckets[k]) {
				what[at] = i;
				from[at] = fm_seconds(fm_duration_bucket_from(k));
				to[at] = fm_seconds(fm_duration_bucket_from(k + 1));
				count[at++] = b->zones->labels.items[i].spans.buckets[k];
			}
}

static void write_spans(struct fm_columns *columns, const struct fm_zone_spans *spans, uint64_t start_ns)
{
	size_t n = spans->items.n;
	uint32_t *thread = fm_columns_u32(columns, "zone.thread", n);
	double *start = fm_columns_f64(columns, "zone.start_s", n);
	double *duration = fm_columns_f64(columns, "zone.duration_s", n);
	uint32_t *what = fm_columns_u32(columns, "zone.what", n);
	uint16_t *depth = fm_columns_u16(columns, "zone.depth", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_zone_span *span = &spans->items.items[i];
		thread[i] = span->thread_id;
		start[i] = span->begin_ns > start_ns ? fm_seconds(span->begin_ns - start_ns) : 0;
		duration[i] = fm_seconds(span->end_ns - span->begin_ns);
		what[i] = span->label;
		depth[i] = span->depth;
	}
	if (!spans->n_merged)
		return;
	uint32_t *count = fm_columns_u32(columns, "zone.n", n);
	double *busy = fm_columns_f64(columns, "zone.busy_s", n);
	for (size_t i = 0; i < n; i++) {
		count[i] = (uint32_t)spans->items.items[i].n;
		busy[i] = fm_seconds(spans->items.items[i].busy_ns);
	}
}

static void write_marks(struct fm_bundle *b)
{
	size_t n = b->zones->marks.n;
	uint32_t *thread = fm_columns_u32(&b->columns, "mark.thread", n);
	double *time_s = fm_columns_f64(&b->columns, "mark.time_s", n);
	uint32_t *text = fm_columns_u32(&b->columns, "mark.text", n);
	for (size_t i = 0; i < n; i++) {
		thread[i] = b->zones->marks.items[i].thread_id;
		time_s[i] = since_start(b, b->zones->marks.items[i].time_ns);
		text[i] = text_of_name(b, b->zones->marks.items[i].name);
	}
}

static void write_counters(struct fm_bundle *b)
{
	size_t n = 0, at = 0;
	for (size_t i = 0; i < b->zones->counters.n; i++)
		n += b->zones->counters.items[i].points.n;
	uint32_t *name = fm_columns_u32(&b->columns, "counter.name", n);
	double *time_s = fm_columns_f64(&b->columns, "counter.time_s", n);
	double *value = fm_columns_f64(&b->columns, "counter.value", n);
	for (size_t i = 0; i < b->zones->counters.n; i++) {
		const struct fm_zone_counter *c = &b->zones->counters.items[i];
		uint32_t text = text_of_name(b, c->name);
		b->n_values_left_out += c->n_seen - c->points.n;
		for (size_t k = 0; k < c->points.n; k++, at++) {
			name[at] = text;
			time_s[at] = since_start(b, c->points.items[k].time_ns);
			value[at] = c->points.items[k].value;
		}
	}
}

void fm_bundle_add_trace(struct fm_bundle *b)
{
	const struct fm_zones *z = b->zones;
	if (z && z->n) {
		bool has_room = z->n <= b->limits->max_zones;
		struct fm_zone_range range = { .from_ns = z->begin_ns,
					       .to_ns = z->end_ns + 1,
					       .max_depth = has_room ? 0 : FM_BUNDLE_ZONE_DEPTH };
		fm_zone_spans_fit(&b->spans, z, range, has_room ? z->n : b->limits->max_zone_spans, &b->zone_pixels);
		write_labels(b);
		write_label_sums(b);
		write_durations(b);
		write_spans(&b->columns, &b->spans, b->start_ns);
	}
	if (z && z->marks.n)
		write_marks(b);
	if (z && z->counters.n)
		write_counters(b);
}

void fm_bundle_trace_deinit(struct fm_bundle *b)
{
	fm_zones_deinit(&b->own_zones);
	fm_zone_spans_deinit(&b->spans);
	fm_vec_deinit(&b->calls);
	fm_map_deinit(&b->call_index);
	free(b->label_functions);
}

static void add_zones_head(struct fm_json *j, void *ctx)
{
	const struct fm_zone_spans *spans = ctx;
	fm_json_object(j, "limits");
	fm_json_u64(j, "zones_merged", spans->n_merged);
	fm_json_u64(j, "zones_left_out", spans->n_deeper);
	fm_json_end(j);
	fm_json_object(j, "report");
	fm_json_end(j);
}

void fm_bundle_write_zones(FILE *out, const struct fm_analysis *a, const struct fm_zones *z,
			   const struct fm_zone_range *range)
{
	struct fm_zone_spans spans;
	struct fm_columns columns = { 0 };
	fm_zone_spans_find(&spans, z, range);
	write_spans(&columns, &spans, fm_bundle_start_ns(a));
	fm_columns_write(&columns, out, add_zones_head, &spans);
	fm_columns_deinit(&columns);
	fm_zone_spans_deinit(&spans);
}
