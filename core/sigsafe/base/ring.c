// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/ring.h"

#include <time.h>

#include "base/clock.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

FM_SIGSAFE void *fm_sig_ring_reserve(struct fm_sig_thread *t, uint16_t type, size_t size)
{
	size = (size + 7) & ~(size_t)7;
	struct fm_wire_slot *slot = t->slot;
	// Ours, and a multiple of 8 unless another process of the tree wrote over it: then it must
	// not lead out of the ring.
	uint64_t head = atomic_load_explicit(&slot->head, memory_order_relaxed) & ~(uint64_t)7;
	// Acquire: the bytes below tail have been read by the collector before we overwrite them.
	uint64_t tail = atomic_load_explicit(&slot->tail, memory_order_acquire);
	uint64_t to_end = FM_WIRE_RING_BYTES - head % FM_WIRE_RING_BYTES;
	uint64_t skip = size > to_end ? to_end : 0; // records are never split
	if (size > FM_WIRE_RING_BYTES / 2 || head + skip + size - tail > FM_WIRE_RING_BYTES)
		return NULL;
	if (skip) {
		struct fm_wire_record *pad = (void *)(t->ring + head % FM_WIRE_RING_BYTES);
		pad->size = (uint32_t)skip;
		pad->type = FM_WIRE_PAD;
		pad->reserved = 0;
		head += skip;
		atomic_store_explicit(&slot->head, head, memory_order_release);
	}
	struct fm_wire_record *rec = (void *)(t->ring + head % FM_WIRE_RING_BYTES);
	rec->size = (uint32_t)size;
	rec->type = type;
	rec->reserved = 0;
	return rec;
}

FM_SIGSAFE void fm_sig_ring_commit(struct fm_sig_thread *t, const struct fm_wire_record *rec)
{
	uint64_t head = atomic_load_explicit(&t->slot->head, memory_order_relaxed);
	// Publishes the record: its bytes must be visible before head moves. Pairs with the acquire
	// load in the collector.
	atomic_store_explicit(&t->slot->head, head + rec->size, memory_order_release);
}

#define LONGEST_WAIT_NS 1000000000u
#define NAP_NS 100000

FM_SIGSAFE bool fm_sig_ring_has_room(const struct fm_sig_thread *t, uint64_t bytes)
{
	// Relaxed: who writes asks again.
	uint64_t used = atomic_load_explicit(&t->slot->head, memory_order_relaxed) -
			atomic_load_explicit(&t->slot->tail, memory_order_relaxed);
	return used + bytes <= FM_WIRE_RING_BYTES;
}

FM_SIGSAFE bool fm_sig_ring_wait(const struct fm_sig_thread *t, uint64_t bytes)
{
	if (FM_LIKELY(fm_sig_ring_has_room(t, bytes)))
		return true;
	uint64_t now_ns = fm_now_ns(), end_ns = now_ns + LONGEST_WAIT_NS;
	while (now_ns < end_ns && !fm_sig_quiet_poll_waiting(now_ns)) {
		struct timespec nap = { .tv_nsec = NAP_NS };
		fm_system_call(SYS_nanosleep, (long)&nap, 0, 0, 0);
		if (fm_sig_ring_has_room(t, bytes))
			return true;
		now_ns = fm_now_ns();
	}
	return false;
}
