// SPDX-License-Identifier: Apache-2.0
// All there is to say of one traced function: its numbers, how long its calls took, who called it
// and what it called.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "render/text/calls.h"

#define BAR_CELLS 40
#define MAX_EDGES 10

// "f" names every function of that name, "C.f" that of the class, "a.py:12" the one that begins
// there.
static bool is_named(const struct fm_traced_function *f, struct fm_str name)
{
	if (fm_str_eq(f->name, name) || fm_str_eq(f->plain_name, name))
		return true;
	struct fm_buf place = { 0 };
	fm_buf_bytes(&place, f->file.p, f->file.len);
	fm_buf_printf(&place, ":%u", f->line);
	bool is_suffix = place.len >= name.len && !memcmp(place.data + place.len - name.len, name.p, name.len) &&
			 (place.len == name.len || place.data[place.len - name.len - 1] == '/');
	fm_buf_deinit(&place);
	return is_suffix && f->kind == FM_TRACE_PYTHON;
}

// One row an octave: fine enough to see two humps, short enough to read.
static void print_histogram(const struct fm_style *s, const struct fm_traced_function *f)
{
	uint64_t octaves[64] = { 0 }, most = 1;
	unsigned first = 63, last = 0;
	for (unsigned i = 0; i < FM_DURATION_BUCKETS && f->buckets; i++) {
		unsigned octave = i / 8;
		octaves[octave] += f->buckets[i];
		most = FM_MAX(most, octaves[octave]);
		if (f->buckets[i]) {
			first = FM_MIN(first, octave);
			last = FM_MAX(last, octave);
		}
	}
	for (unsigned i = first; i <= last && i < 64; i++) {
		fputs("  ", s->out);
		fm_calls_put_time(s->out, i ? 4ull << i : 0);
		fputs("  ", s->out);
		unsigned cells = (unsigned)((double)octaves[i] / (double)most * BAR_CELLS + 0.999);
		for (unsigned k = 0; k < BAR_CELLS; k++)
			fputs(k < cells ? (s->has_utf8 ? "█" : "#") : " ", s->out);
		fprintf(s->out, " %" PRIu64 "\n", octaves[i]);
	}
}

static int by_total(const void *a, const void *b)
{
	const struct fm_trace_edge *x = *(const struct fm_trace_edge *const *)a,
				   *y = *(const struct fm_trace_edge *const *)b;
	return x->total_ns != y->total_ns ? (x->total_ns < y->total_ns ? 1 : -1) : 0;
}

static void print_edges(const struct fm_style *s, const struct fm_trace_stats *stats, uint32_t function,
			bool is_callers, bool has_full_names)
{
	FM_VEC(const struct fm_trace_edge *) found = { 0 };
	for (size_t i = 0; i < stats->edges.n; i++) {
		const struct fm_trace_edge *e = &stats->edges.items[i];
		if (e->caller != FM_NO_ID && (is_callers ? e->callee : e->caller) == function)
			fm_vec_push(&found, e);
	}
	if (found.n) {
		qsort(found.items, found.n, sizeof(*found.items), by_total);
		fprintf(s->out, "\n%s\n       calls      total        own\n", is_callers ? "Called by" : "Calls");
	}
	for (size_t i = 0; i < found.n && i < MAX_EDGES; i++) {
		const struct fm_trace_edge *e = found.items[i];
		fprintf(s->out, "%12" PRIu64 " ", e->n_calls);
		fm_calls_put_time(s->out, e->total_ns);
		fputc(' ', s->out);
		fm_calls_put_time(s->out, e->own_ns);
		fputs("  ", s->out);
		fm_calls_put_name(s, &stats->functions.items[is_callers ? e->caller : e->callee], 36, has_full_names);
		fputc('\n', s->out);
	}
	if (found.n > MAX_EDGES)
		fprintf(s->out, "  ... and %zu more\n", found.n - MAX_EDGES);
	fm_vec_deinit(&found);
}

static void print_function(const struct fm_style *s, const struct fm_trace_stats *stats, uint32_t idx,
			   bool has_full_names)
{
	const struct fm_traced_function *f = &stats->functions.items[idx];
	const struct {
		const char *name;
		uint64_t ns;
	} numbers[] = {
		{ "total", f->total_ns },
		{ "own", f->own_ns },
		{ "mean", f->n_spans ? f->spans_ns / f->n_spans : 0 },
		{ "shortest", f->n_spans ? f->min_ns : 0 },
		{ "median", fm_trace_percentile(f, 0.5) },
		{ "90 %", fm_trace_percentile(f, 0.9) },
		{ "99 %", fm_trace_percentile(f, 0.99) },
		{ "longest", f->max_ns },
	};
	fm_calls_put_name(s, f, 0, has_full_names);
	fprintf(s->out, "\n  %-10s %10" PRIu64 "%s", "calls", f->n_calls, f->n_recursive ? "" : "\n");
	if (f->n_recursive)
		fprintf(s->out, ", %" PRIu64 " of them inside another\n", f->n_recursive);
	for (size_t i = 0; i < FM_ARRAY_LEN(numbers); i++) {
		fprintf(s->out, "  %-10s ", numbers[i].name);
		fm_calls_put_time(s->out, numbers[i].ns);
		fputc('\n', s->out);
	}
	fputs("\nHow long each took, from\n", s->out);
	print_histogram(s, f);
	print_edges(s, stats, idx, true, has_full_names);
	print_edges(s, stats, idx, false, has_full_names);
}

bool fm_calls_print_function(FILE *out, const struct fm_trace_stats *stats, const char *name,
			     const struct fm_view_options *options)
{
	struct fm_style style;
	fm_style_init(&style, out, options);
	unsigned n_found = 0;
	for (uint32_t i = 0; i < stats->functions.n; i++) {
		if (!is_named(&stats->functions.items[i], fm_str_of(name)))
			continue;
		if (n_found++)
			fputc('\n', out);
		print_function(&style, stats, i, options->full_filenames);
	}
	return n_found > 0;
}
