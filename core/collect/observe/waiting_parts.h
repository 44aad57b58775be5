// SPDX-License-Identifier: Apache-2.0
// Between the parts of waiting.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/mem.h"
#include "collect/ingest/recorder.h"
#include "collect/observe/waiting.h"
#include "collect/process/proc.h"
#include "collect/process/thread.h"
#include "collect/registry/thread_list.h"
#include "collect/remote/remote.h"
#include "format/writer.h"

// What polling threads may cost: a share of one CPU, earned as time passes.
//
// Asking a thread how long it waited takes microseconds, and without it the sums are wrong. Reading a
// stack takes as long as asking thirty threads: it gets a part of the budget of its own, so that
// there is always enough left to list the threads and to ask them.

// The share of a CPU, unless another one is asked for.
#define FM_POLL_PERCENT 2u

struct fm_poll_budget {
	int64_t ns;       // left for everything
	int64_t stack_ns; // of it for stacks, where there are many threads
	int64_t hold_ns;  // for which threads that run may be held
	uint64_t earned_at_ns;
	uint64_t used_ns;    // in all
	size_t most_threads; // ever
};

void fm_poll_budget_init(struct fm_poll_budget *b);
void fm_poll_budget_earn(struct fm_poll_budget *b, uint64_t now_ns, uint32_t percent);
// There are so many threads now. Where that is more than ever, there is time for a stack of each of
// the new ones.
void fm_poll_budget_grow(struct fm_poll_budget *b, size_t n_threads);
void fm_poll_budget_pay(struct fm_poll_budget *b, uint64_t ns);
// Whether there is time to read a stack, of a thread that was read before or was not.
bool fm_poll_budget_has_stack(const struct fm_poll_budget *b, bool is_again);

struct wait_thread {
	struct fm_listed_thread listed;
	struct fm_proc_thread proc;
	uint32_t named_tid, own_tid, thread_id; // own_tid: as the thread knows itself
	bool is_over;                           // it has ended, but its parent or its process's other threads have not
	bool is_asleep;                         // at the last look, in a sleep whose stack is known
	bool is_told;                           // with tells_all: its one stack was read
	uint64_t since_ns;                      // counting began
	uint64_t looked_ns;                     // last look
	uint64_t rest_ns;                       // no look before
	uint64_t asleep_ns;                     // this sleep was first seen
	uint64_t n_sched_in;                    // how often it was given a CPU, at the last look
	uint64_t cpu_ns;                        // CPU time at the last look
	uint64_t first_cpu_ns;                  // and when counting began
	uint64_t ready_ns;                      // how long it was ready and had no CPU, at the last look
	uint64_t first_ready_ns;                // what of that is not the program's, or not in a region
	uint64_t sampled_ns;                    // CPU time that samples of ours stand for
	int64_t base_ns;                        // its age when counting began, but for what it had waited
	int64_t counted_ns;                     // waiting since then that was charged
	uint64_t owed_ns;                       // charged to the sleep below, not yet written
	uint64_t loose_ns;                      // charged to nothing yet
	uint32_t stack_id;
	uint8_t class;
	bool has_stack; // stack_id and class are of the last sleep that was seen
	uint32_t n_pieces;
	// Looks in a row that met it in a call which did not use its time, and the code before that call.
	uint32_t n_displaced, before_stack_id;
	uint8_t before_class;
	char name[FM_THREAD_NAME_BYTES];
};

struct wait_process {
	uint32_t process_idx, pid;
	uint64_t start_ns;
	bool is_contained;                     // has a pid namespace of its own
	bool is_warm;                          // a stack of it was read: its files are open
	uint64_t system_ns;                    // CPU time that samples of ours call system time,
	uint64_t account_ns, first_account_ns; // what the kernel does, and did when we came
	uint64_t account_at_ns;                // when it was asked
	struct fm_remote *remote;
	char first_name[16];         // of its main thread, as it was at first; later threads were born with that
	struct fm_map python_frames; // as the remote reader has them -> writer's id
	uint32_t code_generation;
	struct fm_thread_list threads; // of struct wait_thread
};

