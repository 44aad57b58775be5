// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/tick/handlers.h"

#include <linux/perf_event.h>

#include "sigsafe/base/fault.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/thread_block.h"
#include "sigsafe/tick/restart.h"
#include "sigsafe/tick/tick.h"
#include "base/random.h"

#include "sigsafe/base/sigsafe.h"

#ifndef TRAP_PERF
#define TRAP_PERF 6
#endif

// Below this period a sample sets no other one: on a virtual machine that costs 10 to 20 us, a
// fifth of a period at 10 kHz, and the odd period does against a beat what it can.
#define PERF_JITTER_FROM_NS 500000u

#define OUR_SIGNALS (1ull << (FM_TICK_SIGNAL - 1) | 1ull << (FM_OTHER_TICK_SIGNAL - 1) | 1ull << (SIGTRAP - 1))

struct fm_sig_held fm_sig_held[NSIG];
_Atomic(void *) fm_sig_theirs[NSIG];
_Atomic bool fm_sig_theirs_wait[NSIG];
struct fm_sig_perf fm_sig_perf;

// Of the kernel's structure, which libc's older headers do not know.
static FM_SIGSAFE uint64_t perf_data(const siginfo_t *info)
{
	const uint64_t *behind_address = (const uint64_t *)(const void *)(&info->si_addr + 1);
	return *behind_address;
}

FM_SIGSAFE bool fm_sig_is_ours(const siginfo_t *info)
{
	if (info->si_signo == SIGTRAP)
		return info->si_code == TRAP_PERF && perf_data(info) == FM_SIG_PERF_MARK;
	// libc's sigtimedwait shows SI_USER for SI_TKILL. The collector passes signals on to its
	// child, but never this one. A sender outside of our pid namespace has no number here.
	uint32_t sender = fm_sig.outside_pid == fm_sig.pid ? fm_sig.collector_pid : 0;
	return fm_sig_is_tick_signal(info->si_signo) && (info->si_code == SI_TKILL || info->si_code == SI_USER) &&
	       fm_sig.collector_pid != 0 && (uint32_t)info->si_pid == sender;
}

FM_SIGSAFE void fm_sig_held_set(struct fm_sig_held *h, const struct sigaction *act)
{
	unsigned next = !atomic_load_explicit(&h->current, memory_order_acquire);
	// clang makes an assignment of this size a call of memcpy.
	fm_sig_copy(&h->copies[next], act, sizeof(*act));
	atomic_store_explicit(&h->current, next, memory_order_release);
}

FM_SIGSAFE bool fm_sig_has_theirs(int sig)
{
	struct fm_sig_held *h = &fm_sig_held[sig];
	return fm_sig_is_held(sig) &&
	       !fm_sig_is_default_or_ignored(&h->copies[atomic_load_explicit(&h->current, memory_order_acquire)]);
}

// A signal that nobody handles ends the program, as it would have without us. One that the CPU
// raised comes again by itself when the instruction is tried again, with all that the kernel knows
// of it; one that was sent is sent again, and delivered at our return.
static FM_SIGSAFE void do_default(int sig, const siginfo_t *info)
{
	struct fm_sig_kernel_action dfl = { 0 };
	fm_system_call(SYS_rt_sigaction, sig, (long)&dfl, 0, sizeof(dfl.mask));
	bool comes_again = info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS);
	if (!comes_again)
		fm_system_call(SYS_tgkill, fm_system_call(SYS_getpid, 0, 0, 0, 0),
			       fm_system_call(SYS_gettid, 0, 0, 0, 0), sig, 0);
}

static FM_SIGSAFE uint64_t mask_word(const sigset_t *set)
{
	return *(const uint64_t *)set; // the kernel's, of 64 signals
}

// Signals of ours that have to wait while a handler of the program is on its signal stack: none,
// where that has room for one more frame.
static FM_SIGSAFE uint64_t waiting_ticks(const ucontext_t *uc)
{
	if (fm_sig_room(uc) > 2 * (fm_sig_frame_bytes + FM_SIG_WALK_BYTES))
		return 0;
	return OUR_SIGNALS;
}

typedef void (*handler_fn)(int, siginfo_t *, void *);

// Acts as the program's own disposition would: does what the default does, or makes ready for its
// handler, and returns that. The kernel passes all three arguments to every handler.
static FM_SIGSAFE __attribute__((noinline)) handler_fn begin_theirs(int sig, siginfo_t *info, ucontext_t *uc)
{
	struct fm_sig_held *h = &fm_sig_held[sig];
	struct sigaction act = { .sa_handler = SIG_DFL };
	// Not held: the capture has ended, but somebody had kept our handler, and has put it back
	// or called it.
	if (fm_sig_is_held(sig))
		fm_sig_copy(&act, &h->copies[atomic_load_explicit(&h->current, memory_order_acquire)], sizeof(act));
	if (fm_sig_is_default_or_ignored(&act)) {
		// What the CPU raised ends a program even when it is ignored. Ticks' signals are
		// ignored by default.
		if (!fm_sig_is_tick_signal(sig) && (act.sa_handler == SIG_DFL || info->si_code > 0))
			do_default(sig, info);
		else if (fm_sig_has_thread_block())
			fm_sig_ignore(uc); // the kernel would not even have woken the thread
		return NULL;
	}
	if (act.sa_flags & SA_RESETHAND) {
		struct sigaction dfl = { .sa_handler = SIG_DFL };
		fm_sig_held_set(h, &dfl);
	}
	// Ours runs with other signals blocked than theirs asked for. Our return restores the
	// thread's own mask.
	uint64_t mask = mask_word(&uc->uc_sigmask) | mask_word(&act.sa_mask);
	if (act.sa_flags & SA_ONSTACK)
		mask |= waiting_ticks(uc);
	if (!(act.sa_flags & SA_NODEFER))
		mask |= 1ull << (sig - 1);
	fm_system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof(mask));
	return act.sa_sigaction;
}

