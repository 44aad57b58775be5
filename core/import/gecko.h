// SPDX-License-Identifier: Apache-2.0
// Tables of the Firefox Profiler's formats (gecko_tables.c), and the stacks that come of them
// (gecko_stacks.c). Within the room only.
//
// The processed format has a table as an object of columns, the raw one as rows with a schema. Both
// become columns of numbers here.
#pragma once

#include "import/json_in.h"

enum gecko_column {
	STACK_PREFIX,
	STACK_PREFIX_OFFSET,
	STACK_FRAME,
	STACK_CATEGORY,
	FRAME_FUNC,
	FRAME_LOCATION,
	FRAME_LINE,
	FRAME_ADDRESS,
	FRAME_LIB,
	FRAME_INLINE_DEPTH,
	FRAME_CATEGORY,
	FUNC_NAME,
	FUNC_FILE,
	FUNC_SOURCE,
	FUNC_RESOURCE,
	FUNC_LINE,
	RESOURCE_LIB,
	SOURCE_FILENAME,
	SAMPLE_STACK,
	SAMPLE_TIME,
	SAMPLE_TIME_DELTA,
	SAMPLE_WEIGHT,
	SAMPLE_CPU_DELTA,
	GECKO_N_COLUMNS,
};

enum gecko_weight { GECKO_COUNTS, GECKO_MS, GECKO_BYTES };

struct gecko_values {
	double *items; // NAN = null
	size_t n, cap;
};

struct gecko_ids {
	uint32_t *items;
	size_t n, cap;
};

struct gecko_tables {
	struct gecko_values of[GECKO_N_COLUMNS];
	struct fm_arena arena;
	FM_VEC(struct fm_str) strings;
	enum gecko_weight weight; // of its samples
	struct gecko_ids stacks;  // the capture's stack of each
	struct gecko_ids classes; // enum fm_class of each, or GECKO_NO_CLASS
	struct gecko_ids leaves;  // the capture's frame of each
};
#define GECKO_NO_CLASS UINT32_MAX

struct gecko_lib {
	struct fm_str path, build_id; // bytes
};

struct gecko {
	struct fm_import *in;
	struct fm_json_in j;
	struct fm_arena arena;
	struct gecko_tables shared, thread;
	FM_VEC(struct gecko_lib) libs;
	FM_VEC(uint8_t) categories; // a class each, or UINT8_MAX
	double interval_ms;
	double cpu_delta_ns; // of one unit; 0 = not known
};

// Whether the key names a table that is read; if so its value has been.
bool gecko_read_table(struct gecko *g, struct gecko_tables *t, struct fm_str key);
void gecko_tables_clear(struct gecko_tables *t);
void gecko_tables_deinit(struct gecko_tables *t);
// The thread's own column, or the one that all threads share.
const struct gecko_values *gecko_column(const struct gecko *g, enum gecko_column c);
// A whole number of a column; -1 = null, or there is none.
int64_t gecko_index(const struct gecko *g, enum gecko_column c, int64_t i);
struct fm_str gecko_str(const struct gecko *g, int64_t i); // "" when there is none

// The stacks of the tables that this thread uses. NULL: something is wrong with them.
const struct gecko_tables *gecko_stacks(struct gecko *g);
