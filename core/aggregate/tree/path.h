// SPDX-License-Identifier: Apache-2.0
// Walking from stack to stack along the view's tree, touching only the frames that change. For
// outputs that stream.
#pragma once

#include "aggregate/tree/view.h"

struct fm_path {
	FM_VEC(uint32_t) nodes; // outermost first
};

void fm_path_deinit(struct fm_path *p);
// Makes the path end in node (0 = empty). Returns how many of the outermost frames stayed as they
// were.
uint32_t fm_path_move(struct fm_path *p, const struct fm_view *view, uint32_t node);
