// SPDX-License-Identifier: Apache-2.0
// A layered drawing of a graph, callers above callees: layers by longest path, crossings reduced by
// sweeps of barycentres, places by pulling each box to its neighbours. Sugiyama's method in its
// plainest form; the viewer's page draws its graph the same way (web/src/draw/layered.ts).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct fm_layered_box {
	double width, height; // asked for
	double room_right;    // asked for: kept free beside it
	double x, y;          // found: its centre
	uint32_t layer;
};

struct fm_layered_line {
	uint32_t from, to; // boxes; lines from a box to itself are left to who draws
	double weight;
	bool is_back;    // found: against the order of the layers, part of a cycle
	size_t first, n; // found: its points, from `from` to `to`
};

struct fm_layered_point {
	double x, y;
};

struct fm_layered {
	FM_VEC(struct fm_layered_box) boxes;
	FM_VEC(struct fm_layered_line) lines;
	FM_VEC(struct fm_layered_point) points;
	double width, height; // found
};

// Fills in what is found. Parts that no line connects stand side by side, the one with the heaviest
// line first.
void fm_layered_place(struct fm_layered *g, double gap_x, double gap_y);
void fm_layered_deinit(struct fm_layered *g);