static inline struct wait_thread *fm_wait_thread_at(const struct wait_process *p, size_t i)
{
	return fm_thread_list_at(&p->threads, i);
}

struct fm_waiting {
	struct fm_recorder *recorder;
	struct fm_writer *writer;
	struct fm_registry *registry;
	struct fm_shared *shared; // the registry's
	struct fm_waiting_options options;
	struct fm_remote_files *files;
	FM_VEC(struct wait_process) processes;
	struct fm_remote_stack stack;
	struct fm_poll_budget budget;
	uint64_t ran_ns;                    // a look found that a thread had used CPU time
	uint64_t held_ns;                   // how long threads that run were held
	uint64_t longest_gap_ns;            // from the time a look was due to the look
	uint64_t unplaced_ns;               // waiting of threads of which no sleep was ever seen
	uint64_t unseen_ns;                 // of threads that ended before they were asked a second time
	size_t first_process, first_thread; // where the last look stopped
	size_t n_threads;
	bool is_outside;      // the program is in no region that is captured
	bool has_regions;     // it was, some time
	bool is_uncounted;    // this kernel keeps no schedstat
	bool is_refused;      // the system does not let us look at a thread
	bool is_hold_refused; // nor hold one that runs
};

// waiting_threads.c: brings the lists of processes and threads up to date.
void fm_wait_list_threads(struct fm_waiting *w, uint64_t now_ns);
// Writes what is owed to a process's threads and drops it; the same for all; or drops all unwritten.
void fm_wait_forget(struct fm_waiting *w, uint32_t process_idx);
void fm_wait_settle_all(struct fm_waiting *w);
void fm_wait_close_all(struct fm_waiting *w);
// waiting_write.c: the time in which the thread had no CPU, if it has an id.
void fm_wait_write_ready(struct fm_waiting *w, const struct wait_thread *t);
// waiting.c: reads the stack of a thread into w->stack.
void fm_wait_read_frames(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t,
			 const struct fm_remote_call *call, const struct fm_remote_regs *regs);
// waiting_running.c: samples a thread that runs.
void fm_wait_sample_running(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, uint64_t now_ns);
// The CPU time that no look told the place of, by the last one that came near.
void fm_wait_write_displaced(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t);
// waiting_write.c: writes what is owed for the thread's last sleep, at this time.
void fm_wait_write_share(struct fm_waiting *w, struct wait_thread *t, uint64_t time_ns);
// The stack that was read last (w->stack), as the file has it.
uint32_t fm_wait_write_stack(struct fm_waiting *w, struct wait_process *p, uint64_t now_ns);
// What the thread is called, if that is news.
void fm_wait_name_thread(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t);
// The same, seldom: names come late, and then stay.
void fm_wait_name_sometimes(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t);
// attached_system.c: what the kernel calls system time is counted from now on.
void fm_wait_system_begin(struct wait_process *p);
// A thread was met in a system call. False: the kernel's account of system time has no room for
// this much, which the call did not use.
bool fm_wait_is_system(struct wait_process *p, uint64_t weight_ns, uint64_t now_ns);
// Takes the system call and its own function off the stack that was read last; returns what the
// code before it is.
uint8_t fm_wait_step_back(struct fm_waiting *w, struct wait_process *p);
// thread_name.c: true when the thread is called otherwise than name says (of FM_THREAD_NAME_BYTES;
// "" = nothing yet), which is set then.
bool fm_wait_thread_name(struct wait_process *p, uint32_t tid, uint32_t own_tid, uint64_t since_ns, char *name);
// What the recorder asks: struct fm_thread_observer.
bool fm_wait_observe_name(void *self, uint32_t process_idx, uint32_t pid, uint32_t tid, uint64_t since_ns, char *name);
const char *fm_wait_observe_process_name(void *self, uint32_t process_idx);
