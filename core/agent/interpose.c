// SPDX-License-Identifier: Apache-2.0
// Functions of libc that the agent stands in front of, and no more than these:
//   sigaction, signal   the program may set or ask for a handler of a signal that the agent holds; it gets what it
//   would get
//                       without us, and its handler is called for every signal that is not ours
//                       (sigsafe/tick/handlers.c). With the ticker its handlers of other signals return through us
//                       (fm_sig_on_theirs says why).
//   sysv_signal, bsd_signal, ssignal, sigset, sigignore   as sigaction
//   sigpending, sigwait and its kin, signalfd   (interpose_wait.c) a program that waits for any signal must not be
//   handed ours
//   __register_frame    (frame_tables.c) tables by which code made at run time is unwound
//   prctl, syscall      (sandbox.c, x86_syscall.c) a filter of system calls may end the program for one of ours
//   dlclose             an unloaded library's unwind rows must be forgotten before another one takes its addresses
//   the exec functions, posix_spawn  (exec.c) what leads started programs to the capture must be in their environment
//   dlsym               (memory_bind.c) a library that was opened past us is bound to our hooks before it is used
#include "base/compiler.h"
#include "agent/agent.h"
#include "agent/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sigsafe/tick/handlers.h"
#include "sigsafe/base/state.h"

typedef int (*sigaction_fn)(int, const struct sigaction *, struct sigaction *);
typedef void (*handler_fn)(int);
typedef int (*dlclose_fn)(void *);

int fm_agent_real_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	static _Atomic(sigaction_fn) real;
	sigaction_fn fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (!fn) {
		fn = (sigaction_fn)fm_agent_next_symbol("sigaction");
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	if (!fn) {
		errno = ENOSYS;
		return -1;
	}
	return fn(sig, act, old);
}

void fm_agent_hold_signal(int sig)
{
	if (fm_sig_is_held(sig))
		return;
	fm_agent_real_sigaction(sig, NULL, &fm_sig_held[sig].copies[0]);
	atomic_store(&fm_sig_held[sig].current, 0);
	atomic_store_explicit(&fm_sig_held[sig].is_held, 1, memory_order_release);
}

void fm_agent_release_signal(int sig)
{
	struct fm_sig_held *h = &fm_sig_held[sig];
	struct sigaction ours;
	if (!fm_sig_is_held(sig))
		return;
	// Without a preload the program's own calls do not pass here: what it has set meanwhile
	// stays.
	if (fm_agent_real_sigaction(sig, NULL, &ours) == 0 && ours.sa_flags & SA_SIGINFO &&
	    fm_agent_is_handler(ours.sa_sigaction))
		fm_agent_real_sigaction(sig, &h->copies[atomic_load(&h->current)], NULL);
	atomic_store_explicit(&h->is_held, 0, memory_order_release);
}

// A vfork child runs in its parent's memory but has dispositions of its own: what it sets must not
// be written down here.
static bool is_borrowed_memory(void)
{
	return (uint32_t)getpid() != fm_sig.pid;
}

// Signals that another process or a timer may send at any time. Those that the CPU raises end no
// system call.
static bool is_wrapped(int sig)
{
	return sig > 0 && sig < NSIG && sig != SIGSEGV && sig != SIGBUS && sig != SIGILL && sig != SIGFPE &&
	       sig != SIGTRAP && sig != SIGABRT && sig != SIGSYS && fm_sig_is_held(FM_TICK_SIGNAL);
}

// A handler on a signal stack: another signal frame may find no room there, and ends the program.
// So ours wait until it has returned.
static bool add_ours(struct sigaction *act)
{
	if (!(act->sa_flags & SA_ONSTACK) || sigismember(&act->sa_mask, FM_TICK_SIGNAL))
		return false;
	sigaddset(&act->sa_mask, FM_TICK_SIGNAL);
	if (fm_sig_is_held(FM_OTHER_TICK_SIGNAL))
		sigaddset(&act->sa_mask, FM_OTHER_TICK_SIGNAL);
	if (fm_sig_is_held(SIGTRAP))
		sigaddset(&act->sa_mask, SIGTRAP);
	return true;
}

// From what the kernel has to what the program has set.
static void show_theirs(struct sigaction *act, void *handler, bool waits)
{
	if (act->sa_sigaction != fm_sig_on_theirs)
		return;
	act->sa_handler = (handler_fn)handler;
	if (waits) {
		sigdelset(&act->sa_mask, FM_TICK_SIGNAL);
		sigdelset(&act->sa_mask, FM_OTHER_TICK_SIGNAL);
		sigdelset(&act->sa_mask, SIGTRAP);
	}
}

