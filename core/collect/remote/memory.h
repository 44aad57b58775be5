// SPDX-License-Identifier: Apache-2.0
// Memory of another process, a page at a time and each page once: what is read in one look belongs
// to one instant as nearly as can be, and a stack's worth of small reads costs a few system calls.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_REMOTE_PAGE_BYTES 4096u

struct fm_remote_memory;
struct fm_remote_memory *fm_remote_memory_create(void);
void fm_remote_memory_destroy(struct fm_remote_memory *m); // NULL is fine

// Begins a look at a process: forgets all pages.
void fm_remote_memory_begin(struct fm_remote_memory *m, uint32_t pid);
// Reads pages from addr on in one call, as far as they are there.
void fm_remote_memory_fetch(struct fm_remote_memory *m, uint64_t addr, size_t n_pages);
// All of it or nothing.
bool fm_remote_read(struct fm_remote_memory *m, uint64_t addr, void *to, size_t len);

static inline bool fm_remote_u64(struct fm_remote_memory *m, uint64_t addr, uint64_t *ret)
{
	return fm_remote_read(m, addr, ret, sizeof(*ret));
}

static inline bool fm_remote_u32(struct fm_remote_memory *m, uint64_t addr, uint32_t *ret)
{
	return fm_remote_read(m, addr, ret, sizeof(*ret));
}

static inline bool fm_remote_u8(struct fm_remote_memory *m, uint64_t addr, uint8_t *ret)
{
	return fm_remote_read(m, addr, ret, sizeof(*ret));
}
