// SPDX-License-Identifier: Apache-2.0
// What a file of Scalene's holds, between its reader (scalene.c) and the capture (scalene_put.c).
#pragma once

#include "import/json_in.h"
#include "import/sink.h"

struct fm_scalene_line {
	uint32_t file, number;               // file: a text
	uint32_t function_line;              // where its function begins; 0 = it is in none
	double python, c, system;            // percent
	double alloc_mb, peak_mb, copy_mb_s; // MB of 2^20 bytes
	double python_share, n_allocs;
	double of_time, of_memory; // sums over its stacks
};

struct fm_scalene_stack {
	uint32_t stack_id, file, line;
	double share; // of all time; or MB
	bool is_memory;
};

struct fm_scalene {
	struct fm_import *in;
	struct fm_json_in j;
	struct fm_intern texts;
	FM_VEC(struct fm_scalene_line) lines;
	FM_VEC(struct fm_scalene_stack) stacks;
	FM_VEC(uint32_t) path; // frames of a stack while it is read
	struct fm_map line_index, function_index;
	struct fm_buf source, name, file;
	uint32_t last_source_line; // of the source so far; 0 = a line is missing
	double elapsed_s;
	uint32_t thread_id;
	bool has_gpu, has_native_stacks, has_leaks, has_await;
};

// A line of a file, as a key.
static inline uint64_t fm_scalene_place(uint32_t file, uint32_t line)
{
	return (uint64_t)file << 32 | line;
}

// Writes everything, and what there is to say of it.
void fm_scalene_put(struct fm_scalene *s);
