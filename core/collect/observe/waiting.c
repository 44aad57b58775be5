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

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/process/descriptors.h"
#include "collect/process/memory.h"
#include "collect/remote/locals.h"
#include "collect/remote/stop.h"
#include "collect/observe/waiting_parts.h"
#include "image/dwarf_regs.h"

// Long sleeps are written in pieces: a collector that is killed has told them, and live views move.
#define PIECE_NS 250000000u
// The share of a CPU that looking may take, what may be saved up for a burst, and for the
// beginning.
#define BUDGET_PERCENT 2u
#define BUDGET_MOST_NS 10000000
#define BUDGET_START_NS 30000000
// With more threads than this, one that has long been asleep is looked at again after this share of
// its sleep.
#define FEW_THREADS 24u
#define RECENT_SHARE 16
#define MAX_REST_NS 500000000u
// Of many threads that sleep often not every sleep can be read. Reading a stack takes as long as
// asking thirty threads how long they waited, and without that the sums are wrong; so it gets this
// part of the budget, threads of which no sleep was seen yet come first, and what a thread waits
// unseen is charged to the next sleep of its that is seen.
#define STACK_PERCENT 75
#define STACKS_AGAIN_NS 2000000
// When there are more threads than ever before: a stack for each of the new ones.
#define FIRST_STACK_NS 100000
// A thread that was not found in the sleep of the last look is left alone for so long, times the
// number of threads: asking how long they waited is to take no more than the rest of the budget.
#define REST_PER_THREAD_NS 500000u
// A thread that ends so long after its last look is taken to have waited meanwhile as it did
// before.
#define LONG_UNSEEN_NS 50000000u
// New threads show in the link count of /proc/PID/task, ended ones when they are looked at; a scan
// now and then finds those that replaced others between two looks.
#define RESCAN_NS 200000000u
// A thread that was never seen asleep and waited less than this is not worth a place of its own.
#define WORTH_TELLING_NS 20000000u
// Waiting without a place is worth a line in the report from here on.
#define MUCH_UNPLACED_NS 1000000000u
// A thread that is asked to stop may have come to a system call by then. So many times in a row the
// time is left for the next look; one that does little but call the kernel is met there always.
#define MAX_DISPLACED 8u

void fm_waiting_set(struct fm_waiting *w, const struct fm_waiting_options *options)
{
	w->options = *options;
	if (!w->options.cpu_percent)
		w->options.cpu_percent = BUDGET_PERCENT;
}

// ---- what /proc says ----

struct schedule {
	uint64_t cpu_ns, ready_ns, n_sched_in;
};

