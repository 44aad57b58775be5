// SPDX-License-Identifier: Apache-2.0
// Exact mode: what the agents have summed up (wire/exact.h), into the file.
#pragma once

#include "collect/ingest/recorder_parts.h"

// The sums of a process, NULL when it has none.
struct fm_wire_exact *fm_exact_find(const struct fm_shared *shared, uint32_t process_idx);

// The stack of a site, told once.
void fm_exact_take_site(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			const struct fm_wire_site_stack *rec);

// One event of its log.
void fm_exact_take_block(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			 const struct fm_wire_block *rec);
// After each look at the rings: sites that were told late, and the size of the file.
void fm_exact_settle(struct fm_recorder *r);
// What each site holds, now and then: its average.
void fm_exact_poll(struct recorded_process *p, struct fm_wire_exact *sums, uint64_t now_ns);
// The process is gone: its sites go into the file, its sums are free for another.
void fm_exact_end(struct fm_recorder *r, struct recorded_process *p, uint32_t process_idx);
