// SPDX-License-Identifier: Apache-2.0
// What the program's memory did, worked out from its sampled allocations and frees: by stack, line
// and function, over time, at its peak, and what looks like a leak. Pure functions over the events
// of one profile.
//
// Every figure is an estimate with a known variance: a sampled block of `size` bytes stands for
// `weight` bytes, and adds weight * (weight - size) to the variance of any sum it is in. A block
// that was certain to be seen adds nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/tally/block_log.h"
#include "aggregate/tree/attribution.h"
#include "aggregate/tree/view.h"
#include "base/mem.h"

#define FM_HEAP_BUCKETS 256     // most points of the program's timeline
#define FM_HEAP_LINE_BUCKETS 32 // points of a line's own timeline, evenly spread over the run; highest value in each

struct fm_heap_figures {
	uint64_t alloc_bytes, n_allocs; // everything allocated, freed or not; how many blocks that was
	uint64_t python_bytes;          // of these, by the Python allocators
	uint64_t peak_bytes;            // its own highest live bytes, whenever that was
	uint64_t at_peak_bytes;         // live when the whole program was at its peak
	uint64_t untouched_bytes;       // asked for by then and never used: in no figure but alloc_bytes
	uint64_t avg_bytes;             // live, averaged over the run's time
	uint64_t live_bytes;            // at the end, before the interpreter takes itself down (see fm_heap.settled_ns)
	uint64_t copy_bytes;
	double alloc_var, peak_var, copy_var; // bytes^2
};

struct fm_heap_line_row {
	uint32_t function_id, file_id, line; // the first function seen there
	struct fm_heap_figures f;
	struct fm_str types; // "list, Node": of Python objects that survive, most first; "" when not known
	uint64_t timeline[FM_HEAP_LINE_BUCKETS];
};

struct fm_heap_function_row {
	uint32_t function_id;
	struct fm_heap_figures self;  // Python: its line is charged. Native: the innermost frame shown
	struct fm_heap_figures total; // it was anywhere in the stack, counted once
};

struct fm_heap_stack_row { // for flame graphs: one row per distinct stack with any memory event
	uint32_t stack_id, thread_id;
	uint64_t alloc_bytes, at_peak_bytes, leaked_bytes, copy_bytes;
	uint64_t n_allocs, live_bytes; // as in fm_heap_figures; of the whole run only
};

// Its sums, each kind of memory by its number.
enum { FM_HEAP_ALLOC, FM_HEAP_AT_PEAK, FM_HEAP_LEAKED, FM_HEAP_COPIED, FM_N_HEAP_KINDS };
static inline void fm_heap_stack_bytes(const struct fm_heap_stack_row *row, uint64_t ret[static FM_N_HEAP_KINDS])
{
	ret[FM_HEAP_ALLOC] = row->alloc_bytes;
	ret[FM_HEAP_AT_PEAK] = row->at_peak_bytes;
	ret[FM_HEAP_LEAKED] = row->leaked_bytes;
	ret[FM_HEAP_COPIED] = row->copy_bytes;
}

struct fm_heap_stack_rows {
	struct fm_heap_stack_row *items;
	size_t n, cap;
};

struct fm_heap_leak_row {
	uint32_t function_id, file_id,
		line;      // file_id FM_NO_ID: native code that no Python called; the function is always known
	double likelihood; // posterior mean that a block of this line is never freed
	double velocity_bytes_s, velocity_plus_minus_bytes_s;
	uint64_t bytes;      // that survive
	struct fm_str types; // "list, Node": of surviving Python objects, most first; "" when not known
};

// Whether a place leaks that could not be told, though it grew to the end.
enum fm_heap_doubt_reason {
	FM_HEAP_DOUBT_NONE,
	FM_HEAP_DOUBT_SHORT, // the run is too short
	FM_HEAP_DOUBT_FEW,   // too few blocks of it were followed
	FM_HEAP_DOUBT_SUMS,  // exact mode's sums do not tell which of its blocks were freed
	FM_HEAP_DOUBT_POOL,  // mappings of native threads: an allocator's pool holds blocks that nobody sees
};
struct fm_heap_doubt {
	enum fm_heap_doubt_reason why;
	struct fm_heap_leak_row place; // bytes: live at the end
};

struct fm_heap_point {
	uint64_t time_ns;                          // end of the bucket
	uint64_t heap_bytes, heap_high_bytes;      // at its end; highest within it
	uint64_t rss_bytes, pss_bytes, swap_bytes; // 0 = not known then
};

