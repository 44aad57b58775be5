// SPDX-License-Identifier: Apache-2.0
#include "aggregate/trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "symbolize/names.h"

const char *const fm_trace_kind_names[] = { "python", "native", "zone", "lost" };

struct fm_trace_span {
	uint32_t function, edge;
	uint32_t line; // index + 1 of the one it is at; 0 = none seen
	bool is_outermost, is_outermost_of_edge;
	uint64_t begin_ns;
	uint64_t inner_ns; // spent in what it called
	uint64_t line_begin_ns, line_inner_ns;
};

static uint32_t add_function(struct fm_trace_stats *s, uint8_t kind, struct fm_str name, struct fm_str plain_name,
			     struct fm_str file, uint32_t line)
{
	struct fm_buf key = { 0 };
	fm_buf_printf(&key, "%u %u ", kind, line);
	fm_buf_bytes(&key, file.p, file.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, name.p, name.len);
	bool is_new;
	uint32_t id = fm_intern_id(&s->keys, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	if (is_new)
		fm_vec_push(&s->functions, (struct fm_traced_function){ .kind = kind,
									.name = name,
									.plain_name = plain_name,
									.file = file,
									.line = line,
									.last_caller = FM_NO_ID,
									.last_edge = FM_NO_ID });
	return id;
}

static uint32_t function_of_code(struct fm_trace_stats *s, uint32_t code_id)
{
	static const struct fm_str none = { "", 0 };
	uint32_t idx = code_id == FM_NO_ID ? 0 : code_id + 1;
	fm_vec_grow_to(&s->of_code, (size_t)idx + 1);
	if (FM_UNLIKELY(!s->of_code.items[idx])) {
		uint32_t function;
		if (code_id == FM_NO_ID) {
			struct fm_str text = FM_STR_LIT("(events were lost here)");
			function = add_function(s, FM_TRACE_UNKNOWN, text, text, none, 0);
		} else {
			const struct fm_code_info *code = &s->profile->codes.items[code_id];
			function = add_function(s, FM_TRACE_PYTHON, code->qualname, code->name, code->filename,
						code->first_line);
		}
		s->of_code.items[idx] = function + 1;
	}
	return s->of_code.items[idx] - 1;
}

static uint32_t function_of_name(struct fm_trace_stats *s, uint32_t name_id)
{
	if (name_id == FM_NO_ID)
		return function_of_code(s, FM_NO_ID);
	fm_vec_grow_to(&s->of_name, (size_t)name_id + 1);
	if (FM_UNLIKELY(!s->of_name.items[name_id])) {
		const struct fm_trace_name *name = &s->profile->trace_names.items[name_id];
		s->of_name.items[name_id] =
			add_function(s, name->kind == FM_NAME_FUNCTION ? FM_TRACE_NATIVE : FM_TRACE_ZONE, name->name,
				     name->name, name->file, name->line) +
			1;
	}
	return s->of_name.items[name_id] - 1;
}

static uint32_t edge_of(struct fm_trace_stats *s, uint32_t caller, uint32_t callee)
{
	struct fm_traced_function *f = &s->functions.items[callee];
	if (FM_LIKELY(f->last_edge != FM_NO_ID && f->last_caller == caller))
		return f->last_edge;
	bool is_new;
	uint64_t *idx = fm_map_at(&s->edge_index, (uint64_t)caller << 32 | callee, &is_new);
	if (is_new) {
		*idx = s->edges.n;
		fm_vec_push(&s->edges, (struct fm_trace_edge){ .caller = caller, .callee = callee });
	}
	f->last_caller = caller;
	f->last_edge = (uint32_t)*idx;
	return f->last_edge;
}

// ---- lines ----

static uint32_t line_of(struct fm_trace_stats *s, uint32_t function, uint32_t line)
{
	bool is_new;
	uint64_t *idx = fm_map_at(&s->line_index, (uint64_t)function << 32 | line, &is_new);
	if (is_new) {
		*idx = s->lines.n;
		fm_vec_push(&s->lines, (struct fm_trace_line){ .function = function, .line = line });
	}
	return (uint32_t)*idx;
}

static void end_line(struct fm_trace_stats *s, struct fm_traced_thread *t, struct fm_trace_span *span, uint64_t ns)
{
	if (!span->line)
		return;
	struct fm_trace_line *line = &s->lines.items[span->line - 1];
	uint64_t total_ns = ns - span->line_begin_ns;
	if (--t->active_lines.items[span->line - 1] == 0)
		line->total_ns += total_ns;
	line->own_ns += total_ns - (span->inner_ns - span->line_inner_ns);
}

static void come_to_line(struct fm_trace_stats *s, struct fm_traced_thread *t, uint32_t number, uint64_t ns)
{
	if (!t->stack.n || !number)
		return;
	struct fm_trace_span *span = &t->stack.items[t->stack.n - 1];
	end_line(s, t, span, ns);
	uint32_t line = line_of(s, span->function, number);
	fm_vec_grow_to(&t->active_lines, (size_t)line + 1);
	t->active_lines.items[line]++;
	span->line = line + 1;
	span->line_begin_ns = ns;
	span->line_inner_ns = span->inner_ns;
	s->lines.items[line].n_hits++;
}

// ---- calls ----

static void open_region(struct fm_traced_thread *t, uint64_t ns)
{
	if (t->is_in_region)
		return;
	t->is_in_region = true;
	t->begin_ns = ns;
}

static void begin(struct fm_trace_stats *s, struct fm_traced_thread *t, uint32_t function, bool is_call, uint64_t ns)
{
	uint32_t caller = t->stack.n ? t->stack.items[t->stack.n - 1].function : FM_NO_ID;
	uint32_t edge_idx = edge_of(s, caller, function);
	struct fm_traced_function *f = &s->functions.items[function];
	struct fm_trace_edge *edge = &s->edges.items[edge_idx];
	fm_vec_grow_to(&t->active, (size_t)function + 1);
	fm_vec_grow_to(&t->active_edges, (size_t)edge_idx + 1);
	uint32_t *active = &t->active.items[function], *edge_active = &t->active_edges.items[edge_idx];
	if (is_call) {
		f->n_calls++;
		f->n_recursive += *active > 0;
		edge->n_calls++;
		edge->n_recursive += *edge_active > 0;
		t->n_calls++;
	}
	fm_vec_push(&t->stack, (struct fm_trace_span){ .function = function,
						       .edge = edge_idx,
						       .is_outermost = (*active)++ == 0,
						       .is_outermost_of_edge = (*edge_active)++ == 0,
						       .begin_ns = ns });
}

static void end(struct fm_trace_stats *s, struct fm_traced_thread *t, uint64_t ns)
{
	struct fm_trace_span *span = &t->stack.items[--t->stack.n];
	struct fm_traced_function *f = &s->functions.items[span->function];
	struct fm_trace_edge *edge = &s->edges.items[span->edge];
	uint64_t total_ns = ns - span->begin_ns, own_ns = total_ns - span->inner_ns;
	end_line(s, t, span, ns);
	f->own_ns += own_ns;
	edge->own_ns += own_ns;
	t->active.items[span->function]--;
	t->active_edges.items[span->edge]--;
	if (span->is_outermost)
		f->total_ns += total_ns;
	if (span->is_outermost_of_edge)
		edge->total_ns += total_ns;
	fm_durations_add(&f->spans, total_ns);
	if (t->stack.n)
		t->stack.items[t->stack.n - 1].inner_ns += total_ns;
	else
		t->outside_ns -= total_ns; // added whole when the region ends
}

static void close_region(struct fm_trace_stats *s, struct fm_traced_thread *t, uint64_t ns)
{
	while (t->stack.n)
		end(s, t, ns);
	if (t->is_in_region) {
		t->region_ns += ns - t->begin_ns;
		t->outside_ns += ns - t->begin_ns;
	}
	t->is_in_region = false;
}

static uint32_t function_of(struct fm_trace_stats *s, fm_zone_ref ref)
{
	if (!ref)
		return function_of_code(s, FM_NO_ID);
	return fm_zone_ref_is_name(ref) ? function_of_name(s, fm_zone_ref_id(ref))
					: function_of_code(s, fm_zone_ref_id(ref));
}

static void add_batch(struct fm_trace_stats *s, struct fm_zone_batch *batch)
{
	fm_vec_grow_to(&s->threads, (size_t)batch->thread_id + 1);
	struct fm_traced_thread *t = &s->threads.items[batch->thread_id];
	struct fm_trace_walk walk;
	struct fm_trace_step step;
	fm_trace_walk_begin(&walk, s->profile, &t->walked, batch);
	while (fm_trace_walk_next(&walk, &step)) {
		switch (step.kind) {
		case FM_TRACE_GAP:
			t->n_lost +=
				t->n_events > 0; // else the file begins here, as that of a trace's last seconds does
			open_region(t, step.ns);
			break;
		case FM_TRACE_BEGIN:
			open_region(t, step.ns);
			begin(s, t, function_of(s, step.ref), step.is_call, step.ns);
			break;
		case FM_TRACE_END:
			end(s, t, step.ns);
			break;
		case FM_TRACE_LINE:
			come_to_line(s, t, step.id, step.ns);
			break;
		case FM_TRACE_MARK:
			fm_vec_push(&s->marks, (struct fm_trace_mark){ batch->thread_id, step.id, step.ns });
			break;
		case FM_TRACE_ON:
			open_region(t, step.ns);
			break;
		case FM_TRACE_OFF:
			close_region(s, t, step.ns);
			break;
		case FM_TRACE_LOST:
			t->n_lost += (uint64_t)step.value;
			break;
		}
	}
	t->n_events += batch->n;
}

struct fm_trace_stats *fm_trace_stats_create(const struct fm_profile *profile)
{
	struct fm_trace_stats *s = fm_alloc(sizeof(*s));
	s->profile = profile;
	return s;
}

static void on_event(void *ctx, const struct fm_profile *profile, struct fm_event *event)
{
	(void)profile;
	if (event->type == FM_EVENT_TRACE)
		add_batch(ctx, event->trace);
}

struct fm_observer fm_trace_stats_observer(struct fm_trace_stats *s)
{
	return (struct fm_observer){ .on_event = on_event, .ctx = s };
}

// ---- sums ----

static void add_sum(struct fm_trace_stats *s, const struct fm_call_sum *sum)
{
	uint32_t callee = function_of(s, sum->callee);
	if (sum->is_pair) {
		uint32_t idx = edge_of(s, function_of(s, sum->caller), callee);
		struct fm_trace_edge *edge = &s->edges.items[idx];
		edge->n_calls += sum->n_calls;
		edge->n_recursive += sum->n_recursive;
		edge->own_ns += sum->own_ns;
		edge->total_ns += sum->total_ns;
		return;
	}
	struct fm_traced_function *f = &s->functions.items[callee];
	f->n_calls += sum->n_calls;
	f->n_recursive += sum->n_recursive;
	f->own_ns += sum->own_ns;
	f->total_ns += sum->total_ns;
	s->n_calls += sum->n_calls;
	s->summed_ns += sum->own_ns;
}

// When all sources are read. Code objects that are one function by their plain name are one by the
// qualified one, which follows from it, file and line.
static void name_functions(struct fm_trace_stats *s)
{
	s->qualnames = fm_qualnames_create(s->profile);
	for (uint32_t i = 0; i + 1 < s->of_code.n; i++)
		if (s->of_code.items[i + 1])
			s->functions.items[s->of_code.items[i + 1] - 1].name =
				fm_qualnames_of(s->qualnames, &s->profile->codes.items[i]);
}

void fm_trace_stats_finish(struct fm_trace_stats *s)
{
	for (size_t i = 0; i < s->profile->call_sums.n; i++)
		add_sum(s, &s->profile->call_sums.items[i]);
	s->n_sums = s->profile->call_sums.n;
	s->unit = fm_profile_meta(s->profile, "calls_unit", (struct fm_str){ "", 0 });
	name_functions(s);
	for (size_t i = 0; i < s->threads.n; i++) {
		struct fm_traced_thread *t = &s->threads.items[i];
		close_region(s, t, t->walked.last_ns);
		s->n_events += t->n_events;
		s->n_calls += t->n_calls;
		s->n_lost += t->n_lost;
	}
}

void fm_trace_stats_destroy(struct fm_trace_stats *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->functions.n; i++)
		free(s->functions.items[i].spans.buckets);
	for (size_t i = 0; i < s->threads.n; i++) {
		fm_vec_deinit(&s->threads.items[i].stack);
		fm_vec_deinit(&s->threads.items[i].active);
		fm_vec_deinit(&s->threads.items[i].active_edges);
		fm_vec_deinit(&s->threads.items[i].active_lines);
	}
	fm_vec_deinit(&s->functions);
	fm_vec_deinit(&s->edges);
	fm_vec_deinit(&s->lines);
	fm_vec_deinit(&s->threads);
	fm_vec_deinit(&s->marks);
	fm_vec_deinit(&s->of_code);
	fm_vec_deinit(&s->of_name);
	fm_intern_deinit(&s->keys);
	fm_map_deinit(&s->edge_index);
	fm_map_deinit(&s->line_index);
	fm_qualnames_destroy(s->qualnames);
	free(s);
}

