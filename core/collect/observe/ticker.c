// SPDX-License-Identifier: Apache-2.0
#include "collect/observe/ticker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "collect/shared/cost.h"
#include "collect/process/descriptors.h"
#include "collect/process/thread.h"
#include "collect/process/memory.h"
#include "collect/process/sched_priority.h"
#include "base/random.h"

// New threads show in the link count of /proc/PID/task; a full scan now and then finds those that
// replaced others. The more threads, the more it costs, and the rarer it is.
#define RESCAN_NS 20000000u
#define RESCAN_PER_THREAD_NS 500000u
// A signal not answered for so long: the thread blocks it, or lost it over an exec.
#define UNANSWERED_NS 100000000u
// How often a thread that blocks the signal is looked at again.
#define BLOCKED_RECHECK_NS 1000000000u
// A handler of ours, and the agent's start, block all signals for microseconds: one look is no
// proof.
#define BLOCKED_SECOND_LOOK_NS 10000000u
// A thread that was last seen running so long ago rests. Not sooner: threads that hand each other
// the GIL wait for 5 ms in turn, on a busy machine for much longer. Where the machine has no more
// threads to run than those of ours that were just seen running, and us, the resting ones do rest,
// and none of them is looked at; but for once in so many ticks.
#define RESTING_NS 200000000u
#define LOOK_ALL_TICKS 64u
// Otherwise looking at them may take this share of the ticker's period; with many of them each is
// looked at less often. The same holds for those that do not rest but wait at the moment.
#define IDLE_LOOK_SHARE 0.02
#define IDLE_LOOK_NS 800.0
#define MAX_IDLE_SKIP 64u
// While nothing runs for longer than RESTING_NS the schedule is drawn out, in proportion to how
// long that is: a server that waits for its next request costs a wake-up in some milliseconds
// instead of one in each. What is used before the next look is on the account of the sample that
// follows it.
#define IDLE_SHARE 64u
#define IDLE_MOST_NS 20000000u
// Then the list of threads is read anew so often only: one that took the place of another shows by
// that one's end.
#define IDLE_RESCAN_NS 1000000000u
// How often to look whether a process has closed its perf event, or went quiet.
#define PERF_LOOK_NS 20000000u
// But a thread that ran a while ago is looked at again after this share of that while, at the
// latest.
#define RECENT_SHARE 8
// How often the rate is compared with its budget. Not before the first window has passed: the first
// samples of a program tell of every code object and image they meet, which later ones do not.
#define BUDGET_NS 500000000u
#define BUDGET_SAMPLES 20 // fewer say nothing
// What ticks cost the caches makes them rarer down to this, where it moves no figure by more than
// some per cent.
#define COLD_PERIOD_NS 1000000u

// How nice the ticker is when it may choose: it runs for microseconds at a time.
#define TICKER_NICE (-10)

// For so long after a thread had to wait for a CPU, for more than the ticker itself takes one, it
// is asked before each tick whether it has one.
#define CROWDED_NS 100000000u
#define NO_WAIT_NS 200000u
// When the ticker itself is so late, too. Idle CPUs of virtual machines take some ten microseconds
// to wake up.
#define LATE_NS 100000u
// Ticks that came due while the ticker had no CPU: the last ones are remembered. A system call that
// kept it off for longer shows by these.
#define MAX_DUE 16u
// Between two clocks that are read one after the other.
#define CLOCK_SLACK_NS 5000u

struct tick_thread {
	struct fm_proc_thread proc;       // first: fm_process_find_thread()
	bool is_blocking;                 // blocked our signal at the last look
	bool was_counted;                 // as blocking it for good
	bool is_checked;                  // its mask was looked at
	bool was_seen;                    // by the last scan
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
	int task_fd;   // of /proc/PID/task
	int signal;    // of its ticks
	bool was_perf; // its event is gone, and no signal has been sent yet
	uint64_t n_links, scanned_ns;
	FM_VEC(struct tick_thread) threads;
};

