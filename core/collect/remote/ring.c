// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/ring.h"

#include <string.h>

#include "collect/process/memory.h"
#include "collect/remote/parts.h"
#include "collect/remote/pending.h"

// ---- what is there ----

static uint64_t container(struct fm_remote *r, const struct fm_remote_pending *p)
{
	return p->at.is_in_runtime ? r->python.runtime : fm_remote_main_interpreter(r);
}

// Free, held by a thread that was stopped right there, or nothing that is a lock.
enum lock { LOCK_FREE, LOCK_HELD, LOCK_NONE };

static enum lock look_at_lock(struct fm_remote *r, const struct fm_remote_pending *p, uint64_t at)
{
	uint8_t byte;
	uint64_t addr;
	// sem_t of glibc on 64-bit machines: the value, how many wait, whether processes share it.
	struct {
		uint32_t value, n_waiting, is_shared, unused;
	} semaphore;
	if (p->at.is_mutex_a_byte)
		return !fm_remote_u8(r->memory, at + p->at.lock, &byte) || byte > 3 ? LOCK_NONE
		       : byte                                                       ? LOCK_HELD
										    : LOCK_FREE;
	if (!fm_remote_u64(r->memory, at + p->at.lock, &addr) || !addr || addr % 8 ||
	    !fm_remote_read(r->memory, addr, &semaphore, sizeof(semaphore)) || semaphore.value > 1 ||
	    semaphore.n_waiting > 100000 || semaphore.is_shared)
		return LOCK_NONE;
	return semaphore.value ? LOCK_FREE : LOCK_HELD;
}

bool fm_remote_ring_read(struct fm_remote *r, const struct fm_remote_pending *p, struct fm_remote_ring *ret)
{
	const struct fm_py_pending *at = &p->at;
	uint32_t n = at->n_calls, n_most, finishing = 0;
	uint64_t function;
	ret->at = container(r, p);
	if (!ret->at || !fm_remote_u32(r->memory, ret->at + at->first, &ret->first) ||
	    !fm_remote_u32(r->memory, ret->at + at->last, &ret->last) ||
	    !fm_remote_u32(r->memory, ret->at + at->to_do, &ret->to_do) || ret->first >= n || ret->last >= n)
		return false;
	uint32_t n_waiting = (ret->last + n - ret->first) % n;
	if (at->n_most ? !fm_remote_u32(r->memory, ret->at + at->to_do + 4, &n_most) || n_most != at->n_most ||
				 ret->to_do != n_waiting
		       : ret->to_do > 1)
		return false;
	if (at->finishing && (!fm_remote_u32(r->memory, ret->at + at->finishing, &finishing) || finishing > 1))
		return false;
	for (uint32_t i = 0; i < n_waiting; i++)
		if (!fm_remote_u64(r->memory, ret->at + at->calls + (ret->first + i) % n * at->call_bytes, &function) ||
		    !fm_remote_images_is_code(r->images, function))
			return false;
	return look_at_lock(r, p, ret->at) != LOCK_NONE;
}

bool fm_remote_ring_is_free(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring)
{
	return look_at_lock(r, p, ring->at) == LOCK_FREE;
}

// ---- writing ----

// The ring as it lies there, from to_do to last, which in every release are its ends. It is read and
// written as a whole: who kills us meanwhile finds it as it was or as it is to be.
struct whole {
	uint8_t bytes[FM_PY_PENDING_RING_BYTES];
	uint32_t start, len;
};

static bool read_whole(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring,
		       struct whole *ret)
{
	ret->start = p->at.to_do;
	ret->len = p->at.last + (uint32_t)sizeof(uint32_t) - ret->start;
	return ret->len <= sizeof(ret->bytes) && fm_remote_read(r->memory, ring->at + ret->start, ret->bytes, ret->len);
}

static bool write_whole(struct fm_remote *r, const struct fm_remote_ring *ring, const struct whole *whole)
{
	return fm_process_write(r->pid, ring->at + whole->start, whole->bytes, whole->len);
}

static void put(struct whole *whole, uint32_t at, uint32_t value)
{
	memcpy(whole->bytes + (at - whole->start), &value, sizeof(value));
}

static uint8_t *entry(const struct fm_remote_pending *p, struct whole *whole, uint32_t idx)
{
	return whole->bytes + (p->at.calls - whole->start) + (size_t)idx * p->at.call_bytes;
}

bool fm_remote_ring_add(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring)
{
	struct whole whole;
	const uint64_t call[3] = { p->function, p->room, 0 };
	uint32_t next = (ring->last + 1) % p->at.n_calls;
	if (next == ring->first || !read_whole(r, p, ring, &whole))
		return false;
	memcpy(entry(p, &whole, ring->last), call, p->at.call_bytes);
	put(&whole, p->at.last, next);
	put(&whole, p->at.to_do, p->at.n_most ? ring->to_do + 1 : 1);
	return write_whole(r, ring, &whole);
}

bool fm_remote_ring_take_out(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring)
{
	struct whole whole;
	const uint64_t own[2] = { p->function, p->room };
	uint32_t n = p->at.n_calls, next;
	bool is_found = false;
	if (!read_whole(r, p, ring, &whole))
		return false;
	for (uint32_t at = ring->first; at != ring->last; at = next) {
		next = (at + 1) % n;
		is_found = is_found || memcmp(entry(p, &whole, at), own, sizeof(own)) == 0;
		if (is_found && next != ring->last) // those that came later move up
			memcpy(entry(p, &whole, at), entry(p, &whole, next), p->at.call_bytes);
	}
	if (!is_found)
		return false;
	put(&whole, p->at.last, (ring->last + n - 1) % n);
	if (p->at.n_most)
		put(&whole, p->at.to_do, ring->to_do - 1);
	return write_whole(r, ring, &whole);
}
