// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// Chunks of 64 KiB keep small profiles small; larger requests get a chunk of their own.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define ARENA_CHUNK_BYTES ((size_t)4 << 10) // what an input uses is less, and all of it is zeroed
#else
#define ARENA_CHUNK_BYTES ((size_t)64 << 10)
#endif

struct fm_arena_chunk {
	struct fm_arena_chunk *next;
	_Alignas(16) uint8_t data[];
};

static FM_NORETURN void die_out_of_memory(void)
{
	static const char line[] = "fathom: out of memory; free some or raise the limit and run again\n";
	ssize_t ignored = write(STDERR_FILENO, line, sizeof(line) - 1);
	(void)ignored;
	exit(1);
}

// Large tables are touched page by page, and a page fault costs as much as counting a hundred
// samples: ask for large pages. A kernel without them says no, and nothing is lost.
#define LARGE_BYTES ((size_t)4 << 20)
#define PAGE ((uintptr_t)4096)

// For the whole mapping that the block is, from its first page to its last: advice for a part would
// cut it in two, and those realloc() cannot move.
static void want_large_pages(void *p)
{
	size_t size = malloc_usable_size(p);
	uintptr_t begin = (uintptr_t)p & ~(PAGE - 1), end = ((uintptr_t)p + size + PAGE - 1) & ~(PAGE - 1);
	if (size >= LARGE_BYTES)
		madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

void *fm_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);
	if (!p)
		die_out_of_memory();
	want_large_pages(p);
	return p;
}

void *fm_realloc_array(void *p, size_t n, size_t size)
{
	size_t total;
	if (__builtin_mul_overflow(n, size, &total))
		die_out_of_memory();
	if (total < LARGE_BYTES || (p && malloc_usable_size(p) >= total)) {
		p = realloc(p, total ? total : 1);
		if (!p)
			die_out_of_memory();
		return p;
	}
	if (p && malloc_usable_size(p) >= LARGE_BYTES) {
		p = realloc(p, total); // moves the pages, not what is in them
		if (!p)
			die_out_of_memory();
		want_large_pages(p);
		return p;
	}
	void *larger = malloc(total); // not by realloc(): its copy would meet the new pages before the advice does
	if (!larger)
		die_out_of_memory();
	want_large_pages(larger);
	if (p)
		memcpy(larger, p, malloc_usable_size(p));
	free(p);
	return larger;
}

char *fm_strdup_n(const char *p, size_t len)
{
	char *copy = fm_alloc(len + 1);
	if (len) // p may be NULL when there is nothing
		memcpy(copy, p, len);
	return copy;
}

void fm_arena_init(struct fm_arena *arena)
{
	*arena = (struct fm_arena){ 0 };
}

void fm_arena_deinit(struct fm_arena *arena)
{
	for (struct fm_arena_chunk *c = arena->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	fm_arena_init(arena);
}

void *fm_arena_alloc(struct fm_arena *arena, size_t size)
{
	size = (size + 15) & ~(size_t)15;
	if ((size_t)(arena->end - arena->pos) < size) {
		size_t data = FM_MAX(size, ARENA_CHUNK_BYTES);
		struct fm_arena_chunk *c = fm_alloc(sizeof(*c) + data);
		c->next = arena->chunks;
		arena->chunks = c;
		if (size > ARENA_CHUNK_BYTES / 2)
			return c->data; // keep filling the chunk we have
		arena->pos = c->data;
		arena->end = c->data + data;
	}
	void *p = arena->pos;
	arena->pos += size;
	return p;
}

char *fm_arena_strdup(struct fm_arena *arena, const char *p, size_t len)
{
	char *copy = fm_arena_alloc(arena, len + 1);
	if (len) // p may be NULL when there is nothing
		memcpy(copy, p, len);
	return copy;
}