struct sort_key {
	uint64_t value;
	uint32_t idx;
};

static int compare_keys(const void *a, const void *b)
{
	const struct sort_key *x = a, *y = b;
	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return x->idx < y->idx ? -1 : 1;
}

uint32_t *fm_trace_sorted(const struct fm_trace_stats *s, enum fm_trace_order order)
{
	struct sort_key *keys = fm_realloc_array(NULL, s->functions.n + 1, sizeof(*keys));
	for (uint32_t i = 0; i < s->functions.n; i++) {
		const struct fm_traced_function *f = &s->functions.items[i];
		uint64_t value = order == FM_TRACE_BY_OWN     ? f->own_ns
				 : order == FM_TRACE_BY_TOTAL ? f->total_ns
							      : f->n_calls;
		keys[i] = (struct sort_key){ value, i };
	}
	qsort(keys, s->functions.n, sizeof(*keys), compare_keys);
	uint32_t *ret = fm_realloc_array(NULL, s->functions.n + 1, sizeof(*ret));
	for (uint32_t i = 0; i < s->functions.n; i++)
		ret[i] = keys[i].idx;
	free(keys);
	return ret;
}

static int compare_edges(const void *a, const void *b)
{
	const struct fm_trace_edge *x = *(const struct fm_trace_edge *const *)a,
				   *y = *(const struct fm_trace_edge *const *)b;
	return FM_ORDER(y->total_ns, x->total_ns);
}

const struct fm_trace_edge **fm_trace_edges_of(const struct fm_trace_stats *s, uint32_t function, bool is_callers,
					       size_t *ret_n)
{
	FM_VEC(const struct fm_trace_edge *) found = { 0 };
	for (size_t i = 0; i < s->edges.n; i++) {
		const struct fm_trace_edge *e = &s->edges.items[i];
		if (e->caller != FM_NO_ID && (is_callers ? e->callee : e->caller) == function)
			fm_vec_push(&found, e);
	}
	if (found.n)
		qsort(found.items, found.n, sizeof(*found.items), compare_edges);
	*ret_n = found.n;
	return found.items;
}
