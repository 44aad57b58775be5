// SPDX-License-Identifier: Apache-2.0
// Memory: what allocated it, what of it leaks, single blocks, and how it went over time.
#include "render/query/columns.h"

#define NO_MEMORY "the capture has no memory in it; capture with --memory"

static double seconds_in(const struct fm_query_data *d, uint64_t time_ns)
{
	return time_ns > d->a->heap.begin_ns ? fm_seconds(time_ns - d->a->heap.begin_ns) : 0;
}

// ---- allocations ----

static const struct fm_column alloc_columns[] = {
	FM_INT("thread_id", "threads.id"),
	FM_INT("stack_id", "nodes.id of the innermost frame of the stack that allocated"),
	FM_TEXT("stack", "its frames, outermost first, separated by ';'"),
	FM_TEXT_OR_NULL("file", "of the line that is charged; NULL: no Python is on the stack"),
	FM_INT_OR_NULL("line", "the line that is charged"),
	FM_TEXT_OR_NULL("function", "its function"),
	FM_INT("alloc_bytes", "allocated, freed or not"),
	FM_INT("at_peak_bytes", "held when the whole program held most"),
	FM_INT("leaked_bytes", "of places that look like leaks: what survives"),
	FM_INT("copy_bytes", "copied by memcpy and kin"),
};

static uint64_t count_allocs(struct fm_query_data *d)
{
	fm_query_need_allocs(d);
	return d->allocs.n;
}

static void alloc_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_query_alloc *alloc = &d->allocs.items[i];
	fm_row_id(r, alloc->thread_id);
	fm_row_id(r, alloc->node);
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_STACK, .node = alloc->node });
	fm_query_put_payer(d, alloc->node, r);
	for (unsigned k = 0; k < FM_N_HEAP_KINDS; k++)
		fm_row_u64(r, alloc->bytes[k]);
}

// ---- blocks ----

static const struct fm_column block_columns[] = {
	FM_REAL("t_s", "when it was allocated, since the program's start"),
	FM_REAL_OR_NULL("freed_s", "when it was freed; NULL: it was not"),
	FM_INT("size_bytes", "its own size"),
	FM_INT("weight_bytes", "how many allocated bytes it stands for"),
	FM_TEXT("allocator", "obj, mem, raw (Python's), malloc or mmap"),
	FM_INT("thread_id", "threads.id"),
	FM_INT("stack_id", "nodes.id of the innermost frame of the stack that allocated"),
	FM_INT("is_leaked", "1: it survives, and its place looks like a leak"),
};

static uint64_t count_blocks(struct fm_query_data *d)
{
	return d->a->tally.memory.blocks.n;
}

static void block_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	static const char *const names[FM_N_ALLOC_DOMAINS] = { "obj", "mem", "raw", "malloc", "mmap", "copy" };
	const struct fm_block *b = &d->a->tally.memory.blocks.items[i];
	fm_row_real(r, seconds_in(d, b->born_ns));
	if (b->freed_ns == UINT64_MAX)
		fm_row_null(r);
	else
		fm_row_real(r, seconds_in(d, b->freed_ns));
	fm_row_u64(r, b->size);
	fm_row_u64(r, b->weight);
	fm_row_text(r, fm_str_of(b->domain < FM_N_ALLOC_DOMAINS ? names[b->domain] : ""));
	fm_row_id(r, b->thread_id);
	fm_row_id(r, fm_view_node(&d->a->view, b->stack_id));
	fm_row_u64(r, b->is_leaked);
}

// ---- leaks ----

static const struct fm_column leak_columns[] = {
	FM_TEXT_OR_NULL("file", "source file; NULL: native code that no Python called"),
	FM_INT_OR_NULL("line", "number of the line"),
	FM_TEXT("function", "the function that allocates"),
	FM_REAL("likelihood", "that a block of this line is never freed, 0 to 1"),
	FM_REAL("velocity_bytes_s", "bytes that it gains per second"),
	FM_REAL("velocity_plus_minus_bytes_s", "half of the 95 % interval of that"),
	FM_INT("bytes", "what survives"),
	FM_TEXT("types", "of surviving Python objects, most first; empty where not known"),
};

static uint64_t count_leaks(struct fm_query_data *d)
{
	return d->a->heap.leaks.n;
}

static void leak_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_heap_leak_row *row = &d->a->heap.leaks.items[i];
	const struct fm_function *f =
		row->function_id != FM_NO_ID ? fm_analysis_function(d->a, row->function_id) : NULL;
	if (row->file_id != FM_NO_ID && f) {
		fm_row_text(r, f->file);
		fm_row_u64(r, row->line);
	} else {
		fm_row_null(r);
		fm_row_null(r);
	}
	fm_row_text(r, f ? f->name : FM_STR_LIT("<no Python>"));
	fm_row_real(r, row->likelihood);
	fm_row_real(r, row->velocity_bytes_s);
	fm_row_real(r, row->velocity_plus_minus_bytes_s);
	fm_row_u64(r, row->bytes);
	fm_row_text(r, row->types);
}

// ---- memory ----

static const struct fm_column memory_columns[] = {
	FM_REAL("t_s", "when, since the program's start"),
	FM_INT("heap_bytes", "allocated and not freed then"),
	FM_INT("heap_high_bytes", "the most of it since the row before"),
	FM_INT("rss_bytes", "resident memory of all processes; 0: not known then"),
	FM_INT("pss_bytes", "the same with shared pages counted once; 0: not known then"),
	FM_INT("swap_bytes", "swapped out; 0: none, or not known then"),
};

static uint64_t count_points(struct fm_query_data *d)
{
	return d->a->heap.timeline.n;
}

static void point_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_heap_point *p = &d->a->heap.timeline.items[i];
	fm_row_real(r, seconds_in(d, p->time_ns));
	fm_row_u64(r, p->heap_bytes);
	fm_row_u64(r, p->heap_high_bytes);
	fm_row_u64(r, p->rss_bytes);
	fm_row_u64(r, p->pss_bytes);
	fm_row_u64(r, p->swap_bytes);
}

const struct fm_query_table fm_query_memory_tables[] = {
	{ "allocations", "what each stack of a thread allocated, held at the peak, leaked and copied; most bytes first",
	  FM_COLUMNS(alloc_columns), 2000, FM_ANALYSIS_STACKS, count_allocs, alloc_row, .lacks = NO_MEMORY },
	{ "blocks", "every single block that was sampled, in order of time", FM_COLUMNS(block_columns), 20000,
	  FM_ANALYSIS_STACKS, count_blocks, block_row,
	  .lacks = "single blocks are in captures with --memory or --memory-log" },
	{ "leaks", "places that look like leaks; most likely first", FM_COLUMNS(leak_columns), 10, FM_ANALYSIS_STACKS,
	  count_leaks, leak_row },
	{ "memory", "the program's memory over time, at most 256 rows", FM_COLUMNS(memory_columns), 256,
	  FM_ANALYSIS_STACKS, count_points, point_row, .lacks = NO_MEMORY },
	{ 0 },
};
