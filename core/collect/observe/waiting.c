// SPDX-License-Identifier: Apache-2.0
// How much a thread waits is counted exactly, where it waits is seen by looking.
//
// The kernel counts for every thread how long it ran, how long it was ready but had no CPU, and how
// often it was given one (schedstat). What is left of the time between two looks is waiting. A
// thread that was asleep at a look and has been given no CPU since is in the same sleep: its stack,
// read once, stands for all of it. Between two looks with a change in between, the waiting belongs
// half to the sleep before and half to the one after; to the only one if the thread runs at the
// other look; to the next that is seen if it runs at both. Sleeps much shorter than the time
// between looks are so charged by chance, in proportion to how long they take; the sum stays exact.
//
//   look        |         |         |         |         |
//   thread   ===....a....====...b....................======
//   charged         a    a|b         b         b|
//
// Order: samples of one thread come in order of time. A sleep's share is written at the look after
// the one that first saw it, when the samples before it have been read, and the end of a sleep at
// the time of the last look at which it lasted, which is before any sample after it.
#include "collect/observe/waiting.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/observe/waiting_parts.h"
#include "collect/remote/remote.h"
#include "image/dwarf_regs.h"

// Long sleeps are written in pieces: a collector that is killed has told them, and live views move.
#define PIECE_NS 250000000u
// With more threads than this, one that has long been asleep is looked at again after this share of
// its sleep.
#define FEW_THREADS 24u
#define RECENT_SHARE 16
#define MAX_REST_NS 500000000u
// A thread that was not found in the sleep of the last look is left alone for so long, times the
// number of threads: asking how long they waited is to take no more than the rest of the budget.
#define REST_PER_THREAD_NS 500000u
// Waiting without a place is worth a line in the report from here on.
#define MUCH_UNPLACED_NS 1000000000u

void fm_waiting_set(struct fm_waiting *w, const struct fm_waiting_options *options)
{
	w->options = *options;
	if (!w->options.cpu_percent)
		w->options.cpu_percent = FM_POLL_PERCENT;
}

// ---- looking at one thread ----

static enum fm_proc_state read_call(struct fm_waiting *w, struct wait_thread *t, struct fm_remote_call *ret_call,
				    struct fm_remote_regs *ret_regs)
{
	struct fm_proc_call call;
	enum fm_proc_state state = fm_proc_thread_call(&t->proc, &call);
	w->is_refused |= t->proc.is_call_refused;
	if (state == FM_PROC_SLEEPS) {
		*ret_call = (struct fm_remote_call){ .nr = call.nr, .arg = { call.arg0 } };
		*ret_regs = (struct fm_remote_regs){ .pc = call.pc, .known = 1u << FM_DW_RSP };
		ret_regs->r[FM_DW_RSP] = call.sp;
	}
	return state;
}

void fm_wait_read_frames(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t,
			 const struct fm_remote_call *call, const struct fm_remote_regs *regs)
{
	struct fm_registered now;
	unsigned want = FM_REMOTE_PYTHON | (w->shared->header->flags & FM_WIRE_NO_NATIVE ? 0 : FM_REMOTE_NATIVE) |
			(w->options.tells_all ? FM_REMOTE_GIL : 0);
	if (fm_registry_read(w->registry, p->process_idx, &now) && now.said.python == FM_WIRE_PYTHON_KNOWN)
		fm_remote_set_python(p->remote, now.said.python_pc, now.said.python_version);
	fm_remote_read_stack(p->remote, t->own_tid, regs, call, want, &w->stack);
	if (w->options.locals)
		fm_remote_read_locals(p->remote, t->listed.tid, w->options.locals);
	if (w->options.tells_all)
		fm_wait_write_gil(w->writer, t->listed.tid, w->stack.has_gil);
}

