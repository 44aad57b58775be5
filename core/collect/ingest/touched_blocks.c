// SPDX-License-Identifier: Apache-2.0
// A look is believed once its block has outlived it: what was seen of any other may be another's
// pages. Ends are told before they happen, so a block whose end has not come by the next reading of
// the rings was there during the look before.
#include "collect/ingest/live_blocks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

// Of one process. The blocks beyond count in full, as all do that were never looked at.
#define MAX_BLOCKS 512
#define LOOK_NS 100000000u
// A look takes the process's lock of mappings for two megabytes at a time. It may take no more than
// this share of our time.
#define TIMES_COST 200
// A block that moves (realloc) is told to have ended when it has moved.
#define SURE_NS 20000000u
// So young a block is still being filled.
#define MIN_AGE_NS 50000000u
// Entries of the page table in one read: two megabytes of memory.
#define CHUNK_PAGES 512u
// Of a larger block every second chunk is read, or every fourth, ...: 256 MiB of pages in all.
#define MAX_CHUNKS 128u
// What is told while the block lives moves by this part of it.
#define TOLD_PARTS 16u

// A look is a mean over the time since the last one, in which the program may have had no CPU for a
// while.
#define PACE_DOUBT 2.0

#define PAGE_IS_PRESENT (1ull << 63)
#define PAGE_IS_SWAPPED (1ull << 62)

struct look {
	uint64_t time_ns, bytes;
};

struct large {
	uint64_t id, addr, size, born_ns;
	struct look before, last; // believed; last.time_ns 0 = none
	struct look fresh;        // not yet
	double pace;              // the fastest that it was filled, bytes/ns
	uint64_t told_bytes;      // UINT64_MAX = nothing
};

struct fm_touched {
	uint32_t pid, process_id;
	struct fm_shared *shared;
	uint32_t idx; // there
	struct fm_writer *writer;
	int fd; // of the page table; -1 = not open, -2 = cannot be opened
	uint64_t next_ns, page_bytes;
	FM_VEC(struct large) blocks;
};

struct fm_touched *fm_touched_create(uint32_t pid, uint32_t process_id, struct fm_shared *shared, uint32_t idx,
				     struct fm_writer *writer)
{
	struct fm_touched *t = fm_alloc(sizeof(*t));
	*t = (struct fm_touched){
		.pid = pid, .process_id = process_id, .shared = shared, .idx = idx, .writer = writer, .fd = -1
	};
	t->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	return t;
}

void fm_touched_destroy(struct fm_touched *t)
{
	if (!t)
		return;
	if (t->fd >= 0)
		close(t->fd);
	fm_vec_deinit(&t->blocks);
	free(t);
}

uint64_t fm_touched_by(uint64_t used, uint64_t size, double bytes_ns, uint64_t left_ns)
{
	double more = PACE_DOUBT * bytes_ns * (double)left_ns;
	return more < (double)(size - FM_MIN(used, size)) ? used + (uint64_t)more : size;
}

void fm_touched_born(struct fm_touched *t, uint64_t id, uint64_t addr, uint64_t size, uint64_t time_ns)
{
	if (size < FM_TOUCHED_MIN_BYTES || !addr || t->fd == -2 || t->blocks.n >= MAX_BLOCKS)
		return;
	fm_vec_push(&t->blocks, ((struct large){ .id = id,
						 .addr = addr,
						 .size = size,
						 .born_ns = time_ns,
						 .before.time_ns = time_ns,
						 .told_bytes = UINT64_MAX }));
}

static void tell(struct fm_touched *t, struct large *b, uint64_t bytes)
{
	b->told_bytes = bytes;
	fm_writer_alloc_touched(t->writer, t->process_id, b->id, bytes);
}

static void tell_at_end(struct fm_touched *t, struct large *b, uint64_t end_ns)
{
	if (!b->last.time_ns)
		return;
	bool is_growing = b->last.bytes > b->before.bytes && end_ns > b->last.time_ns;
	uint64_t bytes =
		is_growing ? fm_touched_by(b->last.bytes, b->size, b->pace, end_ns - b->last.time_ns) : b->last.bytes;
	if (bytes != (b->told_bytes == UINT64_MAX ? b->size : b->told_bytes))
		tell(t, b, bytes);
}

static void believe(struct large *b)
{
	if (!b->fresh.time_ns)
		return;
	if (b->last.time_ns)
		b->before = b->last;
	// What was used once is what the block needs, though the program may have given some of it
	// back meanwhile (MADV_DONTNEED).
	b->last = (struct look){ b->fresh.time_ns, FM_MAX(b->fresh.bytes, b->last.bytes) };
	b->fresh.time_ns = 0;
	if (b->last.bytes > b->before.bytes && b->last.time_ns > b->before.time_ns)
		b->pace = FM_MAX(b->pace, (double)(b->last.bytes - b->before.bytes) /
						  (double)(b->last.time_ns - b->before.time_ns));
}