struct fm_ticker {
	struct fm_registry *registry;
	struct fm_shared *shared; // the registry's
	struct fm_ticker_options options;
	pthread_t thread;
	_Atomic int is_stopping;
	uint64_t random;
	uint32_t n_claimed_seen;
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

static void close_process(struct tick_process *p)
{
	for (size_t i = 0; i < p->threads.n; i++)
		fm_proc_thread_close(&p->threads.items[i].proc);
	fm_vec_deinit(&p->threads);
	if (p->task_fd >= 0)
		close(p->task_fd);
}

struct scan {
	struct tick_process *process;
	uint64_t now_ns;
	size_t next;
};

static void note_thread(void *ctx, uint32_t tid)
{
	struct scan *scan = ctx;
	struct tick_process *p = scan->process;
	size_t i = fm_process_find_thread(p->threads.items, p->threads.n, sizeof(*p->threads.items), tid, &scan->next);
	if (i < p->threads.n) {
		p->threads.items[i].was_seen = true;
		return;
	}
	struct tick_thread t = { .slot = -1, .ran_ns = scan->now_ns, .was_seen = true };
	fm_proc_thread_open(&t.proc, p->pid, tid);
	fm_vec_push(&p->threads, t);
}

static void scan_threads(struct tick_process *p, uint64_t now_ns)
{
	p->scanned_ns = now_ns;
	for (size_t i = 0; i < p->threads.n; i++)
		p->threads.items[i].was_seen = false;
	if (!fm_process_threads(p->task_fd, note_thread, &(struct scan){ .process = p, .now_ns = now_ns }))
		return;
	size_t kept = 0;
	for (size_t i = 0; i < p->threads.n; i++)
		if (p->threads.items[i].was_seen)
			p->threads.items[kept++] = p->threads.items[i];
		else
			fm_proc_thread_close(&p->threads.items[i].proc);
	p->threads.n = kept;
}

// Takes up processes that joined and drops those whose entry was freed or taken by another.
static void scan_processes(struct fm_ticker *k)
{
	k->n_claimed_seen = atomic_load(&k->shared->counts->n_processes_claimed);
	for (size_t i = 0; i < k->processes.n;) {
		struct tick_process *p = &k->processes.items[i];
		struct fm_registered now;
		if (fm_registry_read(k->registry, p->process_idx, &now) && now.pid == p->pid) {
			i++;
		} else {
			close_process(p);
			k->processes.items[i] = k->processes.items[--k->processes.n];
		}
	}
	for (uint32_t idx = 0; idx < FM_WIRE_N_PROCESSES; idx++) {
		struct fm_registered now;
		if (!fm_registry_read(k->registry, idx, &now) || !now.pid || now.said.engine != FM_ENGINE_TICKER)
			continue;
		bool is_known = false;
		for (size_t i = 0; i < k->processes.n && !is_known; i++)
			is_known = k->processes.items[i].process_idx == idx;
		if (is_known)
			continue;
		char path[32];
		snprintf(path, sizeof(path), "/proc/%u/task", now.pid);
		struct tick_process p = { .process_idx = idx,
					  .pid = now.pid,
					  .was_perf = now.said.perf_fd >= 0,
					  .task_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) };
		if (p.task_fd < 0)
			fm_descriptors_note(errno);
		fm_vec_push(&k->processes, p);
	}
}

// True when a thread that rested at the last look has not been given a CPU since. Half the price of
// asking whether it runs.
static bool still_rests(struct tick_thread *t)
{
	struct fm_proc_schedule before = t->schedule;
	fm_proc_thread_schedule(&t->proc, &t->schedule);
	return before.n_given && before.n_given == t->schedule.n_given && before.cpu_ns == t->schedule.cpu_ns;
}

static int find_slot(struct fm_shared *shared, uint32_t process_idx, uint32_t tid)
{
	for (uint32_t i = 0; i < shared->n_slots; i++) {
		struct fm_shared_owner owner;
		if (fm_shared_read_owner(shared, i, &owner) && owner.tid == tid && owner.process_idx == process_idx)
			return (int)i;
	}
	return -1;
}

