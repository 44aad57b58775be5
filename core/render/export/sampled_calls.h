// SPDX-License-Identifier: Apache-2.0
// Who calls whom, as samples tell: for formats that are made for counted calls. Functions that such a
// format cannot tell apart, of equal name, file and line, are one.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_sampled_sum {
	uint64_t n, own_ns, total_ns; // n: samples with it on their stack; once each, however often it is there
};

struct fm_sampled_function {
	struct fm_str file, name; // fit to be printed; "~" where no file is known
	uint32_t line;
	struct fm_sampled_sum sum;
};

struct fm_sampled_edge {
	uint32_t caller, callee;
	struct fm_sampled_sum sum; // of the callee, when called by this caller
};

struct fm_sampled_calls {
	FM_VEC(struct fm_sampled_function) functions;
	FM_VEC(struct fm_sampled_edge) edges;
	struct fm_arena strings;
};

// Of an analysis with stacks, and the classes that its options show.
void fm_sampled_calls_build(struct fm_sampled_calls *c, const struct fm_analysis *a);
void fm_sampled_calls_deinit(struct fm_sampled_calls *c);