static int open_file(const struct wait_thread *t, const char *name)
{
	char path[64];
	snprintf(path, sizeof(path), "%u/%s", t->tid, name);
	int fd = openat(t->task_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fm_descriptors_note(errno);
	return fd;
}

// As pread() from the start, of a file that is open or is opened for this.
static ssize_t read_file(const struct wait_thread *t, const char *name, int kept_fd, char *text, size_t size)
{
	if (FM_LIKELY(kept_fd >= 0))
		return pread(kept_fd, text, size, 0);
	_cleanup_close_ int fd = open_file(t, name);
	return fd >= 0 ? pread(fd, text, size, 0) : -1;
}

static bool read_schedule(const struct wait_thread *t, struct schedule *ret)
{
	char text[96], *at = text;
	ssize_t n = read_file(t, "schedstat", t->schedstat_fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = 0;
	ret->cpu_ns = strtoull(at, &at, 10);
	ret->ready_ns = strtoull(at, &at, 10);
	ret->n_sched_in = strtoull(at, &at, 10);
	return true;
}

// "NR ARG0 ... ARG5 SP PC", "-1 SP PC" outside of a system call, or "running". False: it runs, or
// has ended and waits for its parent to see that (then without a pc: *ret_is_over).
static bool read_call(struct fm_waiting *w, const struct wait_thread *t, struct fm_remote_call *ret_call,
		      struct fm_remote_regs *ret_regs, bool *ret_is_over)
{
	char text[256], *at = text;
	*ret_is_over = false;
	ssize_t n = read_file(t, "syscall", t->syscall_fd, text, sizeof(text) - 1);
	w->is_refused |= n < 0 && (errno == EPERM || errno == EACCES);
	if (n <= 0 || text[0] == 'r')
		return false;
	text[n] = 0;
	*ret_regs = (struct fm_remote_regs){ .known = 1u << FM_DW_RSP };
	*ret_call = (struct fm_remote_call){ .nr = (int32_t)strtol(at, &at, 10) };
	uint64_t words[8] = { 0 };
	unsigned n_words = 0;
	while (n_words < FM_ARRAY_LEN(words) && *at == ' ')
		words[n_words++] = strtoull(at, &at, 16);
	if (n_words < 2)
		return false;
	ret_call->arg[0] = n_words == 8 ? words[0] : 0;
	ret_regs->r[FM_DW_RSP] = words[n_words - 2];
	ret_regs->pc = words[n_words - 1];
	*ret_is_over = ret_regs->pc == 0;
	return !*ret_is_over;
}

// ---- threads and processes ----

static int keep_file(const struct wait_thread *t, const char *name)
{
	int fd = open_file(t, name);
	if (fd >= 0 && !fm_descriptors_may_keep(fd)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void open_thread(struct fm_waiting *w, struct wait_process *p, uint32_t tid, uint64_t now_ns)
{
	struct schedule s;
	struct wait_thread t = { .tid = tid,
				 .named_tid = tid,
				 .thread_id = FM_NO_ID,
				 .since_ns = now_ns,
				 .looked_ns = now_ns,
				 .task_fd = p->task_fd };
	t.schedstat_fd = keep_file(&t, "schedstat");
	t.syscall_fd = keep_file(&t, "syscall");
	if (read_schedule(&t, &s)) {
		t.base_ns = (int64_t)(s.cpu_ns + s.ready_ns);
		t.n_sched_in = s.n_sched_in;
		t.cpu_ns = t.sampled_ns = t.first_cpu_ns = s.cpu_ns;
	}
	t.own_tid = p->is_contained ? fm_process_own_pid(tid) : tid;
	t.was_seen = true;
	fm_vec_push(&p->threads, t);
}

static void close_thread(struct wait_thread *t)
{
	if (t->schedstat_fd >= 0)
		close(t->schedstat_fd);
	if (t->syscall_fd >= 0)
		close(t->syscall_fd);
}

// The CPU time that no look told the place of, by the last one that came near.
static void write_displaced(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t)
{
	t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->named_tid, t->since_ns);
	struct fm_sample sample = {
		.thread_id = t->thread_id,
		.stack_id = t->before_stack_id,
		.time_ns = t->looked_ns,
		.weight_ns = t->cpu_ns - t->sampled_ns,
		.class = t->before_class,
	};
	t->sampled_ns = t->cpu_ns;
	fm_recorder_wait(w->recorder, &sample);
}

// What is still owed, for a thread that is gone or is not looked at any more.
static void settle(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, uint64_t now_ns)
{
	uint64_t unseen_ns = w->is_outside ? 0 : now_ns - t->looked_ns;
	if (unseen_ns > LONG_UNSEEN_NS && t->looked_ns > t->since_ns)
		t->owed_ns += (uint64_t)((double)unseen_ns * (double)FM_MAX(t->counted_ns, 0) /
					 (double)(t->looked_ns - t->since_ns));
	else if (t->is_asleep) // until some time since the last look
		t->owed_ns += unseen_ns / 2;
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
		write_displaced(w, p, t);
	if (t->thread_id == FM_NO_ID)
		return;
	fm_wait_write_share(w, t, t->looked_ns);
	// A program that was started under us is known from its beginning, one that we came to is
	// not.
	bool is_known = !w->options.samples_running && !w->options.came_late;
	fm_recorder_thread_end(w->recorder, p->process_idx, t->named_tid, t->cpu_ns - (is_known ? 0 : t->first_cpu_ns));
}

static void close_process(struct wait_process *p)
{
	for (size_t i = 0; i < p->threads.n; i++)
		close_thread(&p->threads.items[i]);
	fm_vec_deinit(&p->threads);
	fm_map_deinit(&p->python_frames);
	fm_remote_destroy(p->remote);
	if (p->task_fd >= 0)
		close(p->task_fd);
}

static void drop_process(struct fm_waiting *w, size_t i)
{
	struct wait_process *p = &w->processes.items[i];
	uint64_t now_ns = fm_now_ns();
	for (size_t k = 0; k < p->threads.n; k++)
		settle(w, p, &p->threads.items[k], now_ns);
	close_process(p);
	*p = w->processes.items[--w->processes.n];
}

struct scan {
	struct fm_waiting *waiting;
	struct wait_process *process;
	uint64_t now_ns;
	size_t next;
};

static void note_thread(void *ctx, uint32_t tid)
{
	struct scan *scan = ctx;
	struct wait_process *p = scan->process;
	size_t i = fm_process_find_thread(p->threads.items, p->threads.n, sizeof(*p->threads.items), tid, &scan->next);
	if (i < p->threads.n)
		p->threads.items[i].was_seen = true;
	else
		open_thread(scan->waiting, p, tid, scan->now_ns);
}

static void scan_threads(struct fm_waiting *w, struct wait_process *p, uint64_t now_ns)
{
	struct stat st;
	if (fstat(p->task_fd, &st) != 0 ||
	    (st.st_nlink == p->n_links && !p->has_lost && now_ns - p->scanned_ns < RESCAN_NS))
		return;
	p->n_links = st.st_nlink;
	p->has_lost = false;
	p->scanned_ns = now_ns;
	for (size_t i = 0; i < p->threads.n; i++)
		p->threads.items[i].was_seen = false;
	if (!fm_process_threads(p->task_fd, note_thread,
				&(struct scan){ .waiting = w, .process = p, .now_ns = now_ns }))
		return;
	size_t kept = 0;
	for (size_t i = 0; i < p->threads.n; i++) {
		struct schedule s;
		// A listing leaves out threads now and then when others come and go meanwhile.
		if (p->threads.items[i].was_seen ||
		    (p->threads.items[i].tid && read_schedule(&p->threads.items[i], &s))) {
			p->threads.items[kept++] = p->threads.items[i];
		} else {
			settle(w, p, &p->threads.items[i], now_ns);
			close_thread(&p->threads.items[i]);
		}
	}
	p->threads.n = kept;
}

static bool is_current(const struct fm_waiting *w, const struct wait_process *p)
{
	struct fm_shared_process now;
	return fm_shared_read_process(w->shared, p->process_idx, &now) && now.pid == p->pid &&
	       now.start_ns == p->start_ns;
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
		struct fm_shared_process now;
		if (!fm_shared_read_process(w->shared, idx, &now))
			continue;
		bool is_known = false;
		size_t replaced = w->processes.n; // by exec
		for (size_t i = 0; i < w->processes.n; i++) {
			is_known |= w->processes.items[i].process_idx == idx;
			if (w->processes.items[i].pid == now.pid && w->processes.items[i].process_idx != idx) {
				if (w->processes.items[i].start_ns < now.start_ns)
					replaced = i;
				else
					is_known = true;
			}
		}
		if (is_known || !fm_recorder_process(w->recorder, idx))
			continue;
		if (replaced < w->processes.n)
			drop_process(w, replaced);
		char path[32];
		snprintf(path, sizeof(path), "/proc/%u/task", now.pid);
		struct wait_process p = { .process_idx = idx, .pid = now.pid, .start_ns = now.start_ns };
		p.task_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (p.task_fd < 0)
			fm_descriptors_note(errno);
		p.is_contained = fm_process_own_pid(now.pid) != now.pid;
		p.remote = fm_remote_create(now.pid, w->files, w->shared, idx);
		if (w->options.samples_running)
			fm_wait_system_begin(&p);
		fm_vec_push(&w->processes, p);
	}
}

// ---- looking ----

static void read_frames(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t,
			const struct fm_remote_call *call, const struct fm_remote_regs *regs)
{
	struct fm_shared_process now;
	unsigned want = FM_REMOTE_PYTHON | (w->shared->header->flags & FM_WIRE_NO_NATIVE ? 0 : FM_REMOTE_NATIVE);
	if (fm_shared_read_process(w->shared, p->process_idx, &now) && now.python == FM_WIRE_PYTHON_KNOWN)
		fm_remote_set_python(p->remote, now.python_pc, now.python_version);
	fm_remote_read_stack(p->remote, t->own_tid, regs, call, want, &w->stack);
	if (w->options.locals)
		fm_remote_read_locals(p->remote, t->tid, w->options.locals);
}

// Holds a thread that runs while its stack is read. That time is ours, not its waiting.
static bool hold_and_read(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, bool is_warming,
			  struct fm_remote_call *ret_call, struct fm_remote_regs *ret_regs)
{
	bool is_refused;
	if (!fm_remote_stop(t->tid, ret_regs, ret_call, &is_refused)) {
		w->is_refused |= is_refused;
		w->is_hold_refused |= is_refused;
		return false;
	}
	uint64_t from_ns = fm_now_ns(); // before, it may have waited for a CPU to be stopped on
	if (!is_warming)
		read_frames(w, p, t, ret_call, ret_regs);
	fm_remote_go(t->tid);
	uint64_t held_ns = fm_now_ns() - from_ns;
	t->counted_ns += (int64_t)held_ns;
	w->held_ns += held_ns;
	w->hold_budget_ns -= (int64_t)held_ns;
	if (is_warming) // opening files takes milliseconds: not while a thread is held
		read_frames(w, p, t, ret_call, ret_regs);
	return true;
}

// Samples a thread that runs.
static void sample_running(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, uint64_t now_ns)
{
	struct fm_remote_call call;
	struct fm_remote_regs regs;
	if (w->hold_budget_ns < 0 &&
	    !w->options.tells_all) // on a busy machine we may lose our CPU while we hold a thread
		return;
	if (!p->is_warm && !(p->is_warm = hold_and_read(w, p, t, true, &call, &regs)))
		return;
	if (!hold_and_read(w, p, t, false, &call, &regs))
		return;
	const struct fm_remote_image *image = fm_remote_find_image(p->remote, regs.pc);
	uint64_t weight_ns = t->cpu_ns - t->sampled_ns;
	uint8_t class = image && fm_remote_is_python(p->remote, image) ? FM_CLASS_PYTHON : FM_CLASS_NATIVE;
	bool is_in_call = call.nr >= 0 && !w->options.tells_all;
	if (call.nr >= 0)
		class = FM_CLASS_SYSTEM;
	if (is_in_call && !fm_wait_is_system(p, weight_ns, now_ns)) {
		class = fm_wait_step_back(w, p);
		if (++t->n_displaced <= MAX_DISPLACED) {
			// It had got to its next sleep: where its time went, a later look tells. If
			// none comes, it was before that sleep.
			t->before_stack_id = fm_wait_write_stack(w, p, now_ns);
			t->before_class = class;
			return;
		}
	}
	t->n_displaced = 0;
	t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->named_tid, t->since_ns);
	struct fm_sample sample = {
		.thread_id = t->thread_id,
		.stack_id = fm_wait_write_stack(w, p, now_ns),
		.time_ns = now_ns,
		.weight_ns = weight_ns,
		.class = class,
	};
	t->sampled_ns = t->cpu_ns;
	t->is_told = true;
	fm_recorder_wait(w->recorder, &sample);
	fm_wait_name_sometimes(w, p, t);
}

// Reads the stack of a thread that sleeps; false when it ran meanwhile.
static bool read_stack(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t,
		       const struct schedule *before, const struct fm_remote_call *call,
		       const struct fm_remote_regs *regs, uint64_t now_ns)
{
	read_frames(w, p, t, call, regs);
	struct schedule after;
	struct fm_remote_call call_after;
	struct fm_remote_regs regs_after;
	bool is_over;
	if (!read_schedule(t, &after) || after.n_sched_in != before->n_sched_in ||
	    !read_call(w, t, &call_after, &regs_after, &is_over) || regs_after.pc != regs->pc ||
	    regs_after.r[FM_DW_RSP] != regs->r[FM_DW_RSP])
		return false;
	if (t->thread_id == FM_NO_ID)
		t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->tid, t->since_ns);
	t->stack_id = fm_wait_write_stack(w, p, now_ns);
	t->class = w->stack.waits_for_gil ? FM_CLASS_GIL_WAIT : FM_CLASS_WAIT;
	t->has_stack = t->is_told = true;
	fm_wait_name_sometimes(w, p, t);
	return true;
}