// True when a signal on its way has been answered, or none is.
static bool is_answered(struct fm_ticker *k, const struct tick_process *p, struct tick_thread *t, uint64_t now_ns)
{
	if (!t->sent_ns)
		return true;
	if (t->slot < 0)
		t->slot = find_slot(k->shared, p->process_idx, t->proc.tid);
	if (t->slot >= 0 && atomic_load_explicit(&fm_shared_slot(k->shared, (uint32_t)t->slot)->n_ticks,
						 memory_order_acquire) != t->n_ticks_at_send) {
		t->sent_ns = 0;
		return true;
	}
	if (now_ns - t->sent_ns < UNANSWERED_NS)
		return false;
	t->sent_ns = 0;
	t->is_checked = false; // look at its mask again before the next one
	return true;
}

// True when a tick came due while the thread was on the CPU that it lost at lost_ns; *ret_due_ns is
// the last one of these. Mostly it is the ticker who took it. But others may have got it first; and
// a system call that cannot be interrupted keeps it to its end.
static bool find_due(const struct fm_ticker *k, const struct tick_thread *t, const struct fm_proc_schedule *before,
		     uint64_t lost_ns, uint64_t *ret_due_ns)
{
	uint32_t i = k->n_due, end = k->n_due - FM_MIN(k->n_due, MAX_DUE);
	while (i > end && k->due_ns[(i - 1) % MAX_DUE] > lost_ns + CLOCK_SLACK_NS)
		i--;
	if (i == end || lost_ns > fm_now_ns() + CLOCK_SLACK_NS) // the latter by another CPU's clock
		return false;
	*ret_due_ns = k->due_ns[(i - 1) % MAX_DUE];
	if (lost_ns <= *ret_due_ns + LATE_NS)
		return true;
	// It may have come after the tick. How long it was there follows from its CPU time, if it
	// came once since that was last known.
	uint64_t n_came = t->schedule.n_given - before->n_given;
	return n_came == 0 || (n_came == 1 && t->is_off_cpu &&
			       t->schedule.cpu_ns - before->cpu_ns + CLOCK_SLACK_NS >= lost_ns - *ret_due_ns);
}

// Notes for the handler that a tick came due while the thread ran, and how it stood with the
// scheduler. False when others had the CPU: such a thread does nothing that a sample could show,
// and the signal would hold up the ticks that are due once it runs.
static bool note_due(struct fm_ticker *k, struct tick_thread *t, struct fm_wire_slot *slot, uint64_t now_ns)
{
	struct fm_proc_schedule before = t->schedule;
	fm_proc_thread_schedule(&t->proc, &t->schedule);
	enum fm_proc_cpu cpu = FM_PROC_CPU_UNKNOWN;
	uint64_t lost_ns = 0, due_ns = 0;
	bool has_waited = t->schedule.waited_ns > before.waited_ns + NO_WAIT_NS;
	if (t->schedule.n_given && (has_waited || k->is_late || now_ns - t->crowded_ns < CROWDED_NS))
		cpu = fm_proc_thread_cpu(&t->proc, &k->self, &t->schedule, &lost_ns);
	if (has_waited || cpu == FM_PROC_CPU_HAS_NOT)
		k->crowded_ns = t->crowded_ns = now_ns;
	bool is_due = cpu != FM_PROC_CPU_HAS_NOT || find_due(k, t, &before, lost_ns, &due_ns);
	t->is_off_cpu = cpu == FM_PROC_CPU_HAS_NOT;
	if (!is_due)
		return false;
	uint64_t cpu_ns = t->schedule.cpu_ns;
	if (t->is_off_cpu && lost_ns > due_ns) // it went on until then
		cpu_ns -= FM_MIN(lost_ns - due_ns, cpu_ns);
	atomic_store_explicit(&slot->cpu_ns_at_due, cpu_ns, memory_order_relaxed);
	atomic_store_explicit(&slot->n_sched_in_at_due,
			      t->schedule.n_given ? t->schedule.n_given + (uint64_t)t->proc.n_missed : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&slot->was_on_cpu, cpu == FM_PROC_CPU_HAS, memory_order_relaxed);
	atomic_store_explicit(&slot->was_preempted, t->is_off_cpu, memory_order_relaxed);
	// Asked for anew: looking at other threads took its time, and the handler judges by it.
	atomic_store_explicit(&slot->due_ns, fm_now_ns(), memory_order_relaxed);
	return true;
}

