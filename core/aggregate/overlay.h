// Two captures side by side: one tree, one table of functions and one of lines for both. Pure.
//
// A function is the same in both when kind, module and whole name are: paths differ between machines, and lines between
// versions. So nodes are functions, not lines. Index 0 of a pair is the base, 1 the new capture.
#pragma once

#include "aggregate/analysis.h"

struct fm_overlay_function {
	uint32_t id[2]; // function ids in the two captures; FM_NO_ID = not there
};

struct fm_overlay_cell {
	uint32_t node;
	uint8_t class;
	uint64_t ns[2];
};

struct fm_overlay_row {
	uint32_t function; // of the functions here
	uint32_t line;     // lines only
	uint64_t self_ns[2],
		total_ns[2]; // CPU time; of a line both are the same, without the collector's part as in the report
	uint64_t class_ns[FM_N_CLASSES];            // lines only: the new capture's
	double self_variance[2], total_variance[2]; // s^2
};

struct fm_overlay {
	FM_VEC(struct fm_overlay_function) functions;
	FM_VEC(struct fm_node) nodes; // function_id: of the functions here; parents first
	FM_VEC(struct fm_overlay_cell) cells;
	FM_VEC(struct fm_overlay_row) rows;  // the largest change of total time first
	FM_VEC(struct fm_overlay_row) lines; // likewise
	uint64_t whole_ns[2];                // CPU time
	uint64_t n_left_out;                 // nodes
};

void fm_overlay_build(struct fm_overlay *c, const struct fm_analysis *base, const struct fm_analysis *a,
		      size_t max_nodes);
void fm_overlay_deinit(struct fm_overlay *c);

// The change is larger than what sampling alone explains in 95 of 100 cases, and than a thousandth of the whole. It may
// still be the machine that changed: only repeated runs tell that.
bool fm_overlay_is_significant(const struct fm_overlay *c, const uint64_t ns[2], const double variance[2]);
