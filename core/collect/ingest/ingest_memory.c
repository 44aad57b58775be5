// SPDX-License-Identifier: Apache-2.0
// Sampled allocations, copies and frees. A block's stack shares frames with the slot's last one,
// sample or allocation.
#include "collect/ingest/recorder_parts.h"

void fm_ingest_alloc(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		     const struct fm_wire_alloc *rec)
{
	uint32_t stack;
	if (rec->rec.size < sizeof(*rec) || rec->domain >= FM_N_ALLOC_DOMAINS) {
		r->totals.n_bad_records++;
		return;
	}
	if (!fm_ingest_memory_stack(r, p, s, &rec->rec, sizeof(*rec), rec->time_ns, rec->n_frames, rec->n_shared,
				    &stack))
		return;
	struct fm_alloc alloc = {
		.thread_id = s->thread_id,
		.stack_id = stack,
		.time_ns = rec->time_ns,
		.id = rec->domain == FM_ALLOC_COPY ? 0 : rec->id,
		.size = rec->size,
		.weight = rec->weight,
		.domain = rec->domain,
	};
	fm_writer_alloc(r->writer, &alloc);
	if (rec->domain == FM_ALLOC_OBJ)
		fm_survivors_born(p->survivors, rec->id, rec->addr, rec->size, rec->time_ns);
	if (rec->domain != FM_ALLOC_COPY)
		fm_touched_born(p->touched, rec->id, rec->addr, rec->size, rec->time_ns);
	r->totals.n_memory_events++;
}

void fm_ingest_free(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		    const struct fm_wire_free *rec)
{
	if (rec->rec.size < sizeof(*rec)) {
		r->totals.n_bad_records++;
		return;
	}
	fm_survivors_died(p->survivors, rec->id);
	fm_touched_died(p->touched, rec->id, rec->time_ns);
	fm_writer_free(r->writer, &(struct fm_free){ s->thread_id, rec->time_ns, rec->id });
	r->totals.n_memory_events++;
}
