// SPDX-License-Identifier: Apache-2.0
// The call tree of the user's own code: what calls what, with everything that is not theirs folded
// away. A package that they call is one node, however many of its modules and libraries are on the
// stack; imports are one node; a recursive function is its outermost call. Time is CPU time and
// waiting as everywhere; every sample has a place.
#pragma once

#include "aggregate/tree/summary.h"
#include "base/hash.h"

enum fm_own_kind {
	FM_OWN_FUNCTION, // id: of the symbolizer. The user's Python, or native code outside of system and packages
	FM_OWN_PACKAGE,  // id: of packages
	FM_OWN_IMPORTS,  // id: 0. Its children are the packages that were imported, and the user's own modules
	FM_OWN_START,    // id: 0. What Python does before the program's first line and after its last
};

struct fm_own_node {
	uint32_t parent, id; // parent < own index; node 0 is the root, which holds what has no place
	uint8_t kind;
	struct fm_weight self, total;
};

struct fm_own_package {
	struct fm_str name;
	struct fm_weight total; // with everything that it calls, once per stack
};

struct fm_own_tree {
	FM_VEC(struct fm_own_node) nodes; // parents first
	FM_VEC(struct fm_own_package) packages;
	struct fm_weight imports; // once per stack
	struct fm_intern names;
};

// What decides where a function stands in the tree. The viewer's page folds by the same marks
// (web/src/data/own_tree.ts), because it counts anew under every filter.
enum fm_own_role {
	FM_OWN_IS_USERS = 1,         // the user's Python, or native code outside of system and packages
	FM_OWN_IS_COMPREHENSION = 2, // the same, and part of the function around it
	FM_OWN_IS_IMPORT = 4,        // an import begins here, or goes on
	FM_OWN_IS_MODULE = 8,        // the top level of a module, or native: what an import of it runs
	FM_OWN_BEGINS = 16,          // with nothing of the program's around it, it is Python's own start or end
	FM_OWN_IS_GENERATED = 32,    // code that a library wrote and executed: part of who calls it, if anybody does
};
uint8_t fm_own_roles(const struct fm_summary *summary, const struct fm_symbolizer *symbolizer, uint32_t function_id);
// The package that the function is folded into; "" for none.
struct fm_str fm_own_package_name(const struct fm_function *f, uint8_t roles);

void fm_own_tree_build(struct fm_own_tree *t, const struct fm_tally *tally, const struct fm_view *view,
		       const struct fm_symbolizer *symbolizer, const struct fm_summary *summary);
void fm_own_tree_deinit(struct fm_own_tree *t);
