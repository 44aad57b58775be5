// SPDX-License-Identifier: Apache-2.0
#include "render/export/sample_sums.h"

#include <stdlib.h>
#include <time.h>

#include "aggregate/tally/weight.h"
#include "render/shared/label.h"

const struct fm_sum_kind fm_sum_kinds[FM_N_SUM_COLUMNS] = {
	[FM_SUM_SAMPLES] = { "samples", "count" },         [FM_SUM_CPU] = { "cpu", "nanoseconds" },
	[FM_SUM_WAIT] = { "wait", "nanoseconds" },         [FM_SUM_ALLOC_OBJECTS] = { "alloc_objects", "count" },
	[FM_SUM_ALLOC_SPACE] = { "alloc_space", "bytes" }, [FM_SUM_INUSE_SPACE] = { "inuse_space", "bytes" },
	[FM_SUM_PEAK_SPACE] = { "peak_space", "bytes" },   [FM_SUM_COPY_SPACE] = { "copy_space", "bytes" },
};

const char *fm_sum_class_name(unsigned class)
{
	static const char *const names[FM_N_CLASSES] = { "python", "native", "system", "gc", "gil_wait", "wait" };
	return class < FM_N_CLASSES ? names[class] : "";
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_sum_row *a = pa, *b = pb;
	if (a->process_id != b->process_id)
		return (a->process_id > b->process_id) - (a->process_id < b->process_id);
	if (a->thread_id != b->thread_id)
		return (a->thread_id > b->thread_id) - (a->thread_id < b->thread_id);
	if (a->node != b->node)
		return (a->node > b->node) - (a->node < b->node);
	return a->class - b->class;
}

static void join_equal(struct fm_sums *s)
{
	if (!s->rows.n)
		return;
	qsort(s->rows.items, s->rows.n, sizeof(*s->rows.items), compare);
	size_t last = 0;
	for (size_t i = 1; i < s->rows.n; i++) {
		if (compare(&s->rows.items[last], &s->rows.items[i])) {
			s->rows.items[++last] = s->rows.items[i];
			continue;
		}
		for (unsigned c = 0; c < FM_N_SUM_COLUMNS; c++)
			s->rows.items[last].values[c] += s->rows.items[i].values[c];
	}
	s->rows.n = last + 1;
}

static struct fm_sum_row row_of(const struct fm_analysis *a, uint32_t thread_id, uint32_t stack_id, uint8_t class)
{
	return (struct fm_sum_row){ fm_label_process_of(a, thread_id), thread_id, fm_view_node(&a->view, stack_id),
				    class };
}

static void add_samples(struct fm_sums *s, const struct fm_analysis *a)
{
	struct fm_view_options options = a->options;
	options.idle = true;
	s->has[FM_SUM_CPU] = s->has[FM_SUM_SAMPLES] = true;
	for (size_t i = 0; i < a->tally.cells.n; i++) {
		const struct fm_cell *cell = &a->tally.cells.items[i];
		if (!fm_view_shows_class(&options, cell->class))
			continue;
		enum fm_sum_column column = fm_class_is_cpu(cell->class) ? FM_SUM_CPU : FM_SUM_WAIT;
		struct fm_sum_row row = row_of(a, cell->thread_id, cell->stack_id, cell->class);
		row.values[FM_SUM_SAMPLES] = cell->n;
		row.values[column] = cell->weight_ns;
		s->has[column] = true;
		fm_vec_push(&s->rows, row);
	}
}

static void add_memory(struct fm_sums *s, const struct fm_analysis *a)
{
	for (unsigned c = FM_SUM_ALLOC_OBJECTS; c < FM_N_SUM_COLUMNS; c++)
		s->has[c] = a->heap.is_there;
	for (size_t i = 0; i < a->heap.stacks.n; i++) {
		const struct fm_heap_stack_row *from = &a->heap.stacks.items[i];
		struct fm_sum_row row = row_of(a, from->thread_id, from->stack_id, FM_SUM_NO_CLASS);
		row.values[FM_SUM_ALLOC_OBJECTS] = from->n_allocs;
		row.values[FM_SUM_ALLOC_SPACE] = from->alloc_bytes;
		row.values[FM_SUM_INUSE_SPACE] = from->live_bytes;
		row.values[FM_SUM_PEAK_SPACE] = from->at_peak_bytes;
		row.values[FM_SUM_COPY_SPACE] = from->copy_bytes;
		fm_vec_push(&s->rows, row);
	}
}

void fm_sums_build(struct fm_sums *s, const struct fm_analysis *a)
{
	*s = (struct fm_sums){ 0 };
	add_samples(s, a);
	if (a->heap.is_there)
		add_memory(s, a);
	join_equal(s);
}

void fm_sums_deinit(struct fm_sums *s)
{
	fm_vec_deinit(&s->rows);
}

uint64_t fm_sums_started_ns(const struct fm_analysis *a)
{
	struct fm_str text = fm_profile_meta(a->profile, "started", FM_STR_LIT(""));
	char word[32] = "";
	struct tm tm = { 0 };
	if (text.len >= sizeof(word))
		return 0;
	memcpy(word, text.p, text.len);
	if (!strptime(word, "%Y-%m-%dT%H:%M:%S", &tm))
		return 0;
	time_t seconds = timegm(&tm);
	return seconds > 0 ? (uint64_t)seconds * 1000000000 : 0;
}
