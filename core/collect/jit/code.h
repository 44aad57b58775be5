// SPDX-License-Identifier: Apache-2.0
// The unwind rows of one process's run-time code: gathered from all who tell of them, published as
// a few large tables.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/shared/rows.h"
#include "image/jit_elf.h"

// A stretch of memory that can be executed and is no image.
struct fm_jit_area {
	uint64_t start, end;
};

struct fm_jit_table {
	uint64_t key; // who told; unique
	struct fm_jit_rows rows;
};

struct fm_jit_code {
	FM_VEC(struct fm_jit_table) tables;
	FM_VEC(struct fm_jit_area) areas;
	bool is_changed; // since they were published
	uint64_t published_ns;
	uint32_t epoch;
};
void fm_jit_code_deinit(struct fm_jit_code *c);

// Takes the rows over. What had the same key before goes.
void fm_jit_code_add(struct fm_jit_code *c, uint64_t key, struct fm_jit_rows *rows);
void fm_jit_code_remove(struct fm_jit_code *c, uint64_t key);
// True when rows other than guessed ones are known for the address.
bool fm_jit_code_has(const struct fm_jit_code *c, uint64_t addr);

// Publishes what has changed, at most every so often when there is much of it.
void fm_jit_code_publish(struct fm_jit_code *c, struct fm_rows *rows, uint32_t process_idx);
