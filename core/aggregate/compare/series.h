// SPDX-License-Identifier: Apache-2.0
// How a capture went, in equal parts of a time that may be another capture's: what two of them are
// compared by over time.
#pragma once

#include "aggregate/analysis/analysis.h"

#define FM_SERIES_PARTS 512

struct fm_series {
	double cpu_s[FM_SERIES_PARTS];  // of all threads
	uint64_t heap[FM_SERIES_PARTS]; // the highest in each
	uint64_t rss[FM_SERIES_PARTS];  // 0 = not known
	bool has_memory;
};

// When the last that is known of the capture was, on the clock of its samples.
uint64_t fm_series_end_ns(const struct fm_analysis *a);
// Reads the samples once more. One line in diag on failure.
FM_MUST_CHECK enum fm_err fm_series_build(struct fm_series *c, const struct fm_analysis *a, uint64_t start_ns,
					  uint64_t span_ns, struct fm_diag *diag);
