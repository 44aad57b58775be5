// SPDX-License-Identifier: Apache-2.0
// The machine code of the native functions that take most CPU time themselves, and how much of it
// each instruction took.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "symbolize/machine_code.h"

struct fm_hot_function {
	uint32_t function_id; // whose code it is, as the linker has it: others may be inlined into it
	const struct fm_listing *listing;
	uint64_t self_ns; // sum over its instructions
};

struct fm_hot_code {
	struct fm_machine_code code;
	FM_VEC(struct fm_hot_function) functions; // most CPU time first
	// By instruction of code.items: the CPU time of samples that stood there, which is part of what
	// a function took itself (fm_function_row.self), and that function.
	uint64_t *self_ns, *n_samples;
	uint32_t *self_function; // FM_NO_ID without a sample
};

struct fm_hot_code_limits {
	unsigned max_functions;
	double min_share; // of all CPU time
};

void fm_hot_code_build(struct fm_hot_code *h, struct fm_analysis *a, const struct fm_hot_code_limits *limits);
void fm_hot_code_deinit(struct fm_hot_code *h);
