// SPDX-License-Identifier: Apache-2.0
// The tables that pprof and OTLP profiles are made of: strings, functions, images and locations,
// each content once, its id its place in the table.
//
// A location is one machine frame: a function with all that the compiler inlined into it there. A
// Python frame is a location of one line. Locations have no address: a line of the report is many
// of them.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_dict_function {
	uint32_t name, file; // of strings
	uint32_t full_name;  // the same; 0 = it has no other
	uint32_t line;       // where it begins; 0 = unknown
};

struct fm_dict_image {
	uint32_t path;       // of strings
	uint32_t build_id1;  // of build_ids, + 1; 0 = not known
	uint64_t start, end; // where the first process has it; 0 = nowhere
};

struct fm_dict_line {
	uint32_t function, line;
};

struct fm_dict_location {
	uint32_t image1; // + 1; 0 = of no image
	uint32_t kind;   // enum fm_frame_kind of the innermost
	uint32_t n_lines;
	const struct fm_dict_line *lines; // innermost first
};

struct fm_dict {
	const struct fm_analysis *a;
	struct fm_intern strings;                      // fit to be printed; 0 is ""
	struct fm_intern build_ids;                    // in hexadecimal digits
	struct fm_intern functions, images, locations; // the bytes of each
	struct fm_map image_of_library;                // + 1, by library_id
	uint32_t *location_of_node;                    // + 1
	uint32_t *outside_of_node;                     // with location_of_node: the node around that location
	struct fm_buf key, text;
};

void fm_dict_init(struct fm_dict *d, const struct fm_analysis *a);
// The program's own image becomes the first, whether a frame is in it or not.
void fm_dict_main_image(struct fm_dict *d);
void fm_dict_deinit(struct fm_dict *d);

uint32_t fm_dict_string(struct fm_dict *d, struct fm_str text);
// The locations of a node's stack, innermost first, each + add, appended to ids.
struct fm_dict_ids {
	uint64_t *items;
	size_t n, cap;
};
void fm_dict_stack(struct fm_dict *d, uint32_t node, uint32_t add, struct fm_dict_ids *ret);

struct fm_dict_function fm_dict_function(const struct fm_dict *d, uint32_t id);
struct fm_dict_image fm_dict_image(const struct fm_dict *d, uint32_t id);
struct fm_dict_location fm_dict_location(const struct fm_dict *d, uint32_t id);
