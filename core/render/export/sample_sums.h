// SPDX-License-Identifier: Apache-2.0
// What formats of summed-up samples hold: one row for each thread, node and class, with a column
// for everything that the capture has. Waiting is a column of its own, so it is always there.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/analysis/analysis.h"

enum fm_sum_column {
	FM_SUM_SAMPLES, // of every class
	FM_SUM_CPU,
	FM_SUM_WAIT,
	FM_SUM_ALLOC_OBJECTS,
	FM_SUM_ALLOC_SPACE,
	FM_SUM_INUSE_SPACE, // at the end of the run
	FM_SUM_PEAK_SPACE,  // when the program held most
	FM_SUM_COPY_SPACE,
	FM_N_SUM_COLUMNS,
};

struct fm_sum_kind {
	const char *type, *unit; // as pprof calls them, where it has a word
};
extern const struct fm_sum_kind fm_sum_kinds[FM_N_SUM_COLUMNS];

#define FM_SUM_NO_CLASS FM_N_CLASSES // of memory

struct fm_sum_row {
	uint32_t process_id; // FM_NO_ID: of none that is known
	uint32_t thread_id, node;
	uint8_t class;
	uint64_t values[FM_N_SUM_COLUMNS];
};

struct fm_sums {
	FM_VEC(struct fm_sum_row) rows; // by process, thread, node and class
	bool has[FM_N_SUM_COLUMNS];     // the capture has such figures
};

void fm_sums_build(struct fm_sums *s, const struct fm_analysis *a);
void fm_sums_deinit(struct fm_sums *s);

// "python", "gil_wait" and so on; "" for none.
const char *fm_sum_class_name(unsigned class);

// When the capture began, in nanoseconds since 1970; 0 = not known.
uint64_t fm_sums_started_ns(const struct fm_analysis *a);
