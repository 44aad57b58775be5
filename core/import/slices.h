// SPDX-License-Identifier: Apache-2.0
// Slices of a timeline become a trace, and the time in them samples: for formats that say when what
// began and how long it took.
//
// They come in any order, so all are kept until the end: 24 bytes each, a fifth of the text that
// they are written with. Within a thread one slice lies inside of another or beside it; what
// overlaps is cut where the one around it ends.
#pragma once

#include "format/zones.h"
#include "import/sink.h"

// What a slice is of.
struct fm_slice_what {
	uint8_t op;   // enum fm_zone_op: ENTER, RESUME, BEGIN, MARK, COUNTER
	uint32_t ref; // as that op's
	uint32_t frame_id;
	uint8_t class;
};

struct fm_slice_event;
struct fm_slice_thread {
	FM_VEC(struct fm_slice_event) events;
	FM_VEC(uint32_t) open; // events that began and did not end yet
	uint32_t thread_id;
	int64_t last_ns;
};

struct fm_slices {
	struct fm_import *in;
	FM_VEC(struct fm_slice_what) whats;
	FM_VEC(struct fm_slice_thread) threads;
	int64_t first_ns; // of all
	bool has_any;
	uint64_t n_without_begin, n_without_end, n_cut;
	bool inner_first; // of two that are the same in time, the file has the inner one first
	// By stack, and not made anew for each thread: what no sample of it stands for yet, 0 between two
	// threads, and what that was.
	FM_VEC(uint64_t) own_ns;
	FM_VEC(uint8_t) class_of;
};

void fm_slices_init(struct fm_slices *s, struct fm_import *in);
void fm_slices_deinit(struct fm_slices *s);
uint32_t fm_slices_what(struct fm_slices *s, struct fm_slice_what what);
uint32_t fm_slices_thread(struct fm_slices *s, uint32_t thread_id); // the sink's; an index for those below
// Times may be below zero: the first one of the file becomes its start.
void fm_slices_add(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns, uint64_t duration_ns);
void fm_slices_begin(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns);
void fm_slices_end(struct fm_slices *s, uint32_t thread, int64_t ns); // of the innermost one
void fm_slices_mark(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns);
void fm_slices_counter(struct fm_slices *s, uint32_t thread, uint32_t what, int64_t ns, double value);
// Writes all, and what there is to say of it.
void fm_slices_put(struct fm_slices *s);
