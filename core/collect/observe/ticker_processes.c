// SPDX-License-Identifier: Apache-2.0
// Which processes and threads get ticks.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collect/observe/ticker_parts.h"

// One that took the place of another leaves their number as it was: threads are listed anew now and
// then. The more threads, the more it costs, and the rarer it is.
#define RELIST_NS 20000000u
#define RELIST_PER_THREAD_NS 500000u
// While nothing runs that is done so often only: one that took the place of another shows by
// that one's end.
#define IDLE_RELIST_NS 1000000000u

static void close_thread(void *ctx, void *thread)
{
	(void)ctx;
	fm_proc_thread_close(&((struct tick_thread *)thread)->proc);
}

static void drop_process(struct fm_ticker *k, size_t i)
{
	struct tick_process *p = &k->processes.items[i];
	for (size_t j = 0; j < p->threads.n; j++)
		close_thread(NULL, fm_tick_thread_at(p, j));
	fm_thread_list_close(&p->threads);
	*p = k->processes.items[--k->processes.n];
}

void fm_ticker_close_processes(struct fm_ticker *k)
{
	while (k->processes.n)
		drop_process(k, k->processes.n - 1);
	fm_vec_deinit(&k->processes);
}

void fm_ticker_scan_processes(struct fm_ticker *k)
{
	k->n_claimed_seen = atomic_load(&k->shared->counts->n_processes_claimed);
	k->is_scan_due = false;
	for (size_t i = 0; i < k->processes.n;) {
		struct tick_process *p = &k->processes.items[i];
		struct fm_registered now;
		if (fm_registry_read(k->registry, p->process_idx, &now) && now.pid == p->pid) {
			i++;
		} else {
			drop_process(k, i);
		}
	}
	for (uint32_t idx = 0; idx < FM_WIRE_N_PROCESSES; idx++) {
		struct fm_registered now;
		bool is_believed = fm_registry_read(k->registry, idx, &now) && now.pid;
		if (!is_believed)
			k->is_scan_due |= fm_shared_read_process(k->shared, idx, &now.said);
		if (!is_believed || now.said.engine != FM_ENGINE_TICKER)
			continue;
		bool is_known = false;
		for (size_t i = 0; i < k->processes.n && !is_known; i++)
			is_known = k->processes.items[i].process_idx == idx;
		if (is_known)
			continue;
		struct tick_process p = { .process_idx = idx, .pid = now.pid, .was_perf = now.said.perf_fd >= 0 };
		fm_thread_list_open(&p.threads, now.pid, sizeof(struct tick_thread));
		fm_vec_push(&k->processes, p);
	}
}

// The agent says by what its ticks are to come; threads may block the one and not the other.
static void set_signal(struct tick_process *p, int signal)
{
	if (p->signal == signal)
		return;
	p->signal = signal;
	for (size_t i = 0; i < p->threads.n; i++)
		fm_tick_thread_at(p, i)->is_checked = fm_tick_thread_at(p, i)->is_blocking = false;
}

struct scan {
	uint32_t pid;
	uint64_t now_ns;
};

static void thread_came(void *ctx, void *thread)
{
	const struct scan *scan = ctx;
	struct tick_thread *t = thread;
	t->slot = -1;
	t->ran_ns = scan->now_ns;
	fm_proc_thread_open(&t->proc, scan->pid, t->listed.tid);
}

bool fm_ticker_scan_threads(struct fm_ticker *k, size_t i, uint64_t now_ns, bool is_idle)
{
	struct tick_process *p = &k->processes.items[i];
	struct fm_registered now;
	struct scan scan = { p->pid, now_ns };
	struct fm_thread_list_user user = { .ctx = &scan, .came = thread_came, .went = close_thread };
	uint64_t max_age_ns = is_idle ? IDLE_RELIST_NS : RELIST_NS + p->threads.n * RELIST_PER_THREAD_NS;
	if (!fm_registry_read(k->registry, p->process_idx, &now) || now.pid != p->pid ||
	    now.said.engine != FM_ENGINE_TICKER || !fm_thread_list_refresh(&p->threads, now_ns, 0, max_age_ns, &user)) {
		drop_process(k, i);
		return false;
	}
	set_signal(p, now.said.tick_signal);
	return true;
}

// Programs that close every descriptor take their perf event with them. The ticker goes on where it
// ended.
void fm_ticker_find_lost_perf(struct fm_ticker *k)
{
	bool has_lost = false;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		struct fm_registered now;
		char path[48], what[8];
		if (!fm_registry_read(k->registry, i, &now) || !now.pid || now.said.engine != FM_ENGINE_PERF ||
		    now.said.perf_fd < 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%u/fd/%d", now.pid, now.said.perf_fd);
		if (readlink(path, what, sizeof(what)) >= 0 || errno != ENOENT)
			continue;
		atomic_store(&k->shared->processes[i].engine, FM_ENGINE_TICKER);
		has_lost = true;
	}
	if (has_lost)
		fm_ticker_scan_processes(k);
}

// A process that took us for stopped, and we were, waits for a tick. Any of its threads will do.
void fm_ticker_wake_quiet(const struct fm_ticker *k)
{
	if (!atomic_load_explicit(&k->shared->counts->n_quiet, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		struct fm_registered now;
		if (fm_registry_read(k->registry, i, &now) && now.pid && now.said.is_quiet)
			kill((pid_t)now.pid, FM_TICK_SIGNAL);
	}
}
