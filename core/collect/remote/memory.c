// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/parts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "collect/process/core_file.h"
#include "collect/process/memory.h"

#define N_PAGES 256u // power of two
#define MAX_FETCH 32u
// Pointers torn in two end up outside of these.
#define LOWEST 4096u
#define HIGHEST ((1ull << 47) - 4096)

struct fm_remote_memory {
	uint32_t pid;
	struct fm_core *core;   // read in its place
	uint64_t tags[N_PAGES]; // page number; 0 = empty
	uint64_t missing;       // the last page that could not be had: who looks word by word along it asks once
	uint8_t pages[N_PAGES][FM_REMOTE_PAGE_BYTES];
};

struct fm_remote_memory *fm_remote_memory_create(struct fm_core *core)
{
	struct fm_remote_memory *m = fm_alloc(sizeof(*m));
	m->core = core;
	return m;
}

void fm_remote_memory_destroy(struct fm_remote_memory *m)
{
	free(m);
}

void fm_remote_memory_begin(struct fm_remote_memory *m, uint32_t pid)
{
	m->pid = pid;
	memset(m->tags, 0, sizeof(m->tags));
	m->missing = 0;
}

// As fm_process_readv(), for whole pages one after the other.
static ssize_t read_pages(struct fm_remote_memory *m, const struct iovec *to, size_t n_pages, uint64_t addr)
{
	if (!m->core)
		return fm_process_readv(m->pid, to, n_pages, addr, n_pages * FM_REMOTE_PAGE_BYTES);
	size_t n = 0;
	while (n < n_pages && fm_core_read(m->core, addr + n * FM_REMOTE_PAGE_BYTES, to[n].iov_base,
					   FM_REMOTE_PAGE_BYTES) == FM_REMOTE_PAGE_BYTES)
		n++;
	return (ssize_t)(n * FM_REMOTE_PAGE_BYTES);
}

void fm_remote_memory_fetch(struct fm_remote_memory *m, uint64_t addr, size_t n_pages)
{
	struct iovec to[MAX_FETCH];
	uint64_t first = addr / FM_REMOTE_PAGE_BYTES;
	if (addr < LOWEST || addr >= HIGHEST)
		return;
	n_pages = FM_MIN(n_pages, (size_t)MAX_FETCH);
	for (size_t i = 0; i < n_pages; i++) {
		uint64_t slot = (first + i) % N_PAGES;
		m->tags[slot] = 0;
		to[i] = (struct iovec){ m->pages[slot], FM_REMOTE_PAGE_BYTES };
	}
	ssize_t n = read_pages(m, to, n_pages, first * FM_REMOTE_PAGE_BYTES);
	for (size_t i = 0; n >= (ssize_t)((i + 1) * FM_REMOTE_PAGE_BYTES); i++)
		m->tags[(first + i) % N_PAGES] = first + i;
}

bool fm_remote_read(struct fm_remote_memory *m, uint64_t addr, void *to, size_t len)
{
	uint8_t *out = to;
	if (addr < LOWEST || addr >= HIGHEST || len > HIGHEST - addr)
		return false;
	while (len) {
		uint64_t page = addr / FM_REMOTE_PAGE_BYTES, slot = page % N_PAGES, at = addr % FM_REMOTE_PAGE_BYTES;
		size_t n = FM_MIN(len, (size_t)(FM_REMOTE_PAGE_BYTES - at));
		if (m->tags[slot] != page && m->missing != page)
			fm_remote_memory_fetch(m, addr, 1);
		if (m->tags[slot] != page) {
			m->missing = page;
			return false;
		}
		memcpy(out, &m->pages[slot][at], n);
		out += n;
		addr += n;
		len -= n;
	}
	return true;
}
