// SPDX-License-Identifier: Apache-2.0
// Memory for the fathom program (never for the agent): allocation that does not fail, arenas,
// vectors.
//
// A profile tool that runs out of memory has nothing better to do than to say so: the capture file
// is append-only and readable up to its last chunk, so these print one line and exit with 1.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

void *fm_alloc(size_t size);                            // zeroed
void *fm_realloc_array(void *p, size_t n, size_t size); // checked multiply
char *fm_strdup_n(const char *p, size_t len);           // NUL-terminated copy

// Bump allocation, dropped whole. Everything handed out lives as long as the arena.
struct fm_arena_chunk;
struct fm_arena {
	struct fm_arena_chunk *chunks;
	uint8_t *pos, *end;
};
void fm_arena_init(struct fm_arena *arena);
void fm_arena_deinit(struct fm_arena *arena);
void *fm_arena_alloc(struct fm_arena *arena, size_t size); // zeroed, 16-byte aligned
char *fm_arena_strdup(struct fm_arena *arena, const char *p, size_t len);

// A growable array of any type: FM_VEC(uint32_t) ids = {0}; fm_vec_push(&ids, 7);
// fm_vec_deinit(&ids);
#define FM_VEC(type)           \
	struct {               \
		type *items;   \
		size_t n, cap; \
	}

#define fm_vec_reserve(v, want)                                                               \
	do {                                                                                  \
		size_t want_ = (want);                                                        \
		if (want_ > (v)->cap) {                                                       \
			size_t cap_ = FM_MAX(FM_MAX(want_, (v)->cap * 2), (size_t)16);        \
			(v)->items = fm_realloc_array((v)->items, cap_, sizeof(*(v)->items)); \
			(v)->cap = cap_;                                                      \
		}                                                                             \
	} while (0)

#define fm_vec_push(v, ...)                           \
	do {                                          \
		fm_vec_reserve((v), (v)->n + 1);      \
		(v)->items[(v)->n++] = (__VA_ARGS__); \
	} while (0)

// Makes index idx valid, zeroing what is new.
#define fm_vec_grow_to(v, count)                                             \
	do {                                                                 \
		size_t count_ = (count);                                     \
		fm_vec_reserve((v), count_);                                 \
		for (; (v)->n < count_; (v)->n++)                            \
			memset(&(v)->items[(v)->n], 0, sizeof(*(v)->items)); \
	} while (0)

#define fm_vec_deinit(v)               \
	do {                           \
		free((v)->items);      \
		(v)->items = NULL;     \
		(v)->n = (v)->cap = 0; \
	} while (0)
