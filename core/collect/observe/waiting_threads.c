// SPDX-License-Identifier: Apache-2.0
// Which processes and threads are polled, and what is still owed when one is gone.
#include <stdlib.h>

#include "base/clock.h"
#include "collect/observe/waiting_parts.h"

// A thread that ends so long after its last look is taken to have waited meanwhile as it did
// before.
#define LONG_UNSEEN_NS 50000000u
// How often threads are listed that may have replaced others between two looks; and where they come
// and go, at most, times their number: a listing takes as long as asking some fifty threads.
#define RELIST_NS 200000000u
#define RELIST_PER_THREAD_NS 400000u
// A thread that was never seen asleep and waited less than this is not worth a place of its own.
#define WORTH_TELLING_NS 20000000u

// A program that was started under us is known from its beginning, one that we came to is not.
static bool is_known_from_birth(const struct fm_waiting *w)
{
	return !w->options.samples_running && !w->options.came_late;
}

// What is still owed, for a thread that is gone since end_ns or is not looked at any more.
static void settle(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, uint64_t end_ns)
{
	uint64_t unseen_ns = w->is_outside ? 0 : end_ns - t->looked_ns;
	if (unseen_ns > LONG_UNSEEN_NS && t->looked_ns > t->since_ns)
		t->owed_ns += (uint64_t)((double)unseen_ns * (double)FM_MAX(t->counted_ns, 0) /
					 (double)(t->looked_ns - t->since_ns));
	else if (t->is_asleep) // until some time since the last look
		t->owed_ns += unseen_ns / 2;
	else if (unseen_ns > LONG_UNSEEN_NS) // it may have waited or had no CPU: nobody knows
		w->unseen_ns += unseen_ns;
	t->owed_ns += t->loose_ns; // what it waited where nobody looked goes to the last place where somebody did
	if (t->thread_id == FM_NO_ID && fm_recorder_thread_has_ended(w->recorder, p->process_idx, t->named_tid))
		return; // the recorder was faster
	if (w->options.tells_all) {
		t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->named_tid, t->since_ns);
		t->owed_ns += t->is_asleep && !t->owed_ns;
		fm_wait_name_thread(w, p, t);
		if (!t->has_stack) // it ran, and its sample is written; or it was not read at all
			t->owed_ns = 0;
	}
	if (t->owed_ns >= WORTH_TELLING_NS && !t->has_stack) { // nobody ever saw where
		if (t->thread_id == FM_NO_ID)
			t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->named_tid, t->since_ns);
		t->stack_id = FM_ROOT_STACK;
		t->class = FM_CLASS_WAIT;
		t->has_stack = true;
		w->unplaced_ns += t->owed_ns;
	}
	if (t->n_displaced && t->cpu_ns > t->sampled_ns)
		fm_wait_write_displaced(w, p, t);
	if (t->thread_id == FM_NO_ID)
		return;
	fm_wait_write_share(w, t, t->looked_ns);
	fm_wait_write_ready(w, t);
	fm_recorder_thread_end(w->recorder, p->process_idx, t->named_tid,
			       t->cpu_ns - (is_known_from_birth(w) ? 0 : t->first_cpu_ns));
}

// ---- threads ----

struct scan {
	struct fm_waiting *waiting;
	struct wait_process *process;
	uint64_t now_ns, before_ns; // who came or went did so between these; before_ns 0 = it is the first listing
};

// For all we know.
static uint64_t middle(uint64_t from_ns, uint64_t to_ns)
{
	return from_ns + (to_ns - from_ns) / 2;
}

static void thread_came(void *ctx, void *thread)
{
	const struct scan *scan = ctx;
	struct wait_thread *t = thread;
	struct fm_proc_schedule s;
	t->named_tid = t->listed.tid;
	t->thread_id = FM_NO_ID;
	t->since_ns = t->looked_ns = scan->now_ns;
	t->own_tid = scan->process->is_contained ? fm_process_own_pid(t->named_tid) : t->named_tid;
	fm_proc_thread_open(&t->proc, scan->process->pid, t->named_tid);
	if (fm_proc_thread_schedule(&t->proc, &s)) {
		t->base_ns = (int64_t)(s.cpu_ns + s.ready_ns);
		if (is_known_from_birth(scan->waiting) && scan->before_ns) // what it has waited so far counts, too
			t->base_ns =
				FM_MAX(t->base_ns, (int64_t)(scan->now_ns - middle(scan->before_ns, scan->now_ns)));
		t->n_sched_in = s.n_sched_in;
		t->cpu_ns = t->sampled_ns = t->first_cpu_ns = s.cpu_ns;
		t->ready_ns = s.ready_ns;
		// A first thread had a life before the program, and one that we came to before us.
		if (!is_known_from_birth(scan->waiting) || t->named_tid == scan->process->pid)
			t->first_ready_ns = s.ready_ns;
	}
}

