// SPDX-License-Identifier: Apache-2.0
// One signal to one thread: whether it may be sent, and what the handler is told of the moment at
// which its tick came due.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/observe/ticker_parts.h"

// A signal not answered for so long: the thread blocks it, or lost it over an exec.
#define UNANSWERED_NS 100000000u
// How often a thread that blocks the signal is looked at again. A handler of ours, and the agent's start, block all
// signals for microseconds, so one look is no proof.
#define BLOCKED_SHORTEST_NS 10000000u
#define BLOCKED_LONGEST_NS 1000000000u
// The CPU time that it used meanwhile from which on it is told of: some samples' worth.
#define BLOCKED_CPU_NS 2000000u
// A thread that waited for a CPU for longer than the ticker itself takes one.
#define NO_WAIT_NS 200000u
// Between two clocks that are read one after the other.
#define CLOCK_SLACK_NS 5000u

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
	uint64_t n_came = t->schedule.n_sched_in - before->n_sched_in;
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
	bool has_waited = t->schedule.ready_ns > before.ready_ns + NO_WAIT_NS;
	if (t->schedule.n_sched_in && (has_waited || k->is_late || now_ns - t->crowded_ns < CROWDED_NS))
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
			      t->schedule.n_sched_in ? t->schedule.n_sched_in + (uint64_t)t->proc.n_missed : 0,
			      memory_order_relaxed);
	atomic_store_explicit(&slot->was_on_cpu, cpu == FM_PROC_CPU_HAS, memory_order_relaxed);
	atomic_store_explicit(&slot->was_preempted, t->is_off_cpu, memory_order_relaxed);
	// Asked for anew: looking at other threads took its time, and the handler judges by it.
	atomic_store_explicit(&slot->due_ns, fm_now_ns(), memory_order_relaxed);
	return true;
}

// A thread that blocks our signal: true when that is no mere moment. libc starts each thread with all signals blocked,
// and a thread that gets no CPU there for tenths of a second is where it was.
static bool blocks_for_long(struct tick_thread *t, uint64_t now_ns)
{
	struct fm_proc_schedule schedule;
	fm_proc_thread_schedule(&t->proc, &schedule);
	if (!t->is_blocking) {
		t->blocked_since_ns = now_ns;
		t->blocked_cpu_ns = schedule.cpu_ns;
	}
	if (schedule.n_sched_in == 0) // it had none yet, or the kernel does not count
		return now_ns - t->blocked_since_ns >= BLOCKED_LONGEST_NS;
	return now_ns > t->blocked_since_ns && schedule.cpu_ns - t->blocked_cpu_ns >= BLOCKED_CPU_NS;
}

// True when the thread lets our signal through, as far as is known.
static bool is_open(struct fm_ticker *k, struct tick_thread *t, int signal, uint64_t now_ns)
{
	if (t->is_checked && !t->is_blocking)
		return true;
	if (t->is_blocking && now_ns < t->recheck_ns)
		return false;
	t->is_checked = true;
	if (!fm_proc_thread_blocks(&t->proc, signal)) {
		t->is_blocking = false;
		return true;
	}
	bool is_long = blocks_for_long(t, now_ns);
	t->is_blocking = true;
	// What it does until the next look goes unseen: never more than it has been blocking already.
	uint64_t next_ns = is_long ? now_ns - t->blocked_since_ns : 0;
	t->recheck_ns = now_ns + FM_MIN(FM_MAX(next_ns, BLOCKED_SHORTEST_NS), BLOCKED_LONGEST_NS);
	if (is_long && !t->was_counted) {
		t->was_counted = true;
		k->stats.n_blocked_threads++;
	}
	return false;
}

void fm_ticker_signal(struct fm_ticker *k, struct tick_process *p, struct tick_thread *t, uint64_t now_ns)
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
	// A program that has just set a handler of its own for this signal may send it to itself now, and the kernel
	// keeps one of a kind: ours would take its place.
	if (fm_shared_tick_signal(k->shared, p->process_idx) != p->signal)
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
