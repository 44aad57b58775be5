// SPDX-License-Identifier: Apache-2.0
// Leaks by line; blocks that no Python line asked for, by their innermost function.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap/parts.h"
#include "aggregate/heap/leak_test.h"

#define MAX_TYPES 3         // named in a row
#define MIN_DOUBT_SHARE 0.1 // of the program's peak

struct leaks {
	struct fm_heap *h;
	struct fm_heap_log *log;
	const struct fm_heap_input *in;
	const struct fm_heap_groups *g;
	uint32_t n_groups;
	uint32_t *starts; // by group: where its blocks begin in `order`
	uint32_t *order;
};

static uint32_t group_of(const struct leaks *l, const struct fm_block *b)
{
	uint32_t line = l->g->line_of_node[b->node];
	if (line)
		return line - 1;
	return (uint32_t)l->h->lines.n + (b->node ? 1 + l->in->view->nodes.items[b->node].function_id : 0);
}

static void sort_by_group(struct leaks *l)
{
	size_t n = l->log->blocks.n;
	l->n_groups = (uint32_t)l->h->lines.n + 1 + fm_symbolizer_n_functions(l->in->symbolizer);
	l->starts = fm_alloc((l->n_groups + 2) * sizeof(*l->starts));
	l->order = fm_alloc((n + 1) * sizeof(*l->order));
	uint32_t *next = fm_alloc((l->n_groups + 2) * sizeof(*next));
	for (size_t i = 0; i < n; i++)
		l->starts[group_of(l, &l->log->blocks.items[i]) + 1]++;
	for (uint32_t i = 0; i < l->n_groups; i++)
		l->starts[i + 1] += l->starts[i];
	memcpy(next, l->starts, (l->n_groups + 2) * sizeof(*next));
	for (uint32_t i = 0; i < n; i++)
		l->order[next[group_of(l, &l->log->blocks.items[i])]++] = i;
	free(next);
}

static double seconds_in(const struct fm_heap *h, uint64_t time_ns)
{
	return time_ns > h->begin_ns ? (double)(time_ns - h->begin_ns) * 1e-9 : 0;
}

struct type_count {
	struct fm_str name;
	uint64_t n;
};