static FM_SIGSAFE __attribute__((noinline)) void chain(int sig, siginfo_t *info, ucontext_t *uc)
{
	handler_fn theirs = begin_theirs(sig, info, uc);
	if (!theirs)
		return;
	theirs(sig, info, uc);
	if (FM_LIKELY(fm_sig_has_thread_block()))
		fm_sig_mark_interrupted(uc);
}

#define ALIGNMENT_CHECK (1ull << 18) // of the flags register

// A handler begins with the flags of what it interrupted, but for a few. A program that looks for
// its own unaligned accesses has them fail, and ours would, too. Our return restores the flags.
static FM_ALWAYS_INLINE void allow_unaligned(void)
{
#if defined(__x86_64__)
	uint64_t flags = __builtin_ia32_readeflags_u64();
	if (FM_UNLIKELY(flags & ALIGNMENT_CHECK))
		__builtin_ia32_writeeflags_u64(flags & ~ALIGNMENT_CHECK);
	__asm__ volatile("" ::: "memory"); // nothing is read before
#endif
}

FM_SIGSAFE void fm_sig_on_tick(int sig, siginfo_t *info, void *context)
{
	allow_unaligned();
	if (!fm_sig_is_ours(info))
		chain(sig, info, context);
	else if (FM_LIKELY(fm_sig_has_thread_block()))
		fm_sig_tick(context, /* may_interrupt= */ true);
}

// A fixed period could stay in step with the program's own beat, so each sample draws the next
// one's, from half of what was asked for to one and a half. Only the thread that opened the event
// can do this; threads keep what the event had when they were made (agent/engine.c). So no draw
// makes up for ticks that were lost in the kernel: it would be short, and theirs for life. 4 % go
// to what a sample and its timer take.
static FM_SIGSAFE void jitter(void)
{
	struct fm_sig_thread *t = fm_sig_self;
	struct fm_sig_perf *p = &fm_sig_perf;
	int fd = atomic_load_explicit(&fm_sig_quiet.perf_fd, memory_order_relaxed);
	if (!t || fd < 0 || t->slot != p->slot || !fm_sig.header)
		return;
	uint64_t period = 960000000u / FM_MAX(fm_sig.header->rate_hz, 1u);
	if (period < PERF_JITTER_FROM_NS)
		return;
	uint64_t next = fm_random_around(&p->random, period);
	if (fm_system_call(SYS_ioctl, fd, PERF_EVENT_IOC_PERIOD, (long)&next, 0) != 0)
		atomic_store(&fm_sig_quiet.perf_fd, -1); // the program has closed it
}

FM_SIGSAFE void fm_sig_on_trap(int sig, siginfo_t *info, void *context)
{
	allow_unaligned();
	if (!fm_sig_is_ours(info)) {
		chain(sig, info, context);
	} else if (FM_LIKELY(fm_sig_has_thread_block())) {
		fm_sig_tick(context, /* may_interrupt= */ false); // raised in user code only
		jitter();
	}
}

// Of several signals that the CPU or an event raised, the kernel delivers the oldest first, even
// one that is blocked (up to Linux 6.18 at least): a perf event's that had to wait comes between a
// fault and its handler, and the fault's context then is the first instruction of ours. The fault
// comes again by itself when that has returned.
static FM_SIGSAFE bool is_overtaken(const ucontext_t *uc)
{
	uintptr_t pc = fm_sig_context_pc(uc);
	return pc == (uintptr_t)fm_sig_on_trap;
}

FM_SIGSAFE void fm_sig_on_fault(int sig, siginfo_t *info, void *context)
{
	allow_unaligned();
	// A signal that somebody sent is the program's, wherever it meets us.
	bool is_raised = info->si_code > 0;
	if (is_raised && (fm_sig_fault(context) || is_overtaken(context)))
		return;
	// Its handler takes our place on the stack, by a jump: whoever looks from there sees the
	// fault, and not us.
	handler_fn theirs = begin_theirs(sig, info, context);
	if (theirs)
		theirs(sig, info, context);
}

// Ticks wait while a handler of the program is on its signal stack; but where that has room for
// one, they need not.
static FM_SIGSAFE void let_ticks_in(const ucontext_t *uc)
{
	uint64_t ours = OUR_SIGNALS & ~mask_word(&uc->uc_sigmask);
	if (!waiting_ticks(uc))
		fm_system_call(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&ours, 0, sizeof(ours));
}

// The program's own handlers of other signals. A tick that comes while one runs may be delivered
// right after it, and would meet the system call which the program's signal had just ended: that
// end is the program's, not ours to undo. So each handler returns through here, where the context
// is marked.
FM_SIGSAFE void fm_sig_on_theirs(int sig, siginfo_t *info, void *context)
{
	allow_unaligned();
	void *handler = atomic_load_explicit(&fm_sig_theirs[sig], memory_order_acquire);
	if (atomic_load_explicit(&fm_sig_theirs_wait[sig], memory_order_relaxed))
		let_ticks_in(context);
	if (handler)
		((void (*)(int, siginfo_t *, void *))handler)(sig, info, context);
	if (FM_LIKELY(fm_sig_has_thread_block()))
		fm_sig_mark_interrupted(context);
}
