// SPDX-License-Identifier: Apache-2.0
// The bundle: what the viewer's page is fed (docs/viewer-data.md). One capture as a JSON head and
// typed columns, within limits: of a capture too large for a browser the heaviest parts are told
// apart, and sums stay.
#pragma once

#include <stdio.h>

#include "aggregate/analysis/analysis.h"
#include "aggregate/analysis/filter.h"
#include "aggregate/analysis/timeline.h"
#include "aggregate/analysis/zone_spans.h"

struct fm_bundle_limits {
	size_t max_nodes, max_cells, max_heap_rows, max_blocks, max_samples, max_functions, max_lines, max_edges;
	size_t max_instructions;          // of the machine code of hot functions
	size_t max_zones, max_zone_spans; // so many one by one; of more, a picture of so many spans
	size_t text_bytes;                // of all strings
	size_t source_bytes;              // of all source texts, which are among them
};

// What a browser takes in at once from a server on its own machine; what makes a file small enough
// to send.
extern const struct fm_bundle_limits fm_bundle_for_server, fm_bundle_for_file;

struct fm_bundle_options {
	const struct fm_bundle_limits *limits;
	const struct fm_filter *filter; // NULL = everything. With one, the tables of the timeline are left out
	struct fm_timeline *timeline;   // made on the one pass, emptied here; NULL = by a replay
	const struct fm_zones *zones;   // with the timeline, lent
	bool is_live;                   // the capture still grows
	bool can_diff;                  // the server has a second capture to compare with
};

// Writes the bytes, uncompressed. One line in diag on failure; write errors stay in the FILE.
FM_MUST_CHECK enum fm_err fm_bundle_write(FILE *out, struct fm_analysis *a, const struct fm_bundle_options *o,
					  struct fm_diag *diag);

// Rows of zones of each thread that a picture of a large trace has: deeper ones are counted.
#define FM_BUNDLE_ZONE_DEPTH 64
// A part of a trace as a bundle with the table zone only, at the width that is asked for.
void fm_bundle_write_zones(FILE *out, const struct fm_analysis *a, const struct fm_zones *z,
			   const struct fm_zone_range *range);

// The difference between two captures as a bundle: function, node and cell, each with what it was
// in `base`, and change, the rows of `fathom diff`. Frames are compared by function: lines move
// between versions.
FM_MUST_CHECK enum fm_err fm_bundle_write_diff(FILE *out, struct fm_analysis *base, struct fm_analysis *a,
					       const struct fm_bundle_limits *limits, struct fm_diag *diag);

// When the capture began, on the clock of its samples: what `_s` columns of times count from.
uint64_t fm_bundle_start_ns(const struct fm_analysis *a);
