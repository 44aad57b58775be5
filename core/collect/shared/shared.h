// SPDX-License-Identifier: Apache-2.0
// The collector's side of the shared memory (wire/wire.h): made here, mapped by every process of
// the target's tree.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct fm_shared {
	int published_fd, fd; // of our own file, and of the targets'
	uint8_t *published;   // our own: nobody else can write here
	uint8_t *base;        // the targets', up to the end of the last slot in use
	uint8_t *sums;        // FM_WIRE_N_EXACT of wire/exact.h; NULL unless mapped
	uint32_t n_slots;
	struct fm_wire_header *header;     // the first page of published
	struct fm_wire_counts *counts;     // and of base
	struct fm_wire_process *processes; // FM_WIRE_N_PROCESSES
	struct fm_wire_owner *owners;      // FM_WIRE_N_SLOTS
	char env_value[64];                // for FM_WIRE_ENV
	_Atomic bool is_damaged;           // something stood there that no agent writes
	_Atomic uint64_t silent_ns;        // how long no beat came, where that was longer than an agent waits
};

FM_MUST_CHECK enum fm_err fm_shared_init(struct fm_shared *shared, struct fm_diag *diag);
void fm_shared_deinit(struct fm_shared *shared);

// For exact mode.
FM_MUST_CHECK enum fm_err fm_shared_map_sums(struct fm_shared *shared, struct fm_diag *diag);

static inline struct fm_wire_slot *fm_shared_slot(const struct fm_shared *shared, uint32_t idx)
{
	return (struct fm_wire_slot *)(shared->base + FM_WIRE_SLOTS_OFFSET + (uint64_t)idx * FM_WIRE_SLOT_BYTES);
}

static inline const uint8_t *fm_shared_ring(const struct fm_shared *shared, uint32_t idx)
{
	return (const uint8_t *)fm_shared_slot(shared, idx) + FM_WIRE_CONTROL_BYTES;
}

// The gate: whatever a target says of itself is read once, here, and is what an agent could have
// written; it may be something else the next moment. False: the entry is free, or no agent wrote
// it.
struct fm_shared_owner {
	uint32_t process_idx, tid;
};
bool fm_shared_read_owner(struct fm_shared *shared, uint32_t idx, struct fm_shared_owner *ret);

struct fm_shared_process {
	uint32_t pid, parent_pid;
	uint64_t start_ns;
	enum fm_engine engine;
	enum fm_wire_python python;
	uint32_t python_version;
	uint64_t python_pc;
	bool is_free_threaded, is_quiet;
	int tick_signal, engine_errno;
	int perf_fd; // -1: none
};
bool fm_shared_read_process(struct fm_shared *shared, uint32_t idx, struct fm_shared_process *ret);
// The one of these that a tick asks for again.
int fm_shared_tick_signal(const struct fm_shared *shared, uint32_t idx);
// False: blocks of this process end without a word.
bool fm_shared_tells_ends(struct fm_shared *shared, uint32_t idx);

// Whether some target wrote where none does, as far as can be seen.
bool fm_shared_is_damaged(const struct fm_shared *shared);

// Says that the collector runs.
void fm_shared_beat(struct fm_shared *shared, uint64_t now_ns);

// Gives a slot back: zeroes its control block and returns the ring's pages. Its owner must be gone.
void fm_shared_free_slot(struct fm_shared *shared, uint32_t idx);