static bool may_read_stack(const struct fm_waiting *w, const struct wait_thread *t)
{
	return w->options.tells_all || w->n_threads <= FEW_THREADS ||
	       w->budget_ns > BUDGET_MOST_NS / 2 || // which is surely left over
	       w->stack_budget_ns > (t->has_stack ? STACKS_AGAIN_NS : 0);
}

static bool read_and_pay(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t,
			 const struct schedule *before, const struct fm_remote_call *call,
			 const struct fm_remote_regs *regs, uint64_t now_ns)
{
	uint64_t from_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	bool is_read = read_stack(w, p, t, before, call, regs, now_ns);
	w->stack_budget_ns -= (int64_t)(fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - from_ns);
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
	struct schedule s;
	if (now_ns < t->rest_ns || t->is_over || (t->is_told && w->options.tells_all))
		return;
	if (!read_schedule(t, &s)) {
		t->tid = 0; // gone; another may have its id already
		p->has_lost = true;
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
	if (used_ns)
		w->ran_ns = now_ns;
	if (w->is_outside) {
		leave_out(w, t, used_ns, looked_ns);
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
	bool is_over, is_asleep = read_call(w, t, &call, &regs, &is_over);
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
		t->thread_id = fm_recorder_find_thread(w->recorder, p->process_idx, t->tid);
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
		sample_running(w, p, t, now_ns);
	}
}

static void poll_threads(void *self, uint64_t now_ns)
{
	struct fm_waiting *w = self;
	uint64_t cpu_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (w->budget_at_ns) {
		int64_t earned_ns = (int64_t)((now_ns - w->budget_at_ns) * w->options.cpu_percent / 100);
		w->budget_ns = FM_MIN(w->budget_ns + earned_ns, FM_MAX((int64_t)BUDGET_MOST_NS, w->budget_ns));
		w->hold_budget_ns = FM_MIN(w->hold_budget_ns + earned_ns, (int64_t)BUDGET_MOST_NS);
		w->stack_budget_ns = FM_MIN(w->stack_budget_ns + earned_ns * STACK_PERCENT / 100,
					    FM_MAX((int64_t)BUDGET_MOST_NS, w->stack_budget_ns));
	}
	w->budget_at_ns = now_ns;
	w->is_outside = atomic_load_explicit(&w->shared->counts->is_outside, memory_order_relaxed);
	w->has_regions |= w->is_outside;
	scan_processes(w);
	w->n_threads = 0;
	for (size_t i = 0; i < w->processes.n; i++) {
		scan_threads(w, &w->processes.items[i], now_ns);
		w->n_threads += w->processes.items[i].threads.n;
	}
	if (w->n_threads > w->most_threads) {
		int64_t extra_ns = (int64_t)(w->n_threads - w->most_threads) * FIRST_STACK_NS;
		w->budget_ns += extra_ns;
		w->stack_budget_ns += extra_ns;
		w->most_threads = w->n_threads;
	}
	// Goes round from where the last look had to stop.
	size_t process = w->first_process, thread = w->first_thread, n = 0;
	for (; w->processes.n && n < w->n_threads && (w->budget_ns > 0 || w->options.tells_all); n++) {
		if (process >= w->processes.n)
			process = thread = 0;
		for (size_t tries = 0; tries <= w->processes.n && thread >= w->processes.items[process].threads.n;
		     tries++) {
			process = (process + 1) % w->processes.n;
			thread = 0;
		}
		struct wait_process *p = &w->processes.items[process];
		look_at_thread(w, p, &p->threads.items[thread], fm_now_ns());
		thread++;
		if (n % 8 == 7 || n + 1 == w->n_threads) {
			uint64_t used_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
			cpu_ns += used_ns;
			w->budget_ns -= (int64_t)used_ns;
			w->used_ns += used_ns;
		}
	}
	w->first_process = process;
	w->first_thread = thread;
	if (w->n_threads > FEW_THREADS &&
	    n == w->n_threads) // all had theirs: let others be the first whose stacks are read
		w->first_thread += now_ns % w->n_threads;
}

size_t fm_waiting_n_untold(const struct fm_waiting *w)
{
	size_t n = 0;
	for (size_t i = 0; i < w->processes.n; i++)
		for (size_t k = 0; k < w->processes.items[i].threads.n; k++) {
			const struct wait_thread *t = &w->processes.items[i].threads.items[k];
			n += t->tid && !t->is_told && !t->is_over;
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
			if (p->threads.items[k].tid == tid)
				return FM_MIN(start_ns, p->threads.items[k].since_ns);
	}
	return start_ns;
}

static void forget(void *self, uint32_t process_idx)
{
	struct fm_waiting *w = self;
	for (size_t i = 0; i < w->processes.n; i++)
		if (w->processes.items[i].process_idx == process_idx) {
			drop_process(w, i);
			return;
		}
}

static void finish(void *self)
{
	struct fm_waiting *w = self;
	while (w->processes.n)
		drop_process(w, w->processes.n - 1);
	if (w->is_refused)
		fm_writer_coverage(w->writer, FM_STR_LIT("where some threads wait"),
				   FM_STR_LIT("the system does not let Fathom read them: the program gave up its "
					      "privileges, or kernel.yama.ptrace_scope is above 1"));
	if (w->unplaced_ns >= MUCH_UNPLACED_NS) {
		char what[64];
		snprintf(what, sizeof(what), "where threads waited for %.1f s in all", (double)w->unplaced_ns * 1e-9);
		fm_writer_coverage(w->writer, fm_str_of(what),
				   FM_STR_LIT("more threads waited than Fathom polls; how long they waited is known"));
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
	ret->cpu_ns = w->used_ns;
	ret->held_ns = w->held_ns;
	ret->longest_gap_ns = w->longest_gap_ns;
	ret->has_regions = w->has_regions;
}

struct fm_waiting *fm_waiting_create(struct fm_recorder *recorder, struct fm_writer *writer, struct fm_shared *shared)
{
	struct fm_waiting *w = fm_alloc(sizeof(*w));
	w->recorder = recorder;
	w->writer = writer;
	w->shared = shared;
	w->files = fm_remote_files_create();
	w->ran_ns = fm_now_ns();
	w->budget_ns = BUDGET_START_NS;
	w->stack_budget_ns = BUDGET_START_NS / 100 * STACK_PERCENT;
	w->options.cpu_percent = BUDGET_PERCENT;
	// A kernel that counts has counted us.
	struct wait_thread self = { .schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC),
				    .task_fd = -1 };
	struct schedule s;
	w->is_uncounted = !read_schedule(&self, &s) || s.n_sched_in == 0;
	if (self.schedstat_fd >= 0)
		close(self.schedstat_fd);
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
	for (size_t i = 0; i < w->processes.n; i++) // nothing is written any more
		close_process(&w->processes.items[i]);
	fm_remote_stack_deinit(&w->stack);
	fm_vec_deinit(&w->processes);
	fm_remote_files_destroy(w->files);
	free(w);
}