// Reads the stack of a thread that sleeps; false when it ran meanwhile.
static bool read_stack(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t,
		       const struct fm_proc_schedule *before, const struct fm_remote_call *call,
		       const struct fm_remote_regs *regs, uint64_t now_ns)
{
	fm_wait_read_frames(w, p, t, call, regs);
	struct fm_proc_schedule after;
	struct fm_remote_call call_after;
	struct fm_remote_regs regs_after;
	if (!fm_proc_thread_schedule(&t->proc, &after) || after.n_sched_in != before->n_sched_in ||
	    read_call(w, t, &call_after, &regs_after) != FM_PROC_SLEEPS || regs_after.pc != regs->pc ||
	    regs_after.r[FM_DW_RSP] != regs->r[FM_DW_RSP])
		return false;
	if (t->thread_id == FM_NO_ID)
		t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->listed.tid, t->since_ns);
	t->stack_id = fm_wait_write_stack(w, p, now_ns);
	t->class = w->stack.waits_for_gil ? FM_CLASS_GIL_WAIT : FM_CLASS_WAIT;
	t->has_stack = t->is_told = true;
	fm_wait_name_sometimes(w, p, t);
	return true;
}

static bool may_read_stack(const struct fm_waiting *w, const struct wait_thread *t)
{
	return w->options.tells_all || w->n_threads <= FEW_THREADS ||
	       fm_poll_budget_has_stack(&w->budget, t->has_stack);
}

static bool read_and_pay(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t,
			 const struct fm_proc_schedule *before, const struct fm_remote_call *call,
			 const struct fm_remote_regs *regs, uint64_t now_ns)
{
	uint64_t from_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool is_read = read_stack(w, p, t, before, call, regs, now_ns);
	w->budget.stack_ns -= (int64_t)(fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns);
	return is_read;
}

// The program is in no region that is captured: what the thread does is left out. What it waited
// before that it still gets.
static void leave_out(struct fm_waiting *w, struct wait_thread *t, uint64_t used_ns, uint64_t looked_ns)
{
	if (t->is_asleep)
		fm_wait_write_share(w, t, looked_ns);
	t->is_asleep = false; // in the next region it is seen anew
	t->first_cpu_ns += used_ns;
}

static void look_at_thread(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, uint64_t now_ns)
{
	struct fm_proc_schedule s;
	if (now_ns < t->rest_ns || t->is_over || (t->is_told && w->options.tells_all))
		return;
	if (!fm_proc_thread_schedule(&t->proc, &s)) {
		t->listed.tid = 0; // gone; another may have its id already
		p->threads.is_stale = true;
		return;
	}
	uint64_t looked_ns = t->looked_ns;
	w->longest_gap_ns = FM_MAX(w->longest_gap_ns, now_ns - FM_MAX(looked_ns, t->rest_ns));
	int64_t waited_ns = (int64_t)(now_ns - t->since_ns) - ((int64_t)(s.cpu_ns + s.ready_ns) - t->base_ns);
	// Negative: it was woken and waited for a CPU, which the kernel counts afterwards. What
	// comes next makes up for it.
	uint64_t new_ns = waited_ns > t->counted_ns ? (uint64_t)(waited_ns - t->counted_ns) : 0;
	t->counted_ns += (int64_t)new_ns;
	t->looked_ns = now_ns;
	uint64_t used_ns = s.cpu_ns - FM_MIN(t->cpu_ns, s.cpu_ns);
	t->cpu_ns = s.cpu_ns;
	uint64_t had_no_cpu_ns = s.ready_ns - FM_MIN(t->ready_ns, s.ready_ns);
	t->ready_ns = s.ready_ns;
	if (used_ns)
		w->ran_ns = now_ns;
	if (w->is_outside) {
		leave_out(w, t, used_ns, looked_ns);
		t->first_ready_ns += had_no_cpu_ns;
		return;
	}
	if (t->is_asleep && s.n_sched_in == t->n_sched_in) {
		t->owed_ns += new_ns;
		if (t->owed_ns >= PIECE_NS) {
			fm_wait_write_share(w, t, now_ns);
			fm_wait_name_sometimes(w, p, t);
		}
		if (w->n_threads > FEW_THREADS)
			t->rest_ns = now_ns + FM_MIN((now_ns - t->asleep_ns) / RECENT_SHARE, (uint64_t)MAX_REST_NS);
		return;
	}
	struct fm_remote_call call;
	struct fm_remote_regs regs;
	enum fm_proc_state state = read_call(w, t, &call, &regs);
	bool is_asleep = state == FM_PROC_SLEEPS, is_over = state == FM_PROC_OVER;
	if (is_over) { // since when, nobody knows
		new_ns = t->is_asleep ? new_ns / 2 : 0;
		t->is_over = true;
	}
	if (t->is_asleep) { // that sleep has ended
		uint64_t share_ns = is_asleep ? new_ns / 2 : new_ns;
		t->owed_ns += share_ns;
		new_ns -= share_ns;
		fm_wait_write_share(w, t, looked_ns);
	}
	t->loose_ns += new_ns;
	t->n_sched_in = s.n_sched_in;
	if (t->thread_id ==
	    FM_NO_ID) // it may have ended for the recorder, who saw it run, before we settle what it waited
		t->thread_id = fm_recorder_find_thread(w->recorder, p->process_idx, t->listed.tid);
	fm_wait_write_ready(w, t);
	if (w->n_threads > FEW_THREADS && !w->options.samples_running)
		t->rest_ns = now_ns + w->n_threads * REST_PER_THREAD_NS;
	if (is_asleep && !may_read_stack(w, t)) {
		t->is_asleep = false;
		return; // it is read at a later look, if it still sleeps then
	}
	t->is_asleep = is_asleep && read_and_pay(w, p, t, &s, &call, &regs, now_ns);
	if (t->is_asleep) {
		t->asleep_ns = now_ns;
		t->owed_ns = t->loose_ns;
		t->loose_ns = 0;
	} else if (w->options.samples_running && !is_over && (t->cpu_ns > t->sampled_ns || w->options.tells_all)) {
		fm_wait_sample_running(w, p, t, now_ns);
	}
}

