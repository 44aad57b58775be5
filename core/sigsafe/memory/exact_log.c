// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/memory/exact_log.h"

#include "sigsafe/memory/exact.h"
#include "sigsafe/base/ring.h"

#include "sigsafe/base/sigsafe.h"

// Waiting costs the program time, losing costs the user the whole story.
static FM_SIGSAFE __attribute__((noinline, cold)) void *wait_for_room(struct fm_sig_thread *t, uint16_t type,
								      size_t size)
{
	void *rec = NULL;
	if (fm_sig_log_is_on() && fm_sig_exact_wait(t, 2 * size))
		rec = fm_sig_ring_reserve(t, type, size);
	if (!rec)
		atomic_fetch_add_explicit(&fm_sig_exact_sums->n_unlogged, 1, memory_order_relaxed);
	return rec;
}

static FM_SIGSAFE void *reserve(struct fm_sig_thread *t, uint16_t type, size_t size)
{
	void *rec = fm_sig_ring_reserve(t, type, size);
	return FM_LIKELY(rec != NULL) ? rec : wait_for_room(t, type, size);
}

FM_SIGSAFE void fm_sig_log_born(struct fm_sig_thread *t, uint64_t id, uint64_t time_ns, uint64_t size, uint32_t site)
{
	struct fm_wire_block *rec = reserve(t, FM_WIRE_BLOCK, sizeof(*rec));
	if (!rec)
		return;
	rec->time_ns = time_ns;
	rec->id = id;
	rec->size = size;
	rec->site = site;
	rec->reserved = 0;
	fm_sig_ring_commit(t, &rec->rec);
}

FM_SIGSAFE void fm_sig_log_died(struct fm_sig_thread *t, uint64_t id, uint64_t time_ns)
{
	struct fm_wire_free *rec = reserve(t, FM_WIRE_FREED, sizeof(*rec));
	if (!rec)
		return;
	rec->time_ns = time_ns;
	rec->id = id;
	fm_sig_ring_commit(t, &rec->rec);
}
