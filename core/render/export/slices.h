// SPDX-License-Identifier: Apache-2.0
// A capture as slices on rows, for formats that draw time from left to right: who writes one is
// told what begins and ends, row by row, each row in order of time.
//
// A thread has a row of its calls, zones and marks when it was traced, and a row of its samples: a
// frame begins with the first sample that shows it and ends with the first that does not. A sample
// covers the time of its weight before it; a hole longer than that ends all frames. The memory of
// each process comes last.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/analysis/analysis.h"

struct fm_slice_row {
	uint32_t thread_id;
	bool is_samples;
};

enum fm_slice_kind {
	FM_SLICE_LOST,  // events are missing; id means nothing
	FM_SLICE_CALL,  // of a code of the profile
	FM_SLICE_ZONE,  // by a trace name of the profile; also a call of a function that is not Python's
	FM_SLICE_FRAME, // a node of the view
};

struct fm_slice {
	enum fm_slice_kind kind;
	uint32_t id;
};

struct fm_slice_writer {
	void (*begin)(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_slice slice);
	void (*end)(void *arg, struct fm_slice_row row, uint64_t ns);
	void (*mark)(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str text);
	void (*counter)(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str name, double value);
	// How much memory of the machine a process held.
	void (*memory)(void *arg, uint32_t process_id, uint64_t ns, uint64_t resident_bytes);
	bool (*is_over)(void *arg); // nothing more can be written
	// Which thread a CPU ran, as its samples tell; those of one CPU do not overlap. NULL = not asked for.
	void (*on_cpu)(void *arg, uint16_t cpu, uint32_t thread_id, uint64_t from_ns, uint64_t to_ns);
	bool leaves_samples_out; // only rows of calls are wanted
};

// No time that a writer is told is before this one.
uint64_t fm_slices_origin_ns(const struct fm_analysis *a);

FM_MUST_CHECK enum fm_err fm_slices_read(const struct fm_analysis *a, const struct fm_slice_writer *writer, void *arg,
					 struct fm_diag *diag);

// What a slice is called, and where it stands: line 0 and file "" when that is not known. The name
// is appended.
struct fm_slice_place {
	struct fm_str file;
	uint32_t line;
};
struct fm_slice_place fm_slice_name(struct fm_buf *name, const struct fm_analysis *a, struct fm_slice slice);