static int compare_types(const void *pa, const void *pb)
{
	const struct type_count *a = pa, *b = pb;
	return a->n != b->n ? (b->n > a->n) - (b->n < a->n) : (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

// The most frequent of counted types, as text.
static struct fm_str name_most(struct leaks *l, struct type_count *counts, size_t n)
{
	struct fm_buf text = { 0 };
	if (n)
		qsort(counts, n, sizeof(*counts), compare_types);
	for (size_t i = 0; i < FM_MIN(n, (size_t)MAX_TYPES); i++) {
		fm_buf_str(&text, i ? ", " : "");
		fm_buf_bytes(&text, counts[i].name.p, counts[i].name.len);
	}
	struct fm_str ret = { "", 0 };
	if (text.len)
		ret = (struct fm_str){ fm_arena_strdup(&l->h->arena, (char *)text.data, text.len), (uint32_t)text.len };
	fm_buf_deinit(&text);
	return ret;
}

static struct fm_str name_types(struct leaks *l, uint32_t group)
{
	FM_VEC(struct type_count) counts = { 0 };
	const struct fm_profile *profile = l->in->profile;
	for (size_t i = 0; i < profile->alloc_types.n; i++) {
		const struct fm_alloc_type *type = &profile->alloc_types.items[i];
		const struct fm_block *b = fm_heap_log_find(l->log, type->process_id, type->alloc_id);
		if (!b || !b->is_leaked || group_of(l, b) != group)
			continue;
		size_t k = 0;
		while (k < counts.n && !fm_str_eq(counts.items[k].name, type->name))
			k++;
		if (k == counts.n)
			fm_vec_push(&counts, (struct type_count){ type->name, 0 });
		counts.items[k].n++;
	}
	struct fm_str ret = name_most(l, counts.items, counts.n);
	fm_vec_deinit(&counts);
	return ret;
}

struct survivor {
	uint32_t line; // index of the line's row
	struct fm_str type;
};

static int by_line_and_type(const void *pa, const void *pb)
{
	const struct survivor *a = pa, *b = pb;
	if (a->line != b->line)
		return FM_ORDER(a->line, b->line);
	int order = memcmp(a->type.p, b->type.p, FM_MIN(a->type.len, b->type.len));
	return order ? order : FM_ORDER(a->type.len, b->type.len);
}

// What the blocks of each line are that were there at the end, leaked or not.
static void name_survivors(struct leaks *l)
{
	FM_VEC(struct survivor) all = { 0 };
	const struct fm_profile *profile = l->in->profile;
	for (size_t i = 0; i < profile->alloc_types.n; i++) {
		const struct fm_alloc_type *type = &profile->alloc_types.items[i];
		const struct fm_block *b = fm_heap_log_find(l->log, type->process_id, type->alloc_id);
		if (b && b->freed_ns > l->h->settled_ns && group_of(l, b) < l->h->lines.n)
			fm_vec_push(&all, (struct survivor){ group_of(l, b), type->name });
	}
	if (all.n)
		qsort(all.items, all.n, sizeof(*all.items), by_line_and_type);
	FM_VEC(struct type_count) counts = { 0 };
	for (size_t i = 0; i < all.n; i++) {
		if (!counts.n || !fm_str_eq(counts.items[counts.n - 1].name, all.items[i].type))
			fm_vec_push(&counts, (struct type_count){ all.items[i].type, 0 });
		counts.items[counts.n - 1].n++;
		if (i + 1 == all.n || all.items[i + 1].line != all.items[i].line) {
			l->h->lines.items[all.items[i].line].types = name_most(l, counts.items, counts.n);
			counts.n = 0;
		}
	}
	fm_vec_deinit(&counts);
	fm_vec_deinit(&all);
}

static struct fm_heap_leak_row row_of_group(const struct fm_heap *h, uint32_t group)
{
	if (group >= h->lines.n)
		return (struct fm_heap_leak_row){ .function_id = group - (uint32_t)h->lines.n - 1,
						  .file_id = FM_NO_ID };
	const struct fm_heap_line_row *line = &h->lines.items[group];
	return (struct fm_heap_leak_row){ .function_id = line->function_id,
					  .file_id = line->file_id,
					  .line = line->line };
}

enum fm_leak_answer fm_heap_answer(const struct fm_heap *h, enum fm_leak_answer answer, uint32_t group,
				   double mapped_bytes, double all_bytes)
{
	bool is_of_python = group < h->lines.n || !h->lines.n; // a program without Python has native places only
	return answer == FM_LEAK_NO || is_of_python || mapped_bytes < all_bytes / 2 ? answer : FM_LEAK_MAPPINGS;
}

// The largest of those of which nothing can be told.
void fm_heap_doubt(struct fm_heap *h, enum fm_leak_answer answer, const struct fm_heap_leak_row *place, double bytes)
{
	if (answer == FM_LEAK_NO || bytes <= (double)h->doubt.place.bytes ||
	    bytes < MIN_DOUBT_SHARE * (double)h->peak_bytes)
		return;
	h->doubt.why = answer == FM_LEAK_TOO_SHORT  ? FM_HEAP_DOUBT_SHORT
		       : answer == FM_LEAK_TOO_FEW  ? FM_HEAP_DOUBT_FEW
		       : answer == FM_LEAK_MAPPINGS ? FM_HEAP_DOUBT_POOL
						    : FM_HEAP_DOUBT_SUMS;
	h->doubt.place = *place;
	h->doubt.place.bytes = fm_heap_bytes_of(bytes);
}

static void judge(struct leaks *l, uint32_t group, struct fm_leak_block *scratch)
{
	const struct fm_heap *h = l->h;
	size_t n = 0;
	double end_s = seconds_in(h, h->settled_ns), all_bytes = 0, mapped_bytes = 0;
	for (uint32_t i = l->starts[group]; i < l->starts[group + 1]; i++) {
		const struct fm_block *b = &l->log->blocks.items[l->order[i]];
		double freed_s = b->freed_ns == UINT64_MAX ? INFINITY : seconds_in(h, b->freed_ns);
		// What died with its process was neither freed nor kept: it tells nothing of those
		// that live on.
		if (b->freed_ns == UINT64_MAX && b->died != FM_NEVER &&
		    seconds_in(h, l->log->steps.items[b->died].time_ns) <= end_s)
			continue;
		if (!b->held || l->g->is_imported_of_node[b->node])
			continue;
		scratch[n++] = (struct fm_leak_block){ seconds_in(h, b->born_ns), freed_s, (double)b->held,
						       (double)FM_MIN(b->size, b->held), 1 };
		all_bytes += (double)b->held;
		mapped_bytes += b->domain == FM_ALLOC_MMAP ? (double)b->held : 0;
	}
	struct fm_leak_verdict v;
	fm_leak_join_moved(scratch, n);
	enum fm_leak_answer answer =
		fm_heap_answer(h, fm_leak_test(scratch, n, 0, end_s, &v), group, mapped_bytes, all_bytes);
	struct fm_heap_leak_row row = row_of_group(h, group);
	if (answer != FM_LEAK_YES) {
		fm_heap_doubt(l->h, answer, &row, answer ? v.bytes : 0);
		return;
	}
	for (uint32_t i = l->starts[group]; i < l->starts[group + 1]; i++) {
		struct fm_block *b = &l->log->blocks.items[l->order[i]];
		b->is_leaked = !l->g->is_imported_of_node[b->node] && b->born_ns <= h->settled_ns &&
			       (b->freed_ns > h->settled_ns) &&
			       (b->died == FM_NEVER || l->log->steps.items[b->died].time_ns > h->settled_ns) &&
			       seconds_in(h, b->born_ns) <= end_s - v.min_age_s;
	}
	row.likelihood = v.likelihood;
	row.velocity_bytes_s = v.velocity;
	row.velocity_plus_minus_bytes_s = v.velocity_plus_minus;
	row.bytes = fm_heap_bytes_of(v.bytes);
	row.types = name_types(l, group);
	fm_vec_push(&l->h->leaks, row);
}

static int compare_rows(const void *pa, const void *pb)
{
	const struct fm_heap_leak_row *a = pa, *b = pb;
	if (a->likelihood != b->likelihood)
		return (b->likelihood > a->likelihood) - (b->likelihood < a->likelihood);
	return (b->velocity_bytes_s > a->velocity_bytes_s) - (b->velocity_bytes_s < a->velocity_bytes_s);
}

void fm_heap_leaks_sort(struct fm_heap *h)
{
	if (h->leaks.n)
		qsort(h->leaks.items, h->leaks.n, sizeof(*h->leaks.items), compare_rows);
}

void fm_heap_leaks(struct fm_heap *h, struct fm_heap_log *log, const struct fm_heap_input *in,
		   const struct fm_heap_groups *g)
{
	struct leaks l = { .h = h, .log = log, .in = in, .g = g };
	name_survivors(&l);
	if (!log->blocks.n || seconds_in(h, h->settled_ns) < FM_LEAK_MIN_DOUBT_RUN_S)
		return;
	sort_by_group(&l);
	struct fm_leak_block *scratch = fm_alloc(log->blocks.n * sizeof(*scratch));
	for (uint32_t i = 0; i < l.n_groups; i++)
		if (l.starts[i + 1] > l.starts[i] && i != h->lines.n) // these have no frame at all to be named by
			judge(&l, i, scratch);
	free(scratch);
	free(l.starts);
	free(l.order);
	fm_heap_leaks_sort(h);
}
