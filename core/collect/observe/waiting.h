// SPDX-License-Identifier: Apache-2.0
// Time off CPU: which threads wait, where, and for how long. Seen from outside, by /proc and by
// reading memory: a thread that waits is never signalled nor stopped
// (docs/decisions/0004-waiting-threads-are-read-from-beside.md). One thread, the recorder's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/registry/registry.h"

struct fm_recorder;
struct fm_writer;
struct fm_waiting;

// The recorder asks it from then on (struct fm_thread_observer), so it is destroyed after the
// recorder.
struct fm_waiting *fm_waiting_create(struct fm_recorder *recorder, struct fm_writer *writer,
				     struct fm_registry *registry);
void fm_waiting_destroy(struct fm_waiting *w);

struct fm_waiting_options {
	bool samples_running; // threads that run, too, held for the moment of the look: where no agent is in the
			      // process
	bool came_late; // the program ran before the capture: the CPU time that threads had used by then is not its own
	bool tells_all; // one stack of every thread, also of one that waited no time yet; then it is not looked at
			// again
	struct fm_locals *locals; // where the frames' local variables go; NULL = nobody wants them
	uint32_t cpu_percent;     // of one CPU that looking may take; 0 = 2
};
void fm_waiting_set(struct fm_waiting *w, const struct fm_waiting_options *options);

// How long no thread was found to have used any CPU time.
uint64_t fm_waiting_idle_ns(const struct fm_waiting *w, uint64_t now_ns);
struct fm_waiting_cost {
	uint64_t cpu_ns;         // that looking has taken
	uint64_t held_ns;        // how long threads that run were held for it, in sum
	uint64_t longest_gap_ns; // for which a thread was not looked at although it was due: a wait's ends may be off
				 // by that
	bool has_regions;        // the program was seen outside of the regions that are captured
};
void fm_waiting_cost(const struct fm_waiting *w, struct fm_waiting_cost *ret);
// With tells_all: how many threads have no stack yet.
size_t fm_waiting_n_untold(const struct fm_waiting *w);
// True when the system forbade to hold a thread that runs.
bool fm_waiting_is_hold_refused(const struct fm_waiting *w);

// Of one look at a process: whether a thread has the GIL of its interpreter.
void fm_wait_write_gil(struct fm_writer *w, uint32_t tid, bool has_gil);
