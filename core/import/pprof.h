// SPDX-License-Identifier: Apache-2.0
// What a pprof file says before its samples can be understood (pprof_tables.c), and the frames that
// come of it (pprof_frames.c). Within the room only.
#pragma once

#include "import/protobuf.h"
#include "import/sink.h"

struct fm_unwind_file;

struct pprof_type {
	uint64_t type, unit; // strings
};
struct pprof_mapping {
	uint64_t start, offset, filename, build_id;
	bool is_looked_at;
	uint32_t image_id; // of its file, for addresses without names
	bool has_vaddr;
	uint64_t vaddr; // of what is mapped at start
};
struct pprof_function {
	uint64_t name, system_name, filename, start_line;
};
struct pprof_line {
	uint64_t function;
	uint64_t line;
};
struct pprof_location {
	uint64_t mapping, address;
	uint32_t first_line, n_lines;   // of pprof.lines: innermost first
	uint32_t first_frame, n_frames; // of pprof.frames: outermost first; 0 = not made yet
};

struct pprof {
	struct fm_import *in;
	struct fm_arena arena;
	FM_VEC(struct fm_str) strings;
	FM_VEC(struct pprof_type) types;
	FM_VEC(struct pprof_mapping) mappings;
	FM_VEC(struct pprof_function) functions;
	FM_VEC(struct pprof_line) lines;
	FM_VEC(struct pprof_location) locations;
	struct fm_map mapping_ids, function_ids, location_ids; // the file's id -> index
	FM_VEC(uint32_t) frames;
	FM_VEC(uint64_t) comments;
	struct pprof_type period_type;
	uint64_t period, time_ns, duration_ns;
	bool has_filter; // drop_frames, keep_frames
};

// Everything but the samples. FM_E_CORRUPT with its line in diag.
FM_MUST_CHECK enum fm_err pprof_read_tables(struct pprof *p);
void pprof_deinit(struct pprof *p);
struct fm_str pprof_str(const struct pprof *p, uint64_t id); // "" when there is none

// The frames of a location, outermost first. NULL: the file does not define it.
const uint32_t *pprof_frames(struct pprof *p, uint64_t location_id, uint32_t *ret_n);
