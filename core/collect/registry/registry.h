// SPDX-License-Identifier: Apache-2.0
// Which processes there are: one table for the recorder, the ticker, the threads that wait and
// attached captures. An entry is a process that joined by its agent (wire/wire.h), or one that the
// collector entered itself, without an agent in it.
//
// A process that joined says of itself which number it has, and may lie: a collector of root's
// would look into any process at its word. So the number is believed only when the kernel says that
// the process has our shared memory mapped, or descends from us.
//
// Entries are entered and freed by the recorder's thread. The ticker reads them from its own: those
// that joined only, as there is no ticker where the collector enters them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/shared/shared.h"

// It has ended, or cannot be looked at, before anybody could tell whose it is: it is known by the
// number that it gave, but nothing may be done by that number. /proc has no process 0.
#define FM_REGISTRY_NO_PID 0u

struct fm_registered {
	struct fm_shared_process said; // by its agent, or by the collector that entered it
	uint32_t pid;                  // by which the kernel may be asked: said.pid, or FM_REGISTRY_NO_PID
};

struct fm_registry;
struct fm_registry *fm_registry_create(struct fm_shared *shared);
void fm_registry_destroy(struct fm_registry *g); // NULL is fine
struct fm_shared *fm_registry_shared(const struct fm_registry *g);

// The entry as it is now. False: it is free, or names a process that is none of ours.
bool fm_registry_read(struct fm_registry *g, uint32_t idx, struct fm_registered *ret);
// How many numbers were not believed.
uint32_t fm_registry_n_refused(const struct fm_registry *g);

// Enters a process that has no agent. Its index, or FM_WIRE_N_PROCESSES when there is no room.
uint32_t fm_registry_enter(struct fm_registry *g, uint32_t pid, uint32_t parent_pid, uint64_t start_ns);
// An interpreter was found in a process that was entered.
void fm_registry_set_python(struct fm_registry *g, uint32_t idx, uint64_t pc, uint32_t hexversion,
			    bool is_free_threaded);
// The process has ended: another may have the entry.
void fm_registry_free(struct fm_registry *g, uint32_t idx);