// A high-water mark of the whole program, and the lines that made it.
struct fm_heap_peak {
	uint64_t time_ns, bytes;
	uint32_t first_line, n_lines; // into peak_lines, most first
};
struct fm_heap_peak_line {
	uint32_t file_id, line, function_id; // FM_NO_ID, 0, FM_NO_ID: <no Python>
	uint64_t bytes;
};

// What the resident memory was made of when it was highest. Heap figures are bytes asked for,
// resident ones are pages touched:
// the two differences say what is known of the gap.
struct fm_heap_owner {
	struct fm_str library; // path
	uint64_t bytes;
};
struct fm_heap_resident {
	uint64_t time_ns;                                                               // 0 = never seen
	uint64_t rss_bytes, anon_bytes, file_bytes, shmem_bytes, pss_bytes, swap_bytes; // pss: 0 = not read near then
	uint64_t python_bytes, native_bytes, mapped_bytes; // the heap then: Python's allocators, malloc, mmap
	uint64_t
		unexplained_bytes; // anonymous memory beyond the heap: allocators' slack, stacks, what was there before
	uint64_t untouched_bytes;  // or the heap beyond anonymous memory: asked for and never written, or in files
	FM_VEC(struct fm_heap_owner) owners; // of native_bytes and mapped_bytes, most first
};

struct fm_heap {
	bool is_there; // the capture had memory on
	bool is_exact; // every allocation was counted
	uint64_t peak_bytes, alloc_bytes, live_bytes, copy_bytes, n_events;
	uint64_t untouched_bytes; // at the peak; not part of it
	double peak_var, alloc_var;
	uint64_t mean_bytes;                   // small blocks: one byte in so many was drawn, on average; 0 = none
	double growth_rate;                    // net growth / everything allocated, 0 to 1
	double slope_bytes_s;                  // of the live heap, Theil-Sen
	struct fm_heap_figures no_python;      // blocks whose stack has no Python frame
	FM_VEC(struct fm_heap_line_row) lines; // most peak bytes first
	FM_VEC(struct fm_heap_function_row) functions; // most peak bytes (self) first
	struct fm_heap_stack_rows stacks;
	FM_VEC(struct fm_heap_leak_row) leaks; // most likely first
	struct fm_heap_doubt doubt;            // the largest one
	FM_VEC(struct fm_heap_point) timeline; // at most FM_HEAP_BUCKETS
	FM_VEC(struct fm_heap_peak) peaks;     // distinct ones, highest first; at most 8
	FM_VEC(struct fm_heap_peak_line) peak_lines;
	uint64_t cgroup_limit_bytes; // 0 = none known
	uint64_t max_cgroup_bytes;   // the highest use of that group that was seen
	struct fm_heap_resident resident;
	uint64_t begin_ns, end_ns; // of the run
	uint64_t settled_ns;       // frees after this are the interpreter's own end: no Python code was seen any more
	unsigned thinning;         // > 0: too many events, only one in 2^thinning small blocks was kept
	struct fm_arena arena;
};

// What heap_*.c work on.
struct fm_heap_input {
	const struct fm_profile *profile;
	const struct fm_tally *tally;
	const struct fm_heap_log *log; // sorted
	const struct fm_view *view;
	const struct fm_symbolizer *symbolizer;
	bool is_detailed; // charge library lines
};
// Sorts the tally's log of memory, and marks leaked blocks there.
void fm_heap_build(struct fm_heap *h, struct fm_tally *tally, const struct fm_profile *profile,
		   const struct fm_view *view, const struct fm_symbolizer *symbolizer,
		   const struct fm_view_options *options);

// The same sums as fm_heap.stacks for a range of time: what was allocated, copied and leaked of
// what was allocated from from_ns on and before to_ns, and what was held when the program held most
// within it. fm_vec_deinit() ends it.
void fm_heap_stacks_within(struct fm_heap_stack_rows *ret, const struct fm_heap_log *log, uint64_t from_ns,
			   uint64_t to_ns);

// How many blocks one that was drawn stands for.
static inline uint64_t fm_block_n(const struct fm_block *b)
{
	return b->size ? (b->weight + b->size / 2) / b->size : 1;
}

// Half the 95 % interval.
double fm_heap_plus_minus(double variance);
void fm_heap_deinit(struct fm_heap *h);