static int set_other(int sig, const struct sigaction *act, struct sigaction *old)
{
	if (!is_wrapped(sig))
		return fm_agent_real_sigaction(sig, act, old);
	void *before = atomic_load_explicit(&fm_sig_theirs[sig], memory_order_acquire);
	bool waited = atomic_load_explicit(&fm_sig_theirs_wait[sig], memory_order_relaxed), waits = waited;
	struct sigaction changed;
	if (act && !fm_sig_is_default_or_ignored(act) && act->sa_sigaction != fm_sig_on_theirs &&
	    !is_borrowed_memory()) {
		changed = *act;
		// The kernel passes all three arguments also without SA_SIGINFO; the flags stay
		// what the program asked for.
		changed.sa_sigaction = fm_sig_on_theirs;
		waits = add_ours(&changed);
		atomic_store_explicit(&fm_sig_theirs[sig], (void *)act->sa_handler, memory_order_release);
		act = &changed;
	}
	int ret = fm_agent_real_sigaction(sig, act, old);
	if (ret != 0) {
		atomic_store_explicit(&fm_sig_theirs[sig], before, memory_order_release);
		return ret;
	}
	atomic_store_explicit(&fm_sig_theirs_wait[sig], waits, memory_order_relaxed);
	if (old)
		show_theirs(old, before, waited);
	return 0;
}

void fm_agent_wrap_handlers(bool is_on)
{
	struct sigaction act;
	for (int sig = 1; sig < NSIG; sig++) {
		if (!is_wrapped(sig) || fm_sig_is_held(sig) || fm_agent_real_sigaction(sig, NULL, &act) != 0)
			continue;
		if (is_on && !fm_sig_is_default_or_ignored(&act) && act.sa_sigaction != fm_sig_on_theirs) {
			set_other(sig, &act, NULL);
		} else if (!is_on && act.sa_sigaction == fm_sig_on_theirs) {
			show_theirs(&act, atomic_load_explicit(&fm_sig_theirs[sig], memory_order_acquire),
				    atomic_load(&fm_sig_theirs_wait[sig]));
			fm_agent_real_sigaction(sig, &act, NULL);
		}
	}
}

FM_EXPORT int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict old);
FM_EXPORT int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict old)
{
	fm_agent_memory_check_python();
	fm_agent_isolated_check();
	if (!fm_sig_is_held(sig))
		return set_other(sig, act, old);
	struct fm_sig_held *h = &fm_sig_held[sig];
	struct sigaction before = h->copies[atomic_load_explicit(&h->current, memory_order_acquire)];
	if (act && is_borrowed_memory()) {
		if (fm_agent_real_sigaction(sig, act, NULL) != 0)
			return -1;
	} else if (act) {
		struct sigaction wanted = *act, ours; // act and old may be one
#if defined(__x86_64__)
		wanted.sa_flags |= 0x04000000; // SA_RESTORER: libc sets it, and shows it to those who ask
#endif
		fm_sig_held_set(h, &wanted);
		if (fm_sig_is_tick_signal(sig))
			fm_agent_choose_tick_signal();
		if (sig == SIGSEGV || sig == SIGBUS) {
			fm_agent_install_fault(sig);
			goto done;
		}
		// A program that lets its signal end a system call gets that; our own then put the
		// call back themselves.
		bool restarts = fm_sig_is_default_or_ignored(&wanted) || wanted.sa_flags & SA_RESTART;
		if (fm_agent_real_sigaction(sig, NULL, &ours) == 0 && !(ours.sa_flags & SA_RESTART) == restarts) {
			ours.sa_flags ^= SA_RESTART;
			fm_agent_real_sigaction(sig, &ours, NULL);
		}
	}
done:
	if (old)
		*old = before;
	return 0;
}

FM_EXPORT handler_fn signal(int sig, handler_fn handler);
FM_EXPORT handler_fn signal(int sig, handler_fn handler)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;
	if (!fm_sig_is_held(sig)) {
		static _Atomic(void *) real;
		void *fn = atomic_load_explicit(&real, memory_order_relaxed);
		if (!fn) {
			fn = fm_agent_next_symbol("signal");
			atomic_store_explicit(&real, fn, memory_order_relaxed);
		}
		if (!fn)
			return SIG_ERR;
		// libc knows the flags (siginterrupt may have changed them); we put ours in front
		// of what it set.
		handler_fn before = ((handler_fn(*)(int, handler_fn))fn)(sig, handler);
		if (before == SIG_ERR || !is_wrapped(sig))
			return before;
		if ((void *)before == (void *)fm_sig_on_theirs)
			before = (handler_fn)atomic_load_explicit(&fm_sig_theirs[sig], memory_order_acquire);
		if (fm_agent_real_sigaction(sig, NULL, &act) == 0)
			set_other(sig, &act, NULL);
		return before;
	}
	// It may be given back between the question above and here, and the real one may refuse.
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

