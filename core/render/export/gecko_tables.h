// SPDX-License-Identifier: Apache-2.0
// What all threads of a Firefox profile share: strings, functions, frames and stacks.
//
// The colour of a sample there is its innermost frame's. So a place has a frame for the kind of code
// that it is, and another one for each other class that a thread was in when it was sampled there.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "base/json.h"

// In the order of gecko.c's list.
enum fm_gecko_category {
	FM_GECKO_OTHER,
	FM_GECKO_PYTHON,
	FM_GECKO_NATIVE,
	FM_GECKO_SYSTEM,
	FM_GECKO_GC,
	FM_GECKO_GIL,
	FM_GECKO_IDLE,
	FM_N_GECKO_CATEGORIES,
};

struct fm_gecko_frame {
	uint32_t func, line;
	uint8_t category, inline_depth;
};

struct fm_gecko_func {
	uint32_t name;
	uint32_t resource1, source1; // + 1; 0 = none
	uint32_t line;
};

struct fm_gecko_resource {
	uint32_t name, image_id; // FM_NO_ID: of none that is known
};

struct fm_gecko_tables {
	const struct fm_analysis *a;
	struct fm_intern strings;
	FM_VEC(struct fm_gecko_func) funcs;
	FM_VEC(struct fm_gecko_frame) frames;
	FM_VEC(struct fm_gecko_resource) resources;
	FM_VEC(uint32_t) sources;                   // names: strings
	FM_VEC(uint32_t) leaf_parents, leaf_frames; // stacks after those of the view's nodes; parent: a node
	struct fm_map func_of_function, resource_of_library, source_of_file, leaf_of_sample;
	struct fm_map frame_of_place[FM_N_GECKO_CATEGORIES];
	uint32_t *frame_of_node;
	uint32_t func_of_nothing1; // + 1; 0 = not asked for yet
};

void fm_gecko_tables_init(struct fm_gecko_tables *t, const struct fm_analysis *a);
void fm_gecko_tables_deinit(struct fm_gecko_tables *t);

uint32_t fm_gecko_string(struct fm_gecko_tables *t, struct fm_str text);
// The stack of a sample at that node, in that class.
uint32_t fm_gecko_stack(struct fm_gecko_tables *t, uint32_t node, uint8_t class);

// Once no thread asks any more.
void fm_gecko_write_libs(struct fm_gecko_tables *t, struct fm_json *j);
void fm_gecko_write_shared(struct fm_gecko_tables *t, struct fm_json *j);