// True when the thread lets our signal through, as far as is known.
static bool is_open(struct fm_ticker *k, struct tick_thread *t, int signal, uint64_t now_ns)
{
	if (t->is_checked && !t->is_blocking)
		return true;
	if (t->is_blocking && now_ns < t->recheck_ns)
		return false;
	bool was_blocking = t->is_blocking;
	t->is_checked = true;
	t->is_blocking = fm_proc_thread_blocks(&t->proc, signal);
	if (!t->is_blocking)
		return true;
	t->recheck_ns = now_ns + (was_blocking ? BLOCKED_RECHECK_NS : BLOCKED_SECOND_LOOK_NS);
	if (was_blocking && !t->was_counted) {
		t->was_counted = true;
		k->stats.n_blocked_threads++;
	}
	return false;
}

// The agent says by what its ticks are to come; threads may block the one and not the other.
static void set_signal(struct tick_process *p, int signal)
{
	if (p->signal == signal)
		return;
	p->signal = signal;
	for (size_t i = 0; i < p->threads.n; i++)
		p->threads.items[i].is_checked = p->threads.items[i].is_blocking = false;
}

static void signal_thread(struct fm_ticker *k, struct tick_process *p, struct tick_thread *t, uint64_t now_ns)
{
	bool may_send = is_answered(k, p, t, now_ns);
	if (may_send && !is_open(k, t, p->signal, now_ns))
		return;
	struct fm_wire_slot *slot = t->slot >= 0 ? fm_shared_slot(k->shared, (uint32_t)t->slot) : NULL;
	uint64_t n_ticks = slot ? atomic_load(&slot->n_ticks) : 0;
	// Also while a signal is on its way: a call that holds it back is shown for all the ticks
	// that were due meanwhile.
	if ((slot && !note_due(k, t, slot, now_ns)) || !may_send)
		return;
	if (slot)
		atomic_store_explicit(&slot->sent_ns, atomic_load(&slot->due_ns), memory_order_relaxed);
	t->n_ticks_at_send = n_ticks;
	if (syscall(SYS_tgkill, p->pid, t->proc.tid, p->signal) == 0) {
		t->sent_ns = now_ns;
		k->stats.n_signals++;
		k->stats.n_crowded += t->is_off_cpu;
		k->stats.n_perf_lost += p->was_perf;
		p->was_perf = false;
	}
}

static bool is_resting(const struct tick_thread *t, uint64_t now_ns)
{
	return now_ns - t->ran_ns > RESTING_NS;
}

// Ticks between two looks at a thread, when there are so many that wait.
static uint32_t affordable_skip(const struct fm_ticker *k, uint32_t n_waiting)
{
	double skip = n_waiting * IDLE_LOOK_NS * k->options.rate_hz / (1e9 * IDLE_LOOK_SHARE);
	return (uint32_t)FM_MIN(skip, (double)MAX_IDLE_SKIP);
}