// ---- the round ----

static void pay(struct fm_waiting *w, uint64_t *from_ns)
{
	uint64_t now_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	fm_poll_budget_pay(&w->budget, now_ns - *from_ns);
	*from_ns = now_ns;
}

// Goes round from where the last look had to stop. Returns how many threads had their turn.
static size_t look_at_threads(struct fm_waiting *w, uint64_t *from_ns)
{
	size_t process = w->first_process, thread = w->first_thread, n = 0;
	for (; w->processes.n && n < w->n_threads && (w->budget.ns > 0 || w->options.tells_all); n++) {
		if (process >= w->processes.n)
			process = thread = 0;
		for (size_t tries = 0; tries <= w->processes.n && thread >= w->processes.items[process].threads.n;
		     tries++) {
			process = (process + 1) % w->processes.n;
			thread = 0;
		}
		struct wait_process *p = &w->processes.items[process];
		look_at_thread(w, p, fm_wait_thread_at(p, thread), fm_now_ns());
		thread++;
		if (n % 8 == 7 || n + 1 == w->n_threads)
			pay(w, from_ns);
	}
	w->first_process = process;
	w->first_thread = thread;
	return n;
}

static void poll_threads(void *self, uint64_t now_ns)
{
	struct fm_waiting *w = self;
	uint64_t from_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	fm_poll_budget_earn(&w->budget, now_ns, w->options.cpu_percent);
	w->is_outside = atomic_load_explicit(&w->shared->counts->is_outside, memory_order_relaxed);
	w->has_regions |= w->is_outside;
	fm_wait_list_threads(w, now_ns);
	fm_poll_budget_grow(&w->budget, w->n_threads);
	size_t n = look_at_threads(w, &from_ns);
	// All had theirs: let others be the first whose stacks are read.
	if (w->n_threads > FEW_THREADS && n == w->n_threads)
		w->first_thread += now_ns % w->n_threads;
}

// ---- as a whole ----

size_t fm_waiting_n_untold(const struct fm_waiting *w)
{
	size_t n = 0;
	for (size_t i = 0; i < w->processes.n; i++)
		for (size_t k = 0; k < w->processes.items[i].threads.n; k++) {
			const struct wait_thread *t = fm_wait_thread_at(&w->processes.items[i], k);
			n += t->listed.tid && !t->is_told && !t->is_over;
		}
	return n;
}

