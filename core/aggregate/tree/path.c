// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/path.h"

#include <stdlib.h>
#include <string.h>

void fm_path_deinit(struct fm_path *p)
{
	fm_vec_deinit(&p->nodes);
}

uint32_t fm_path_move(struct fm_path *p, const struct fm_view *view, uint32_t node)
{
	uint32_t depth = view->nodes.items[node].depth, n_old = (uint32_t)p->nodes.n;
	fm_vec_reserve(&p->nodes, depth);
	p->nodes.n = depth;
	// Equal nodes at equal depth have equal parents: the first match from the leaf on means all
	// further out match, too.
	for (; depth > 0; depth--) {
		if (depth <= n_old && p->nodes.items[depth - 1] == node)
			break;
		p->nodes.items[depth - 1] = node;
		node = view->nodes.items[node].parent;
	}
	return depth;
}
