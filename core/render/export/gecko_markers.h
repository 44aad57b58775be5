// SPDX-License-Identifier: Apache-2.0
// What a Firefox profile shows beside samples: zones and marks of each thread as markers, counters
// and the memory of processes as tracks.
#pragma once

#include "render/export/gecko_tables.h"

struct fm_gecko_marker {
	struct fm_str name, file;
	uint32_t line;
	bool is_mark; // one moment
	uint64_t start_ns, end_ns;
};

struct fm_gecko_thread_markers {
	FM_VEC(struct fm_gecko_marker) items;
	FM_VEC(uint32_t) open; // places in items + 1; 0 = a call, which is no marker
};

struct fm_gecko_point {
	uint64_t ns;
	double value;
};

struct fm_gecko_counter {
	uint32_t process_id;
	struct fm_str name; // "" = its resident memory
	FM_VEC(struct fm_gecko_point) points;
};

struct fm_gecko_markers {
	const struct fm_analysis *a;
	FM_VEC(struct fm_gecko_thread_markers) threads; // by id
	FM_VEC(struct fm_gecko_counter) counters;
	struct fm_map counter_of_memory; // by process
	struct fm_intern counter_names;  // process and name -> its place in counter_ids
	FM_VEC(uint32_t) counter_ids;
	uint64_t n, n_left_out;
};

FM_MUST_CHECK enum fm_err fm_gecko_markers_read(struct fm_gecko_markers *m, const struct fm_analysis *a,
						struct fm_diag *diag);
void fm_gecko_markers_deinit(struct fm_gecko_markers *m);

void fm_gecko_write_markers(const struct fm_gecko_markers *m, struct fm_gecko_tables *t, struct fm_json *j,
			    uint32_t thread_id, uint64_t origin_ns);
void fm_gecko_write_schema(struct fm_json *j);
// main_threads: by process, the place of its first thread in the profile's list; FM_NO_ID = it has none.
void fm_gecko_write_counters(const struct fm_gecko_markers *m, struct fm_json *j, const uint32_t *main_threads,
			     uint64_t origin_ns);

// Times are milliseconds since the profile began.
static inline double fm_gecko_ms(uint64_t ns, uint64_t origin_ns)
{
	return (double)(ns > origin_ns ? ns - origin_ns : 0) / 1e6;
}

// Processes are told apart by this: a number may come twice.
void fm_gecko_pid(struct fm_buf *b, const struct fm_analysis *a, uint32_t process_id);
