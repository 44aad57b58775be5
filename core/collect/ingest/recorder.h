// SPDX-License-Identifier: Apache-2.0
// Turns what agents put into the rings into a profile: drains slots, resolves definitions, hands
// everything to the writer. One thread. Knows processes by the registry, and threads by what the
// shared memory and /proc say.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/ingest/ingest_trace.h"
#include "collect/registry/registry.h"
#include "collect/shared/cost.h"
#include "format/writer.h"

struct fm_recorder;

// Who watches the threads beside the recorder, and knows of them what no ring tells
// (collect/observe/waiting.h). Each gets self; called by the recorder's thread.
struct fm_thread_observer {
	void *self;
	// Before the rings are read: what a thread that is asleep now has sampled before is then
	// written before what it waits from now on.
	void (*poll)(void *self, uint64_t now_ns);
	// When a thread began: start_ns, or when it was first seen here, if that was before.
	uint64_t (*began)(const void *self, uint32_t process_idx, uint32_t tid, uint64_t start_ns);
	// True when a thread of the process is called otherwise than name says (of
	// FM_THREAD_NAME_BYTES; "" = nothing yet), which is set then.
	bool (*name_thread)(void *self, uint32_t process_idx, uint32_t pid, uint32_t tid, uint64_t since_ns,
			    char *name);
	// What Python's multiprocessing calls the process; "" = nothing, NULL = it was not polled
	// yet.
	const char *(*name_process)(void *self, uint32_t process_idx);
	// Writes what is known of a process's threads and drops it; the same for all.
	void (*forget)(void *self, uint32_t process_idx);
	void (*finish)(void *self);
};

#define FM_HEAVY_PERIODS 10u
#define FM_HEAVY_LEAST_PERIOD_NS 1000000u // higher rates come down to that by themselves on a crowded machine

struct fm_recorder_totals {
	uint64_t n_samples, n_taken, n_memory_events, n_dropped, n_failed, n_restarted, n_displaced, n_bad_records;
	uint64_t n_cut, n_unafforded, n_no_stack; // struct fm_wire_slot
	uint64_t n_heavy, heavy_ns; // samples that stand for more than FM_HEAVY_PERIODS, and what they stand for
	uint64_t n_alloc_samples, n_alloc_dropped, n_free_dropped, alloc_cycles;
	uint64_t n_exact_lost, n_exact_beyond;
	uint32_t max_sites;      // of exact mode, of one process
	uint64_t n_exact_untold; // allocations whose stack did not come
	uint64_t n_unlogged,
		log_end_ns; // events that the log misses; when its file had grown to the limit, 0 = it had not
	struct fm_cost cost;
	struct fm_ingest_trace_totals trace;
	uint32_t n_processes, n_unknown_python;
	uint32_t n_processes_alive; // not ended yet
	uint32_t n_other_clock;     // in another time namespace
	uint32_t n_without_perf;    // processes where the kernel refused the engine asked for
	int perf_errno;             // to the last of these
};

struct fm_kernel_stacks;
struct fm_recorder *fm_recorder_create(struct fm_registry *registry, struct fm_writer *writer,
				       const struct fm_trace_limits *limits);
void fm_recorder_destroy(struct fm_recorder *r);
// From now on samples in the kernel get its functions as well. Borrowed.
void fm_recorder_add_kernel(struct fm_recorder *r, struct fm_kernel_stacks *kernel);
// Where to look for the text of a source whose name is not a path; lent. NULL = nowhere.
void fm_recorder_set_sources(struct fm_recorder *r, const char *dir);

// The log of memory ends when the file has so many bytes. 0 = there is none.
void fm_recorder_limit_log(struct fm_recorder *r, uint64_t bytes);

// Takes everything that is in the rings now. Also notices processes that came and went and frees
// slots of ended threads.
void fm_recorder_drain(struct fm_recorder *r);
// How many processes have joined and not ended.
uint32_t fm_recorder_n_alive(const struct fm_recorder *r);
// The status of a process that the caller has reaped.
void fm_recorder_set_exit(struct fm_recorder *r, uint32_t pid, int exit_code, int exit_signal);
// From now on; its functions are copied.
void fm_recorder_set_observer(struct fm_recorder *r, const struct fm_thread_observer *observer);
// Who a process of the table is, where no agent tells.
void fm_recorder_describe(struct fm_recorder *r, uint32_t process_idx, struct fm_str exe, struct fm_str command);

// ---- for the observer, which adds what it saw of threads that sleep ----

bool fm_recorder_process(struct fm_recorder *r, uint32_t process_idx); // makes it known; false: there is none
// The id of a thread, which is made known if no sample has done so yet.
uint32_t fm_recorder_thread(struct fm_recorder *r, uint32_t process_idx, uint32_t tid, uint64_t start_ns);
// The same if it is known and has not ended, else FM_NO_ID.
uint32_t fm_recorder_find_thread(struct fm_recorder *r, uint32_t process_idx, uint32_t tid);
bool fm_recorder_thread_has_ended(struct fm_recorder *r, uint32_t process_idx, uint32_t tid);
// How long it has been ready and had no CPU, up to now.
void fm_recorder_thread_ready(struct fm_recorder *r, uint32_t thread_id, uint64_t ready_ns);
// Ends a thread that was never sampled; of others the recorder knows more.
void fm_recorder_thread_end(struct fm_recorder *r, uint32_t process_idx, uint32_t tid, uint64_t cpu_ns);
bool fm_recorder_has_image(const struct fm_recorder *r, uint32_t process_idx, uint64_t pc);
void fm_recorder_image(struct fm_recorder *r, uint32_t process_idx, const struct fm_wire_image *image,
		       struct fm_str path, struct fm_str build_id);
uint32_t fm_recorder_native_frame(struct fm_recorder *r, uint32_t process_idx, uint64_t lookup_pc, uint64_t time_ns);
uint32_t fm_recorder_syscall_frame(struct fm_recorder *r, uint32_t nr);
// place as in rings: the instruction's offset plus 1, 0 = not started. The file has the line
// instead.
uint32_t fm_recorder_python_frame(struct fm_recorder *r, uint32_t process_idx, const struct fm_code_info *code,
				  uint32_t place);
// Its time moves behind the thread's last sample if need be: those of one thread are in order.
void fm_recorder_wait(struct fm_recorder *r, const struct fm_sample *sample);

// Last drain: ends what is still open, and adds to the coverage what could not be seen.
void fm_recorder_finish(struct fm_recorder *r, struct fm_recorder_totals *ret);

// Which libraries of a capture copy memory by code of their own, where no hook is.

// Says in the profile's coverage which of the images that were seen call none of libc's copying
// functions.
void fm_copies_unseen_tell(struct fm_writer *w);
