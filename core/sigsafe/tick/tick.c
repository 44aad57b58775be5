// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/tick/tick.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "format/model.h"
#include "sigsafe/python/ahead.h"
#include "sigsafe/base/budget.h"
#include "sigsafe/base/fault.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/python/merge.h"
#include "sigsafe/tick/leaf.h"
#include "sigsafe/tick/pending.h"
#include "sigsafe/python/python.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/tick/region.h"
#include "sigsafe/tick/restart.h"
#include "sigsafe/base/claim.h"
#include "sigsafe/base/ring.h"
#include "sigsafe/python/stack.h"
#include "sigsafe/unwind/unwind.h"

#include "sigsafe/base/sigsafe.h"

// A running thread takes a signal within some ten microseconds. Later than this, it is worth asking
// why.
#define LATE_NS 50000u

static FM_SIGSAFE void count_cost(struct fm_wire_slot *slot, uint64_t cycles)
{
	// Relaxed and unshared: only this thread writes its slot's counters.
	_Atomic uint32_t *bucket = &slot->cost[fm_wire_cost_bucket(cycles)];
	atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1, memory_order_relaxed);
}

static FM_SIGSAFE void bump(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static FM_SIGSAFE bool is_in_python(uint64_t pc)
{
	return fm_sig.has_python && pc >= fm_sig.python.image_start && pc < fm_sig.python.image_end;
}

// From a system call's instruction out to who made it: the vDSO, libc, and one for luck.
#define MAX_CALL_FRAMES 3

// How far the kernel's account of system time, which it keeps by its clock tick, may lag behind.
#define ACCOUNT_LAG_NS 8000000u

// A signal is delivered at the first way back to user code. A thread that makes a system call every
// few microseconds is on such a way before the interrupt that carries the signal arrives, and so is
// met at a call's end however little of its time the calls take. How much they do take, the kernel
// knows; what is met there beyond that was the program's own code, just before. Only a call that
// held the signal back for long was certainly on its way when it was sent.
static FM_SIGSAFE bool is_kernel_time(struct fm_sig_thread *t, uint64_t weight_ns, bool is_long)
{
	if (!is_long && t->system_ns + weight_ns > fm_sig_system_ns() + ACCOUNT_LAG_NS)
		return false;
	t->system_ns += weight_ns;
	return true;
}

// Takes the system call's own function off the stack: the code before it is what the sample stands
// for. Where the interpreter made the call, the functions between are off, too (the vDSO's,
// libc's): most of the time before it was the interpreter's.
static FM_SIGSAFE void step_back(struct fm_sig_thread *t)
{
	uint32_t n = 1;
	while (n < MAX_CALL_FRAMES && n < t->n_native && !is_in_python(t->native[n].pc))
		n++;
	if (n >= t->n_native || !is_in_python(t->native[n].pc))
		n = 1;
	if (t->n_native <= n)
		return;
	t->native_sp = t->native[n - 1].cfa;
	t->n_native -= n;
	for (uint32_t i = 0; i < t->n_native; i++)
		t->native[i] = t->native[i + n];
	if (t->precise_native != UINT32_MAX)
		t->precise_native = t->precise_native >= n ? t->precise_native - n : UINT32_MAX;
}

// libpython as a shared library asks the loader for its thread state, some million times a second
// (3.12: a tenth of a loop's time). That is the interpreter at work, not native code that the line
// called.
static FM_SIGSAFE bool is_interpreter_at_tls(const struct fm_sig_thread *t)
{
	uint64_t pc = t->n_native > 1 ? t->native[0].pc : 0;
	if (t->is_leaf_ours) // the interpreter in our hook
		return t->n_native && is_in_python(t->native[0].pc - 1);
	return pc >= fm_sig.tls_helper_start && pc < fm_sig.tls_helper_end && is_in_python(t->native[1].pc);
}

// How often the scheduler has given this thread a CPU: once more often than it was taken off. 0
// where that cannot be had.
static FM_SIGSAFE uint64_t count_arrivals(void)
{
	struct rusage usage;
	if (fm_system_call(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0) != 0)
		return 0;
	// NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the kernel has filled it
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw + 1;
}

// The tick that a handler answers.
struct tick {
	uint64_t sent_ns;    // its signal
	uint64_t due_ns;     // or that of a later one which came while the signal was on its way
	uint64_t n_sched_in; // how often the thread had been given a CPU, its coming back included; 0 = not known
	uint64_t cpu_ns;     // what the scheduler said that it had used
	bool was_on_cpu, was_preempted;
};

static FM_SIGSAFE struct tick read_tick(const struct fm_wire_slot *slot)
{
	struct tick tick = {
		.sent_ns = atomic_load_explicit(&slot->sent_ns, memory_order_relaxed), // 0 with perf
		.due_ns = atomic_load_explicit(&slot->due_ns, memory_order_relaxed),
		.n_sched_in = atomic_load_explicit(&slot->n_sched_in_at_due, memory_order_relaxed),
		.cpu_ns = atomic_load_explicit(&slot->cpu_ns_at_due, memory_order_relaxed),
		.was_on_cpu = atomic_load_explicit(&slot->was_on_cpu, memory_order_relaxed),
		.was_preempted = atomic_load_explicit(&slot->was_preempted, memory_order_relaxed),
	};
	tick.n_sched_in += tick.n_sched_in && tick.was_preempted;
	return tick;
}

// The CPU time that a thread had used when a tick was due, of which is known that it was on a CPU
// then, and lost it since. The scheduler's word is some milliseconds old. No more can have been
// used than time passed since the last tick; and no less if the thread never left that CPU.
static FM_SIGSAFE uint64_t guess_cpu_ns(const struct fm_sig_thread *t, const struct tick *tick, uint64_t cpu_ns)
{
	if (!t->n_sched_in || tick->due_ns < t->answered_ns)
		return tick->cpu_ns;
	uint64_t most_ns = FM_MIN(t->answered_cpu_ns + (tick->due_ns - t->answered_ns), cpu_ns);
	uint64_t least_ns = FM_MIN(FM_MAX(tick->cpu_ns, t->last_cpu_ns), most_ns);
	return t->n_sched_in == tick->n_sched_in ? most_ns : least_ns / 2 + most_ns / 2;
}

// A signal may come late for two reasons, of which the handler must know. *cpu_ns, the thread's CPU
// time now, becomes that when the tick was due.
//
// A system call lets it through at its end. The CPU time for which the sample stands ends when the
// last tick was due: otherwise a call as long as a period would count half of itself twice, at the
// cost of what comes after. The rest is the next sample's.
//
// The thread was ready to run but on no CPU, for which "running" stands too. Then it is answered
// where the scheduler took the CPU away: not at a random place but at a beat of the kernel's own,
// with which a program's beat can be in step. True: such a sample is left out, its time goes to the
// next one, and a thread gets its samples per second of CPU however crowded the machine is. When it
// was the ticker itself that took the CPU the place is as random as the ticker. Once it knows that
// the machine is crowded the ticker asks for that, and sends no other signal.
//
// A thread that yields while it spins for a lock is off the CPU again and again, for too short to
// be late each time, and always at the same place. Those of free-threaded Pythons do, between
// instructions of whatever they run; a program that yields by itself, though, uses its time there.
//
// The scheduler tells them apart: a thread on a CPU has been given one once more often than it was
// taken off.
static FM_SIGSAFE bool was_preempted(const struct fm_sig_thread *t, const struct tick *tick, uint64_t now_ns,
				     bool is_yielding, uint64_t *cpu_ns)
{
	uint64_t then_ns = tick->cpu_ns, used_ns = *cpu_ns - t->last_cpu_ns;
	if (FM_LIKELY(!tick->was_preempted || is_yielding)) {
		if (FM_LIKELY(!tick->sent_ns || (now_ns <= tick->sent_ns + LATE_NS && !is_yielding)))
			return false;
		uint64_t late_ns = now_ns - FM_MIN(tick->due_ns, now_ns);
		uint64_t n_sched_in = tick->n_sched_in ? count_arrivals() : 0;
		if (n_sched_in && n_sched_in != tick->n_sched_in) {
			// Off the CPU at some time since. A long call that was on its way all the
			// same is known by the CPU it used after.
			uint64_t since_ns = *cpu_ns - FM_MIN(then_ns, *cpu_ns);
			if (is_yielding || (since_ns < LATE_NS && since_ns + LATE_NS < late_ns))
				return true;
			if (tick->was_on_cpu)
				then_ns = guess_cpu_ns(t, tick, *cpu_ns);
		} else {
			// On this CPU all the time; where the kernel does not count, only if it
			// used as much CPU as time passed.
			if (!n_sched_in && used_ns < late_ns)
				return true;
			then_ns = *cpu_ns - FM_MIN(late_ns, used_ns);
		}
	}
	if (then_ns >= t->last_cpu_ns && then_ns < *cpu_ns)
		*cpu_ns = then_ns;
	return false;
}

// The collector had not run for long. What the thread did meanwhile nobody saw: one sample must not
// stand for all of that. A ticker that was stopped right before it sent a signal sends it before it
// can say how long that was: then the beat tells.
static FM_SIGSAFE bool was_in_gap(struct fm_sig_thread *t, uint64_t now_ns, uint64_t cpu_ns)
{
	uint32_t n_gaps = atomic_load_explicit(&fm_sig.header->n_gaps, memory_order_relaxed);
	uint64_t beat_ns = atomic_load_explicit(&fm_sig.header->beat_ns, memory_order_relaxed);
	bool is_in_one = fm_sig_is_stale(beat_ns, now_ns) && now_ns - beat_ns >= FM_WIRE_GAP_NS;
	if (FM_LIKELY(t->n_gaps == n_gaps && !is_in_one))
		return false;
	t->n_gaps = n_gaps;
	if (cpu_ns > t->last_cpu_ns)
		atomic_fetch_add_explicit(&fm_sig.counts->gap_cpu_ns, cpu_ns - t->last_cpu_ns, memory_order_relaxed);
	t->last_cpu_ns = cpu_ns;
	atomic_store_explicit(&t->slot->cpu_ns, cpu_ns - t->first_cpu_ns, memory_order_relaxed);
	return true;
}

static FM_SIGSAFE void push_sample(struct fm_sig_thread *t, uint64_t now_ns, uint64_t weight_ns, uint8_t class,
				   uint32_t leaf_idx, uint32_t precise_idx)
{
	uint32_t n = t->n_out, n_shared = fm_sig_stack_n_shared(t);
	struct fm_wire_sample *rec =
		fm_sig_ring_reserve(t, FM_WIRE_SAMPLE, sizeof(*rec) + (uint64_t)(n - n_shared) * sizeof(uint64_t));
	if (!rec) {
		bump(&t->slot->n_dropped);
		return; // prev stays what the reader knows
	}
	rec->time_ns = now_ns;
	rec->weight_ns = weight_ns;
	rec->n_frames = n;
	rec->n_shared = n_shared;
	rec->leaf_idx = leaf_idx;
	rec->precise_idx = precise_idx;
	rec->cpu = (uint16_t)fm_sig_cpu();
	rec->class = class;
	for (uint32_t i = 0; i < n - n_shared; i++)
		rec->frames[i] = t->out[i];
	fm_sig_stack_published(t, n_shared);
	fm_sig_ring_commit(t, &rec->rec);
	bump(&t->slot->n_samples);
	t->last_cpu_ns += weight_ns; // a dropped sample's time goes to the next one
}

// Without a GIL other threads run while one collects.
static FM_SIGSAFE bool is_in_collector(const struct fm_sig_thread *t)
{
	const struct fm_sig_python *py = &fm_sig.python;
	for (uint32_t i = 0; i < t->n_native; i++)
		for (unsigned part = 0; part < FM_ARRAY_LEN(py->collector); part++)
			if (t->native[i].pc - py->collector[part].start <
			    py->collector[part].end - py->collector[part].start)
				return true;
	return false;
}

FM_SIGSAFE void fm_sig_ignore(ucontext_t *uc)
{
	fm_sig_fault_check(uc);
	fm_sig_restart_syscall(fm_sig_self, uc);
}

// What a sample is made of beside its stack, which is in the thread's memory.
struct sample {
	struct tick tick;
	uint64_t now_ns, cpu_ns; // when the signal was answered: the time, and the thread's CPU time
	uint64_t due_cpu_ns;     // its CPU time when the tick was due
	uint64_t cycles;         // the counter, when the clocks were read
	uint32_t leaf_idx, precise_idx;
	uint8_t class;
	bool is_after_syscall; // the pc stands behind a system call
	bool is_system;        // and the time is the kernel's
};

// Reads the clocks. False: there is nothing to sample now; the time is the next sample's.
static FM_SIGSAFE bool begin(struct fm_sig_thread *t, const ucontext_t *uc, bool may_interrupt, struct sample *s)
{
	s->now_ns = t->now_ns = fm_now_ns();
	t->start_cpu_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	s->cycles = fm_cycles();
	// The last sample's own cost was put on its account by the cycle counter, which runs on
	// while others have the CPU.
	s->cpu_ns = s->due_cpu_ns = FM_MAX(t->start_cpu_ns, t->last_cpu_ns);
	// A perf event fires in user code only: behind a call by chance, and not because the call
	// held it back.
	s->is_after_syscall = may_interrupt && fm_sig_is_after_syscall(fm_sig_context_pc(uc));
	bool is_yielding = fm_sig.python.row.is_free_threaded && s->is_after_syscall &&
			   fm_sig_syscall_number(t, uc) == SYS_sched_yield;
	s->tick = read_tick(t->slot);
	bool is_left_out = was_preempted(t, &s->tick, s->now_ns, is_yielding, &s->due_cpu_ns);
	bool is_outside = fm_sig_region_is_outside();
	if (FM_UNLIKELY(is_outside))
		fm_sig_region_leave_out(t, s->cpu_ns);
	t->n_sched_in = s->tick.n_sched_in;
	t->answered_ns = s->now_ns;
	t->answered_cpu_ns = s->cpu_ns;
	if (FM_UNLIKELY(is_left_out || is_outside) || fm_sig_quiet_poll(t, s->now_ns) ||
	    was_in_gap(t, s->now_ns, s->cpu_ns))
		return false;
	if (FM_LIKELY(fm_sig_budget_allows(t, s->cpu_ns)))
		return true;
	bump(&t->slot->n_unafforded);
	return false;
}

// One native frame, where the thread is, and why there is no more.
static FM_SIGSAFE void take_pc(struct fm_sig_thread *t, const ucontext_t *uc, uint32_t error)
{
	t->n_native = 1;
	t->native_error = error;
	t->precise_native = UINT32_MAX;
	t->native[0].pc = fm_sig_context_pc(uc);
	t->native[0].cfa = UINT64_MAX;
	t->native_sp = 0;
	t->is_leaf_ours = false;
}

// Python frames only; a thread without any shows where it is by its pc alone.
static FM_SIGSAFE void take_python_only(struct fm_sig_thread *t, const ucontext_t *uc, struct sample *s)
{
	struct fm_sig_image_info image;
	take_pc(t, uc, 0);
	if (t->n_python)
		t->n_native = 0;
	else if (fm_sig_image_find(t->native[0].pc, &image))
		fm_sig_image_publish(t, &image);
	if (s->is_after_syscall && t->n_python)
		s->class = FM_CLASS_PYTHON; // the caller is not known: Python code is never far
}

static FM_SIGSAFE void take_native(struct fm_sig_thread *t, const ucontext_t *uc, struct sample *s)
{
	fm_sig_unwind(t, uc);
	if (s->is_after_syscall && !s->is_system) {
		step_back(t);
		bump(&t->slot->n_displaced);
	}
	if (s->class == FM_CLASS_NATIVE &&
	    (s->is_after_syscall ? t->n_native && is_in_python(t->native[0].pc) : is_interpreter_at_tls(t)))
		s->class = FM_CLASS_PYTHON;
}

// Both stacks, and what the thread was doing.
static FM_SIGSAFE void take_stack(struct fm_sig_thread *t, const ucontext_t *uc, struct sample *s)
{
	bool is_collecting;
	fm_sig_python_walk(t, uc, &is_collecting);
	fm_sig_budget_go_on(t);
	if (fm_sig.header->flags & FM_WIRE_NO_NATIVE)
		take_python_only(t, uc, s);
	else
		take_native(t, uc, s);
	if (s->is_system)
		s->class = FM_CLASS_SYSTEM;
	if (is_collecting && (!fm_sig.python.row.is_free_threaded || is_in_collector(t)))
		s->class = FM_CLASS_GC;
}

// What the sample took so far. It is charged to the code that was sampled: the next sample may
// stand for other code, whose samples cost less or more, and at 10,000 a second that would move
// some per cent of the time from the one to the other. A CPU that the ticker took leaves caches
// cold, too; asking the clock costs a system call, so otherwise the cycle counter has to do.
static FM_SIGSAFE uint64_t own_ns(const struct sample *s)
{
	uint64_t rate = fm_sig.header->cycles_per_1024ns;
	uint64_t ns = rate ? (fm_cycles() - s->cycles) * 1024 / rate : 0;
	if (FM_LIKELY(!s->tick.was_preempted && ns <= LATE_NS))
		return ns;
	uint64_t now_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return now_ns - FM_MIN(s->cpu_ns, now_ns);
}

static FM_SIGSAFE void take_sample(struct fm_sig_thread *t, ucontext_t *uc, bool has_room, struct sample *s)
{
	uint64_t weight_ns = s->due_cpu_ns - t->last_cpu_ns;
	bool is_long = s->tick.due_ns > s->tick.sent_ns + LATE_NS || s->cpu_ns - s->due_cpu_ns > LATE_NS;
	s->is_system = s->is_after_syscall && is_kernel_time(t, weight_ns, is_long);
	s->class = is_in_python(fm_sig_context_pc(uc)) ? FM_CLASS_PYTHON : FM_CLASS_NATIVE;
	if (FM_LIKELY(has_room)) {
		take_stack(t, uc, s);
	} else {
		t->n_python = t->n_runs = t->python_error = 0;
		take_pc(t, uc, FM_STACK_NO_ROOM);
		s->class = s->is_system ? FM_CLASS_SYSTEM : s->class;
	}
	int32_t syscall_nr = s->class == FM_CLASS_SYSTEM && t->n_native ? fm_sig_syscall_number(t, uc) : -1;
	fm_sig_merge(t, syscall_nr, &s->leaf_idx, &s->precise_idx);
	if (s->class == FM_CLASS_PYTHON || s->class == FM_CLASS_NATIVE)
		s->class = fm_sig_leaf_class(t, s->class);
	if (s->is_after_syscall && !s->is_system)
		s->leaf_idx = UINT32_MAX; // a return address
	if (t->native_error == FM_STACK_CUT || t->python_error == FM_STACK_CUT)
		bump(&t->slot->n_cut);
	else if (t->native_error || t->python_error)
		bump(&t->slot->n_failed);
	s->due_cpu_ns += own_ns(s);
	push_sample(t, s->now_ns, s->due_cpu_ns - t->last_cpu_ns, s->class, s->leaf_idx, s->precise_idx);
	atomic_store_explicit(&t->slot->cpu_ns, s->due_cpu_ns - t->first_cpu_ns, memory_order_relaxed);
}

FM_SIGSAFE void fm_sig_tick(ucontext_t *uc, bool may_interrupt)
{
	uint64_t start = fm_cycles();
	size_t room = fm_sig_room(uc);
	struct fm_sig_thread *t = fm_sig_self;
	if (FM_UNLIKELY(room < FM_SIG_ANSWER_BYTES)) {
		if (t && t->slot) {
			bump(&t->slot->n_no_stack);
			bump(&t->slot->n_ticks);
		}
		return;
	}
	int saved_errno = errno;
	t = NULL;
	fm_sig_fault_check(uc);
	atomic_fetch_add_explicit(&fm_sig.n_inside, 1, memory_order_seq_cst); // before header is read: late.c
	if (fm_sig.header && fm_sig_quiet_may_sample())
		t = fm_sig_thread_get();
	if (!t || t->is_busy) {
		if (may_interrupt)
			fm_sig_restart_syscall(NULL, uc); // a busy thread's memory is in use
		if (t) // in an allocator hook that takes a sample itself: the time goes to the next tick
			bump(&t->slot->n_ticks);
	} else {
		struct sample s;
		t->is_busy = true;
		fm_sig_budget_begin(t, start);
		fm_sig_ahead(t, uc);
		fm_sig_stack_refresh(t);
		if (begin(t, uc, may_interrupt, &s)) {
			take_sample(t, uc, room >= FM_SIG_WALK_BYTES, &s);
			count_cost(t->slot, fm_cycles() - start);
			fm_sig_budget_end(t);
		}
		if (may_interrupt && fm_sig_restart_syscall(t, uc))
			bump(&t->slot->n_restarted);
		fm_sig_leave_to_main(t, uc);
		t->is_busy = false;
		// Last: the ticker may send the next signal now.
		atomic_store_explicit(&t->slot->n_ticks,
				      atomic_load_explicit(&t->slot->n_ticks, memory_order_relaxed) + 1,
				      memory_order_release);
	}
	atomic_fetch_sub_explicit(&fm_sig.n_inside, 1, memory_order_release);
	errno = saved_errno;
}