// True when the thread runs.
static bool tick_thread(struct fm_ticker *k, struct tick_process *p, struct tick_thread *t, uint64_t now_ns)
{
	if (t->skip) {
		t->skip--;
		return false;
	}
	bool rests = is_resting(t, now_ns);
	if ((rests && still_rests(t)) || !fm_proc_thread_is_running(&t->proc)) {
		uint64_t idle_ticks = (now_ns - t->ran_ns) * k->options.rate_hz / (1000000000u * RECENT_SHARE);
		uint32_t skip = rests ? k->resting_skip : k->recent_skip;
		// Around what it should be: threads that came together are not looked at together
		// for ever.
		t->skip = (uint32_t)FM_MIN(idle_ticks, skip / 2 + fm_random_next(&k->random) % (skip + 1));
		if (t->proc.is_gone)
			p->n_links = 0; // scan: one that took its place leaves their number as it was
		return false;
	}
	t->ran_ns = now_ns;
	atomic_store_explicit(&k->ran_ns, now_ns, memory_order_relaxed);
	signal_thread(k, p, t, now_ns);
	return true;
}

// is_whole: every one of them, also those whose turn it is not.
static void tick_resting(struct fm_ticker *k, uint64_t now_ns, bool is_whole)
{
	for (size_t i = 0; i < k->processes.n; i++) {
		struct tick_process *p = &k->processes.items[i];
		for (size_t j = 0; j < p->threads.n; j++)
			if (is_resting(&p->threads.items[j], now_ns)) {
				if (is_whole)
					p->threads.items[j].skip = 0;
				tick_thread(k, p, &p->threads.items[j], now_ns);
			}
	}
}

// Threads of the whole machine that run or could: the fourth word of /proc/loadavg, "RUNNING/ALL".
// We are one of them.
static uint32_t count_running(int fd)
{
	char text[64];
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : 0;
	text[n > 0 ? n : 0] = 0;
	const char *at = text;
	for (int i = 0; i < 3 && at; i++)
		at = strchr(at + (i > 0), ' ');
	return at ? (uint32_t)strtoul(at, NULL, 10) : 0;
}

