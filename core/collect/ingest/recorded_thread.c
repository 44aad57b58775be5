// SPDX-License-Identifier: Apache-2.0
// Threads of the profile: of those with a slot, and of those that were only ever seen asleep
// (waiting.c).
#include "base/clock.h"
#include "collect/ingest/recorder_parts.h"

// In fm_recorder.thread_ids: it ended; another may get its id.
#define THREAD_ENDED UINT64_MAX

static uint64_t *id_of(struct fm_recorder *r, uint32_t process_idx, uint32_t tid)
{
	return fm_map_at(&r->thread_ids, (uint64_t)process_idx << 32 | tid, NULL);
}

uint32_t fm_recorder_thread(struct fm_recorder *r, uint32_t process_idx, uint32_t tid, uint64_t start_ns)
{
	uint64_t *id = id_of(r, process_idx, tid);
	if (!*id || *id == THREAD_ENDED) {
		*id = (uint64_t)fm_writer_thread(r->writer, r->processes[process_idx].process_id, tid, start_ns) + 1;
		fm_vec_grow_to(&r->threads, *id);
	}
	return (uint32_t)(*id - 1);
}

uint32_t fm_recorder_find_thread(struct fm_recorder *r, uint32_t process_idx, uint32_t tid)
{
	const uint64_t *id = fm_map_find(&r->thread_ids, (uint64_t)process_idx << 32 | tid);
	return id && *id && *id != THREAD_ENDED ? (uint32_t)(*id - 1) : FM_NO_ID;
}

bool fm_recorder_thread_has_ended(struct fm_recorder *r, uint32_t process_idx, uint32_t tid)
{
	const uint64_t *id = fm_map_find(&r->thread_ids, (uint64_t)process_idx << 32 | tid);
	return id && *id == THREAD_ENDED;
}

void fm_recorder_thread_end(struct fm_recorder *r, uint32_t process_idx, uint32_t tid, uint64_t cpu_ns)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_shared_owner owner;
		if (fm_shared_read_owner(r->shared, i, &owner) && owner.tid == tid && owner.process_idx == process_idx)
			return;
	}
	uint64_t *id = id_of(r, process_idx, tid);
	if (*id && *id != THREAD_ENDED)
		fm_writer_thread_end(
			r->writer, (uint32_t)*id - 1,
			&(struct fm_thread_totals){ fm_now_ns(), cpu_ns, 0, r->threads.items[*id - 1].ready_ns1 });
	*id = THREAD_ENDED;
}

void fm_recorded_thread_forget(struct fm_recorder *r, uint32_t process_idx, uint32_t tid)
{
	*id_of(r, process_idx, tid) = THREAD_ENDED;
}

void fm_recorder_thread_ready(struct fm_recorder *r, uint32_t thread_id, uint64_t ready_ns)
{
	r->threads.items[thread_id].ready_ns1 = ready_ns + 1;
}

void fm_recorder_wait(struct fm_recorder *r, const struct fm_sample *sample)
{
	struct fm_sample ordered = *sample;
	uint64_t *last_ns = &r->threads.items[sample->thread_id].last_ns;
	// Seen asleep at this time, but woken and sampled before its ring was read a moment later.
	*last_ns = ordered.time_ns = FM_MAX(ordered.time_ns, *last_ns);
	fm_writer_sample(r->writer, &ordered);
}