// The older names. libc's set the kernel's disposition past our sigaction(): a program would be
// handed our signals, and with the first one its handler be gone. C without extensions has the
// second of these for signal().
static handler_fn set_handler(int sig, handler_fn handler, int flags)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

FM_EXPORT handler_fn sysv_signal(int sig, handler_fn handler);
FM_EXPORT handler_fn sysv_signal(int sig, handler_fn handler)
{
	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return set_handler(sig, handler, (int)SA_RESETHAND | SA_NODEFER | 0x20000000 /* SA_INTERRUPT */);
}

FM_EXPORT handler_fn __sysv_signal(int sig, handler_fn handler);
FM_EXPORT handler_fn __sysv_signal(int sig, handler_fn handler)
{
	return sysv_signal(sig, handler);
}

FM_EXPORT handler_fn bsd_signal(int sig, handler_fn handler);
FM_EXPORT handler_fn bsd_signal(int sig, handler_fn handler)
{
	return signal(sig, handler);
}

FM_EXPORT handler_fn ssignal(int sig, handler_fn handler);
FM_EXPORT handler_fn ssignal(int sig, handler_fn handler)
{
	return signal(sig, handler);
}

FM_EXPORT int sigignore(int sig);
FM_EXPORT int sigignore(int sig)
{
	return set_handler(sig, SIG_IGN, 0) == SIG_ERR ? -1 : 0;
}

FM_EXPORT handler_fn sigset(int sig, handler_fn handler);
FM_EXPORT handler_fn sigset(int sig, handler_fn handler)
{
	struct sigaction old;
	sigset_t set, before;
	sigemptyset(&set);
	if (sigaddset(&set, sig) != 0)
		return SIG_ERR;
	bool is_held_back = handler == SIG_HOLD;
	if (is_held_back) {
		if (sigprocmask(SIG_BLOCK, &set, &before) != 0 || sigaction(sig, NULL, &old) != 0)
			return SIG_ERR;
	} else {
		old.sa_handler = set_handler(sig, handler, 0);
		if (old.sa_handler == SIG_ERR || sigprocmask(SIG_UNBLOCK, &set, &before) != 0)
			return SIG_ERR;
	}
	return sigismember(&before, sig) ? SIG_HOLD : old.sa_handler;
}

int fm_agent_real_dlclose(void *handle)
{
	static _Atomic(dlclose_fn) real;
	dlclose_fn fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (!fn) {
		fn = (dlclose_fn)fm_agent_next_symbol("dlclose");
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	return fn ? fn(handle) : -1;
}

FM_EXPORT int dlclose(void *handle);
FM_EXPORT int dlclose(void *handle)
{
	int ret = fm_agent_real_dlclose(handle);
	if (fm_sig.header) {
		fm_agent_images_refill();
		// Which image went is not known here; all are told again when they are met again.
		for (uint32_t i = 0; i < FM_SIG_IMAGES; i++)
			atomic_store_explicit(&fm_sig.images[i].told, 0, memory_order_relaxed);
		atomic_fetch_add_explicit(&fm_sig.unload_generation, 1, memory_order_release);
	}
	return ret;
}

OURS(sigaction);
OURS(signal);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // programs still call them
OURS(sysv_signal);
OURS(__sysv_signal);
OURS(bsd_signal);
OURS(ssignal);
OURS(sigignore);
OURS(sigset);
const struct fm_agent_hook fm_agent_signal_hooks[] = {
	HOOK(sigaction), HOOK(signal),    HOOK(sysv_signal), HOOK(__sysv_signal), HOOK(bsd_signal),
	HOOK(ssignal),   HOOK(sigignore), HOOK(sigset),      { NULL, NULL },
};
#pragma GCC diagnostic pop

extern void *fm_agent_dlsym(void *handle, const char *name); // memory_bind.c
OURS(dlclose);
const struct fm_agent_hook fm_agent_library_hooks[] = {
	{ "dlsym", (void *)fm_agent_dlsym },
	HOOK(dlclose),
	{ NULL, NULL },
};