bool fm_waiting_is_hold_refused(const struct fm_waiting *w)
{
	return w->is_hold_refused;
}

static uint64_t began(const void *self, uint32_t process_idx, uint32_t tid, uint64_t start_ns)
{
	const struct fm_waiting *w = self;
	for (size_t i = 0; i < w->processes.n; i++) {
		const struct wait_process *p = &w->processes.items[i];
		for (size_t k = 0; p->process_idx == process_idx && k < p->threads.n; k++)
			if (fm_wait_thread_at(p, k)->listed.tid == tid)
				return FM_MIN(start_ns, fm_wait_thread_at(p, k)->since_ns);
	}
	return start_ns;
}

static void forget(void *self, uint32_t process_idx)
{
	fm_wait_forget(self, process_idx);
}

static void finish(void *self)
{
	struct fm_waiting *w = self;
	fm_wait_settle_all(w);
	if (w->is_refused)
		fm_writer_coverage(w->writer, FM_STR_LIT("where some threads wait"),
				   FM_STR_LIT("the system does not permit Fathom to read them: the program dropped its "
					      "privileges, or kernel.yama.ptrace_scope is above 1"));
	if (w->unplaced_ns >= MUCH_UNPLACED_NS) {
		char what[64];
		snprintf(what, sizeof(what), "where threads waited for %.1f s in all", (double)w->unplaced_ns * 1e-9);
		fm_writer_coverage(
			w->writer, fm_str_of(what),
			FM_STR_LIT("more threads waited than Fathom can poll; how long they waited is known"));
	}
	if (w->unseen_ns >= MUCH_UNPLACED_NS) {
		char what[64];
		snprintf(what, sizeof(what), "what threads did for %.1f s in all", (double)w->unseen_ns * 1e-9);
		fm_writer_coverage(
			w->writer, fm_str_of(what),
			FM_STR_LIT("they ended before Fathom polled them again: they waited, or no CPU was free"));
	}
	if (w->is_uncounted)
		fm_writer_coverage(w->writer, FM_STR_LIT("waiting time"),
				   FM_STR_LIT("this kernel does not count it (no CONFIG_SCHED_INFO)"));
}

uint64_t fm_waiting_idle_ns(const struct fm_waiting *w, uint64_t now_ns)
{
	return now_ns > w->ran_ns ? now_ns - w->ran_ns : 0;
}

void fm_waiting_cost(const struct fm_waiting *w, struct fm_waiting_cost *ret)
{
	ret->cpu_ns = w->budget.used_ns;
	ret->held_ns = w->held_ns;
	ret->longest_gap_ns = w->longest_gap_ns;
	ret->has_regions = w->has_regions;
}

struct fm_waiting *fm_waiting_create(struct fm_recorder *recorder, struct fm_writer *writer,
				     struct fm_registry *registry)
{
	struct fm_waiting *w = fm_alloc(sizeof(*w));
	w->recorder = recorder;
	w->writer = writer;
	w->registry = registry;
	w->shared = fm_registry_shared(registry);
	w->files = fm_remote_files_create();
	w->ran_ns = fm_now_ns();
	fm_poll_budget_init(&w->budget);
	w->options.cpu_percent = FM_POLL_PERCENT;
	// A kernel that counts has counted us.
	struct fm_proc_thread self;
	struct fm_proc_schedule s;
	fm_proc_thread_open(&self, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid));
	w->is_uncounted = !fm_proc_thread_schedule(&self, &s) || s.n_sched_in == 0;
	fm_proc_thread_close(&self);
	fm_recorder_set_observer(recorder, &(struct fm_thread_observer){
						   .self = w,
						   .poll = poll_threads,
						   .began = began,
						   .name_thread = fm_wait_observe_name,
						   .name_process = fm_wait_observe_process_name,
						   .forget = forget,
						   .finish = finish,
					   });
	return w;
}

void fm_waiting_destroy(struct fm_waiting *w)
{
	fm_wait_close_all(w); // nothing is written any more
	fm_remote_stack_deinit(&w->stack);
	fm_remote_files_destroy(w->files);
	free(w);
}
