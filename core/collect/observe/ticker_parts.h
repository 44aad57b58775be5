// SPDX-License-Identifier: Apache-2.0
// Between the parts of the ticker.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "collect/observe/ticker.h"
#include "collect/process/thread.h"
#include "collect/registry/thread_list.h"
#include "collect/shared/cost.h"

// For so long after a thread had to wait for a CPU, for longer than the ticker itself takes one, it
// is asked before each tick whether it has one.
#define CROWDED_NS 100000000u
// When the ticker itself is so late, too. Idle CPUs of virtual machines take some ten microseconds
// to wake up.
#define LATE_NS 100000u
// Ticks that came due while the ticker had no CPU: the last ones are remembered. A system call that
// kept it off for longer shows by these.
#define MAX_DUE 16u

struct tick_thread {
	struct fm_listed_thread listed;
	struct fm_proc_thread proc;
	bool is_blocking;                 // blocked our signal at the last look
	bool was_counted;                 // as blocking it for good
	bool is_checked;                  // its mask was looked at
	uint64_t blocked_since_ns;        // when it was first seen to block, of looks in a row
	uint64_t blocked_cpu_ns;          // its CPU time then
	int slot;                         // index, -1 = not known yet
	uint32_t skip;                    // ticks to let pass before the next look
	uint64_t ran_ns;                  // when it was last seen running
	struct fm_proc_schedule schedule; // when it was last asked for
	uint64_t sent_ns;                 // of the unanswered signal, 0 = none
	uint64_t n_ticks_at_send;
	uint64_t recheck_ns;
	uint64_t crowded_ns; // when it was last seen to have waited for a CPU
	bool is_off_cpu;     // at the last look; false = not known
};

struct tick_process {
	uint32_t process_idx, pid;
	int signal;                    // of its ticks
	bool was_perf;                 // its event is gone, and no signal has been sent yet
	struct fm_thread_list threads; // of struct tick_thread
};

static inline struct tick_thread *fm_tick_thread_at(const struct tick_process *p, size_t i)
{
	return fm_thread_list_at(&p->threads, i);
}

struct fm_ticker {
	struct fm_registry *registry;
	struct fm_shared *shared; // the registry's
	struct fm_ticker_options options;
	pthread_t thread;
	_Atomic int is_stopping;
	uint64_t random;
	uint32_t n_claimed_seen;
	bool is_scan_due; // an entry was not believed, and may be the next time
	uint32_t resting_skip, recent_skip;
	_Atomic uint64_t ran_ns; // when a thread was last seen running
	uint32_t n_quiet;        // ticks in a row at which those that rest were not looked at
	int loadavg_fd;          // -1: it does not tell how many threads run
	uint32_t n_due;          // ticks that came due since the last time, and when: the n-th at n % MAX_DUE
	uint64_t due_ns[MAX_DUE];
	bool is_late;        // the first of them came long ago
	uint64_t crowded_ns; // when a thread was last seen to have waited for a CPU
	struct fm_proc_thread self;
	uint64_t perf_looked_ns;
	FM_VEC(struct tick_process) processes;
	struct fm_cost_seen cost_seen; // at the last look at the budget
	uint64_t n_signals_seen, n_crowded_seen;
	struct fm_ticker_stats stats;
};

// ticker_processes.c: takes up processes that joined and drops those whose entry was freed or taken
// by another.
void fm_ticker_scan_processes(struct fm_ticker *k);
// Brings the list of a process's threads up to date. False: the process is gone, and was dropped.
bool fm_ticker_scan_threads(struct fm_ticker *k, size_t i, uint64_t now_ns, bool is_idle);
// Processes that closed their perf event, and such as took us for stopped.
void fm_ticker_find_lost_perf(struct fm_ticker *k);
void fm_ticker_wake_quiet(const struct fm_ticker *k);
void fm_ticker_close_processes(struct fm_ticker *k);

// ticker_signal.c: signals a thread that runs, if it answers and its tick is due.
void fm_ticker_signal(struct fm_ticker *k, struct tick_process *p, struct tick_thread *t, uint64_t now_ns);

// ticker_rate.c: the period at which handlers stay within their budget, from what they cost since the
// last time; 0 = keep what is.
uint64_t fm_ticker_affordable_period_ns(struct fm_ticker *k, double cycles_per_ns);
// How long until the next tick.
uint64_t fm_ticker_jittered(struct fm_ticker *k, uint64_t period, uint64_t now_ns);
