// A trace as a picture in bounded room: its longest zones, its marks, and its counters. What is left out is counted.
#pragma once

#include "base/mem.h"
#include "read/reader.h"

struct fm_zone {
	fm_zone_ref ref; // a code or a trace name of the profile; 0 = events were lost here
	uint32_t thread_id;
	uint16_t depth; // 0 = outermost
	uint64_t begin_ns, duration_ns;
};

struct fm_zone_mark {
	uint32_t thread_id, name; // of the profile's trace names; FM_NO_ID = not known
	uint64_t time_ns;
};

struct fm_zone_point {
	uint64_t time_ns;
	double value;
};

struct fm_zone_counter {
	uint32_t name;
	uint64_t n_seen, stride; // one in so many is kept
	FM_VEC(struct fm_zone_point) points;
};

struct fm_zones {
	FM_VEC(struct fm_zone) items; // by thread, then begin, outer ones first
	FM_VEC(struct fm_zone_mark) marks;
	FM_VEC(struct fm_zone_counter) counters;
	uint64_t n_left_out, left_out_ns; // zones: how many, and the sum of their durations
	uint64_t n_marks_left_out;
};

// Reads the file. Ids mean the same as in any other reading of it. One line in diag on failure.
FM_MUST_CHECK enum fm_err fm_zones_read(struct fm_zones *z, const char *path, size_t max_zones, struct fm_diag *diag);
void fm_zones_deinit(struct fm_zones *z);