static bool thread_is_there(void *ctx, void *thread)
{
	(void)ctx;
	struct fm_proc_schedule s;
	return fm_proc_thread_schedule(&((struct wait_thread *)thread)->proc, &s);
}

static void thread_went(void *ctx, void *thread)
{
	const struct scan *scan = ctx;
	struct wait_thread *t = thread;
	settle(scan->waiting, scan->process, t, middle(FM_MAX(scan->before_ns, t->looked_ns), scan->now_ns));
	fm_proc_thread_close(&t->proc);
}

// ---- processes ----

static void close_process(struct wait_process *p)
{
	for (size_t i = 0; i < p->threads.n; i++)
		fm_proc_thread_close(&fm_wait_thread_at(p, i)->proc);
	fm_thread_list_close(&p->threads);
	fm_map_deinit(&p->python_frames);
	fm_remote_destroy(p->remote);
}

static void drop_process(struct fm_waiting *w, size_t i)
{
	struct wait_process *p = &w->processes.items[i];
	uint64_t now_ns = fm_now_ns();
	for (size_t k = 0; k < p->threads.n; k++)
		settle(w, p, fm_wait_thread_at(p, k), now_ns);
	close_process(p);
	*p = w->processes.items[--w->processes.n];
}

static bool is_current(const struct fm_waiting *w, const struct wait_process *p)
{
	struct fm_registered now;
	return fm_registry_read(w->registry, p->process_idx, &now) && now.pid == p->pid &&
	       now.said.start_ns == p->start_ns;
}

static void scan_processes(struct fm_waiting *w)
{
	for (size_t i = 0; i < w->processes.n;) {
		if (is_current(w, &w->processes.items[i]))
			i++;
		else
			drop_process(w, i);
	}
	for (uint32_t idx = 0; idx < FM_WIRE_N_PROCESSES; idx++) {
		struct fm_registered now;
		if (!fm_registry_read(w->registry, idx, &now) || !now.pid)
			continue;
		bool is_known = false;
		size_t replaced = w->processes.n; // by exec
		for (size_t i = 0; i < w->processes.n; i++) {
			is_known |= w->processes.items[i].process_idx == idx;
			if (w->processes.items[i].pid == now.pid && w->processes.items[i].process_idx != idx) {
				if (w->processes.items[i].start_ns < now.said.start_ns)
					replaced = i;
				else
					is_known = true;
			}
		}
		if (is_known || !fm_recorder_process(w->recorder, idx))
			continue;
		if (replaced < w->processes.n)
			drop_process(w, replaced);
		struct wait_process p = { .process_idx = idx, .pid = now.pid, .start_ns = now.said.start_ns };
		fm_thread_list_open(&p.threads, now.pid, sizeof(struct wait_thread));
		p.is_contained = fm_process_own_pid(now.pid) != now.pid;
		p.remote = fm_remote_create(now.pid, w->files, w->shared, idx);
		if (w->options.samples_running)
			fm_wait_system_begin(&p);
		fm_vec_push(&w->processes, p);
	}
}

void fm_wait_list_threads(struct fm_waiting *w, uint64_t now_ns)
{
	scan_processes(w);
	w->n_threads = 0;
	for (size_t i = 0; i < w->processes.n; i++) {
		struct wait_process *p = &w->processes.items[i];
		struct scan scan = { w, p, now_ns, p->threads.same_ns };
		struct fm_thread_list_user user = { &scan, thread_came, thread_is_there, thread_went };
		uint64_t min_age_ns = FM_MIN(p->threads.n * RELIST_PER_THREAD_NS, (uint64_t)RELIST_NS);
		fm_thread_list_refresh(&p->threads, now_ns, min_age_ns, RELIST_NS, &user);
		w->n_threads += p->threads.n;
	}
}

void fm_wait_forget(struct fm_waiting *w, uint32_t process_idx)
{
	for (size_t i = 0; i < w->processes.n; i++)
		if (w->processes.items[i].process_idx == process_idx) {
			drop_process(w, i);
			return;
		}
}

void fm_wait_settle_all(struct fm_waiting *w)
{
	while (w->processes.n)
		drop_process(w, w->processes.n - 1);
}

void fm_wait_close_all(struct fm_waiting *w)
{
	for (size_t i = 0; i < w->processes.n; i++)
		close_process(&w->processes.items[i]);
	fm_vec_deinit(&w->processes);
}