// Some containers put a file of their own in its place, which is seconds old.
static int open_loadavg(void)
{
	struct statfs fs;
	int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && (fstatfs(fd, &fs) != 0 || fs.f_type != PROC_SUPER_MAGIC || count_running(fd) == 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool may_others_run(const struct fm_ticker *k, uint32_t n_running)
{
	return k->loadavg_fd < 0 || k->stats.n_ticks % LOOK_ALL_TICKS == 0 ||
	       count_running(k->loadavg_fd) > n_running + 1;
}

// Programs that close every descriptor take their perf event with them. The ticker goes on where it
// ended.
static void look_for_lost_perf(struct fm_ticker *k)
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
		scan_processes(k);
}

// A process that took us for stopped, and we were, waits for a tick. Any of its threads will do.
static void wake_quiet(const struct fm_ticker *k)
{
	if (!atomic_load_explicit(&k->shared->counts->n_quiet, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		struct fm_registered now;
		if (fm_registry_read(k->registry, i, &now) && now.pid && now.said.is_quiet)
			kill((pid_t)now.pid, FM_TICK_SIGNAL);
	}
}

uint64_t fm_ticker_idle_ns(const struct fm_ticker *k, uint64_t now_ns)
{
	uint64_t ran_ns = atomic_load_explicit(&k->ran_ns, memory_order_relaxed);
	return now_ns > ran_ns + RESTING_NS ? now_ns - ran_ns : 0;
}

static void tick(struct fm_ticker *k, uint64_t now_ns)
{
	if (k->n_claimed_seen != atomic_load(&k->shared->counts->n_processes_claimed))
		scan_processes(k);
	if (now_ns - k->perf_looked_ns > PERF_LOOK_NS) {
		k->perf_looked_ns = now_ns;
		if (k->shared->header->engine == FM_ENGINE_PERF)
			look_for_lost_perf(k);
		wake_quiet(k);
	}
	bool is_idle = fm_ticker_idle_ns(k, now_ns) > 0;
	uint32_t n_running = 0, n_resting = 0, n_recent = 0;
	for (size_t i = 0; i < k->processes.n; i++) {
		struct tick_process *p = &k->processes.items[i];
		struct fm_registered now;
		struct stat st;
		if (!fm_registry_read(k->registry, p->process_idx, &now) || now.pid != p->pid ||
		    fstat(p->task_fd, &st) != 0) {
			close_process(p);
			*p = k->processes.items[--k->processes.n];
			i--;
			continue;
		}
		set_signal(p, now.said.tick_signal);
		if (st.st_nlink != p->n_links ||
		    now_ns - p->scanned_ns >
			    (is_idle ? IDLE_RESCAN_NS : RESCAN_NS + p->threads.n * RESCAN_PER_THREAD_NS)) {
			p->n_links = st.st_nlink;
			scan_threads(p, now_ns);
		}
		for (size_t j = 0; j < p->threads.n; j++)
			if (is_resting(&p->threads.items[j], now_ns))
				n_resting++;
			else if (tick_thread(k, p, &p->threads.items[j], now_ns))
				n_running++;
			else
				n_recent++;
	}
	k->resting_skip = affordable_skip(k, n_resting);
	k->recent_skip = affordable_skip(k, n_recent);
	if (n_resting > 1 && !may_others_run(k, n_running)) { // one look is no dearer than asking
		k->n_quiet++;
		return;
	}
	// After a quiet time somebody may have woken up: that time pays for a look at all of them.
	tick_resting(k, now_ns, is_idle || k->n_quiet > k->resting_skip);
	k->n_quiet = 0;
}

// The period at which handlers stay within their budget, from what they cost since the last time; 0
// = keep what is.
static uint64_t affordable_period_ns(struct fm_ticker *k, double cycles_per_ns)
{
	uint64_t n_signals = k->stats.n_signals - k->n_signals_seen, n_crowded = k->stats.n_crowded - k->n_crowded_seen;
	double crowded = n_signals ? (double)n_crowded / (double)n_signals : 0;
	k->n_signals_seen = k->stats.n_signals;
	k->n_crowded_seen = k->stats.n_crowded;
	struct fm_cost window = { 0 };
	for (uint32_t i = 0; i < k->shared->n_slots; i++)
		if (atomic_load_explicit(&k->shared->owners[i].state, memory_order_acquire) == FM_WIRE_LIVE)
			fm_cost_add_new(&window, &k->cost_seen, i, fm_shared_slot(k->shared, i));
	bool is_first = !k->cost_seen.is_later;
	k->cost_seen.is_later |= fm_cost_samples(&window) > 0;
	if (is_first || fm_cost_samples(&window) < BUDGET_SAMPLES)
		return 0;
	// The median: a process that just starts has dear samples for a while, and lowering the
	// rate would not outlast them.
	double cost_ns = (double)fm_cost_median_cycles(&window) / cycles_per_ns + FM_TICKER_DELIVERY_NS;
	double handlers_ns = cost_ns / k->options.max_overhead;
	double all_ns = (cost_ns + crowded * FM_TICKER_COLD_NS) / k->options.max_overhead;
	return (uint64_t)FM_MAX(handlers_ns, FM_MIN(all_ns, (double)COLD_PERIOD_NS));
}

// Uniform in half a period to one and a half: no beat of the program can stay in step with that.
//
// On a crowded machine the ticks themselves set a beat, as each takes a CPU from somebody who then
// waits for the next turn: how long ago the last tick was tells who runs. Only when that says
// nothing of the next one does every moment have the same chance, so they come as radioactive decay
// does.
static uint64_t jittered(struct fm_ticker *k, uint64_t period, uint64_t now_ns)
{
	uint64_t random = fm_random_next(&k->random);
	if (now_ns - k->crowded_ns < CROWDED_NS)
		return (uint64_t)(-log((double)((random >> 11) + 1) * 0x1p-53) * (double)period);
	return period / 2 + random % (period + 1);
}

static void *run(void *arg)
{
	struct fm_ticker *k = arg;
	prctl(PR_SET_NAME, "fathom-ticker");
	fm_proc_thread_open(&k->self, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid));
	fm_raise_sched_priority(TICKER_NICE);
	prctl(PR_SET_TIMERSLACK, 1ul); // the default of 50 us is half a period at 10 kHz
	uint64_t wanted = 1000000000u / k->options.rate_hz, period = wanted;
	uint64_t first_ns = fm_now_ns(), first_cycles = fm_cycles();
	uint64_t next_ns = first_ns + jittered(k, period, first_ns), budget_ns = first_ns + BUDGET_NS;
	uint64_t beat_ns = first_ns, drawn_out = 0;
	k->stats.lowest_rate_hz = k->options.rate_hz;
	while (!atomic_load_explicit(&k->is_stopping, memory_order_relaxed)) {
		fm_sleep_until_ns(FM_MIN(next_ns, beat_ns + FM_MAX(FM_WIRE_BEAT_NS, drawn_out)));
		uint64_t now_ns = beat_ns = fm_now_ns();
		fm_shared_beat(k->shared, now_ns);
		if (atomic_load_explicit(&k->shared->counts->is_over, memory_order_relaxed))
			next_ns = now_ns + FM_WIRE_BEAT_NS; // nobody wants a tick any more
		if (now_ns < next_ns)
			continue;
		k->is_late = now_ns > next_ns + LATE_NS;
		k->stats.n_late += now_ns > next_ns + 2 * period;
		next_ns =
			FM_MAX(next_ns, now_ns - FM_MIN(now_ns, MAX_DUE * period)); // after a long sleep of the machine
		// When a tick is due does not depend on when the ticker got a CPU, which does on
		// what the program does.
		drawn_out = FM_MIN(fm_ticker_idle_ns(k, now_ns) / IDLE_SHARE, (uint64_t)IDLE_MOST_NS);
		for (k->n_due = 0; next_ns <= now_ns; next_ns += jittered(k, FM_MAX(period, drawn_out), now_ns))
			k->due_ns[k->n_due++ % MAX_DUE] = next_ns;
		k->stats.n_ticks++;
		tick(k, now_ns);
		if (k->options.max_overhead > 0 && now_ns >= budget_ns && k->processes.n) { // perf keeps its own rate
			budget_ns = now_ns + BUDGET_NS;
			double cycles_per_ns = (double)(fm_cycles() - first_cycles) / (double)(now_ns - first_ns);
			uint64_t affordable = affordable_period_ns(k, cycles_per_ns);
			if (affordable) // half way each time: one odd window does not swing the rate
				period = FM_MAX(wanted, (period + affordable) / 2);
			k->stats.lowest_rate_hz = FM_MIN(k->stats.lowest_rate_hz, (uint32_t)(1000000000u / period));
		}
	}
	fm_proc_thread_close(&k->self);
	k->stats.cpu_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

enum fm_err fm_ticker_start(struct fm_registry *registry, const struct fm_ticker_options *options, struct fm_ticker **ret,
			    struct fm_diag *diag)
{
	struct fm_ticker *k = fm_alloc(sizeof(*k));
	k->registry = registry;
	k->shared = fm_registry_shared(registry);
	k->options = *options;
	k->random = fm_now_ns() | 1;
	atomic_store(&k->ran_ns, fm_now_ns());
	k->loadavg_fd = open_loadavg();
	sigset_t all, old; // signals to the collector are its main thread's business
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(&k->thread, NULL, run, k);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		if (k->loadavg_fd >= 0)
			close(k->loadavg_fd);
		free(k);
		return fm_diag_set(diag, FM_E_REFUSED, "cannot start a thread: %s", strerror(err));
	}
	*ret = k;
	return FM_OK;
}

void fm_ticker_stop(struct fm_ticker *k, struct fm_ticker_stats *ret)
{
	atomic_store(&k->is_stopping, 1);
	pthread_join(k->thread, NULL);
	*ret = k->stats;
	for (size_t i = 0; i < k->processes.n; i++)
		close_process(&k->processes.items[i]);
	fm_vec_deinit(&k->processes);
	if (k->loadavg_fd >= 0)
		close(k->loadavg_fd);
	free(k);
}