void fm_touched_died(struct fm_touched *t, uint64_t id, uint64_t time_ns)
{
	for (size_t i = 0; i < t->blocks.n; i++)
		if (t->blocks.items[i].id == id) {
			if (time_ns > t->blocks.items[i].fresh.time_ns + SURE_NS)
				believe(&t->blocks.items[i]);
			tell_at_end(t, &t->blocks.items[i], time_ns);
			t->blocks.items[i] = t->blocks.items[--t->blocks.n];
			return;
		}
}

// False: the page table does not tell.
static bool count_used(const struct fm_touched *t, const struct large *b, uint64_t *ret_bytes)
{
	uint64_t first = b->addr / t->page_bytes, end = (b->addr + b->size + t->page_bytes - 1) / t->page_bytes;
	uint64_t n_chunks = (end - first + CHUNK_PAGES - 1) / CHUNK_PAGES;
	uint64_t step = (n_chunks + MAX_CHUNKS - 1) / MAX_CHUNKS, n_read = 0, n_used = 0;
	uint64_t entries[CHUNK_PAGES];
	for (uint64_t chunk = 0; chunk < n_chunks; chunk += step) {
		uint64_t at = first + chunk * CHUNK_PAGES, n = FM_MIN(end - at, (uint64_t)CHUNK_PAGES);
		ssize_t size = pread(t->fd, entries, n * sizeof(*entries), (off_t)(at * sizeof(*entries)));
		if (size != (ssize_t)(n * sizeof(*entries)))
			return false;
		for (uint64_t i = 0; i < n; i++)
			n_used += (entries[i] & (PAGE_IS_PRESENT | PAGE_IS_SWAPPED)) != 0;
		n_read += n;
	}
	*ret_bytes = n_used == n_read ? b->size : (uint64_t)((double)b->size * (double)n_used / (double)n_read);
	return true;
}

// False: it is used from end to end, and will be until its end.
static bool look_at(struct fm_touched *t, struct large *b, uint64_t now_ns)
{
	believe(b);
	if (b->last.time_ns && b->last.bytes == b->size) {
		tell_at_end(t, b, now_ns);
		return false;
	}
	uint64_t last_told = b->told_bytes == UINT64_MAX ? b->size : b->told_bytes;
	uint64_t moved = FM_MAX(last_told, b->last.bytes) - FM_MIN(last_told, b->last.bytes);
	if (b->last.time_ns && moved > b->size / TOLD_PARTS)
		tell(t, b, b->last.bytes);
	// Where ends are no longer told, its pages may be gone already. Asked after the look: the program
	// says so before the first of them.
	if (now_ns >= b->born_ns + MIN_AGE_NS && count_used(t, b, &b->fresh.bytes) &&
	    (!t->shared || fm_shared_tells_ends(t->shared, t->idx)))
		b->fresh.time_ns = fm_now_ns();
	return true;
}

// A capture may end while its process lives, and what was filled since the last look is used all the
// same. Of a process that has ended the page table tells nothing.
static void look_once_more(struct fm_touched *t, struct large *b, uint64_t now_ns)
{
	believe(b);
	if (t->fd < 0 || b->last.bytes == b->size || !count_used(t, b, &b->fresh.bytes))
		return;
	b->fresh.time_ns = now_ns;
	believe(b);
}

void fm_touched_end(struct fm_touched *t, uint64_t now_ns)
{
	for (size_t i = 0; t && i < t->blocks.n; i++) {
		if (t->blocks.items[i].last.time_ns || t->blocks.items[i].fresh.time_ns)
			look_once_more(t, &t->blocks.items[i], now_ns);
		tell_at_end(t, &t->blocks.items[i], now_ns);
	}
	fm_touched_destroy(t);
}

static bool open_pages(struct fm_touched *t)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/pagemap", t->pid);
	if (t->fd == -1)
		t->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (t->fd < 0)
		t->fd = -2;
	return t->fd >= 0;
}

void fm_touched_look(struct fm_touched *t, uint64_t now_ns)
{
	if (!t->blocks.n || now_ns < t->next_ns || !open_pages(t))
		return;
	// Not the clock: on a busy machine it goes on while others have the CPU.
	uint64_t begin_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (size_t i = 0; i < t->blocks.n;)
		if (look_at(t, &t->blocks.items[i], now_ns))
			i++;
		else
			t->blocks.items[i] = t->blocks.items[--t->blocks.n];
	uint64_t cost_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	t->next_ns = now_ns + FM_MAX((uint64_t)LOOK_NS, cost_ns * TIMES_COST);
}
