// Time off CPU: which threads wait, where, and for how long. Seen from outside, by /proc and by reading memory: a thread that waits is
// never signalled nor stopped (docs/decisions/0004-waiting-threads-are-read-from-beside.md). One thread, the recorder's.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/shared.h"

struct fm_recorder;
struct fm_writer;
struct fm_waiting;

struct fm_waiting *fm_waiting_create(struct fm_recorder *recorder, struct fm_writer *writer, struct fm_shared *shared);
void fm_waiting_destroy(struct fm_waiting *w);

struct fm_waiting_options {
	bool samples_running; // threads that run, too, held for the moment of the look: where no agent is in the process
	bool came_late; // the program ran before the capture: the CPU time that threads had used by then is not its own
	bool tells_all; // every thread, also one that waited no time yet
	uint32_t cpu_percent; // of one CPU that looking may take; 0 = 2
};
void fm_waiting_set(struct fm_waiting *w, const struct fm_waiting_options *options);

// One look at all threads, as far as it may cost now. Call it before the rings are read: what a thread that is asleep now has sampled
// before is then written before what it waits from now on.
void fm_waiting_look(struct fm_waiting *w, uint64_t now_ns);
// True when a thread of the process is called otherwise than name says (of FM_THREAD_NAME_BYTES; "" = nothing yet), which is set then.
bool fm_waiting_name_thread(struct fm_waiting *w, uint32_t process_idx, uint32_t pid, uint32_t tid, uint64_t since_ns,
			    char *name);
// When a thread began: start_ns, or when it was first seen here, if that was before.
uint64_t fm_waiting_since(const struct fm_waiting *w, uint32_t process_idx, uint32_t tid, uint64_t start_ns);
// Writes what is known of a process's threads and drops it.
void fm_waiting_forget(struct fm_waiting *w, uint32_t process_idx);
// The same for all.
void fm_waiting_finish(struct fm_waiting *w);
// The CPU time that looking has taken; how long threads that run were held for it, in sum; and the longest time for which a thread was not
// looked at although it was due: a wait's ends may be off by that.
void fm_waiting_cost(const struct fm_waiting *w, uint64_t *ret_cpu_ns, uint64_t *ret_held_ns,
		     uint64_t *ret_longest_gap_ns);
