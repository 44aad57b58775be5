// Functions of libc that the agent stands in front of, and no more than these:
//   sigaction, signal   the program may set or ask for a handler of a signal that the agent holds; it gets what it would get
//                       without us, and its handler is called for every signal that is not ours
//   __register_frame    (frame_tables.c) tables by which code made at run time is unwound
//   dlclose             an unloaded library's unwind rows must be forgotten before another one takes its addresses
#include "agent/agent.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sigsafe/state.h"

#define EXPORT __attribute__((visibility("default")))

typedef int (*sigaction_fn)(int, const struct sigaction *, struct sigaction *);
typedef void (*handler_fn)(int);
typedef int (*dlclose_fn)(void *);

// The program's own disposition of a signal we hold. Written under the program's own calls, read at signal time; a reader
// must not see half of it, so each is one of two copies and `current` says which.
struct held_signal {
	_Atomic int is_held;
	_Atomic unsigned current;
	struct sigaction copies[2];
};
static struct held_signal held[NSIG];

static void *next_symbol(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int fm_agent_real_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	static _Atomic(sigaction_fn) real;
	sigaction_fn fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (!fn) {
		fn = (sigaction_fn)next_symbol("sigaction");
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	if (!fn) {
		errno = ENOSYS;
		return -1;
	}
	return fn(sig, act, old);
}

bool fm_agent_signal_is_held(int sig)
{
	return sig > 0 && sig < NSIG && atomic_load_explicit(&held[sig].is_held, memory_order_acquire);
}

void fm_agent_hold_signal(int sig)
{
	if (fm_agent_signal_is_held(sig))
		return;
	fm_agent_real_sigaction(sig, NULL, &held[sig].copies[0]);
	atomic_store_explicit(&held[sig].is_held, 1, memory_order_release);
}

void fm_agent_chain_signal(int sig, siginfo_t *info, void *context)
{
	if (!fm_agent_signal_is_held(sig))
		return;
	struct held_signal *h = &held[sig];
	const struct sigaction *act = &h->copies[atomic_load_explicit(&h->current, memory_order_acquire)];
	if (act->sa_flags & SA_SIGINFO) {
		if (act->sa_sigaction)
			act->sa_sigaction(sig, info, context);
	} else if (act->sa_handler == SIG_DFL) {
		if (sig == SIGTRAP) {
			// A breakpoint that nobody handles ends the program, as it would have without us.
			struct sigaction dfl = { .sa_handler = SIG_DFL };
			fm_agent_real_sigaction(sig, &dfl, NULL);
			syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig); // delivered when our handler returns
		}
	} else if (act->sa_handler != SIG_IGN) {
		act->sa_handler(sig);
	}
}

EXPORT int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict old);
EXPORT int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict old)
{
	if (!fm_agent_signal_is_held(sig))
		return fm_agent_real_sigaction(sig, act, old);
	struct held_signal *h = &held[sig];
	unsigned current = atomic_load_explicit(&h->current, memory_order_acquire);
	struct sigaction before = h->copies[current];
	if (act) {
		h->copies[!current] = *act;
		atomic_store_explicit(&h->current, !current, memory_order_release);
	}
	if (old)
		*old = before;
	return 0;
}

EXPORT handler_fn signal(int sig, handler_fn handler);
EXPORT handler_fn signal(int sig, handler_fn handler)
{
	if (!fm_agent_signal_is_held(sig)) {
		static _Atomic(void *) real;
		void *fn = atomic_load_explicit(&real, memory_order_relaxed);
		if (!fn) {
			fn = next_symbol("signal");
			atomic_store_explicit(&real, fn, memory_order_relaxed);
		}
		return fn ? ((handler_fn(*)(int, handler_fn))fn)(sig, handler) : SIG_ERR;
	}
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;
	// It may be given back between the question above and here, and the real one may refuse.
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

int fm_agent_real_dlclose(void *handle)
{
	static _Atomic(dlclose_fn) real;
	dlclose_fn fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (!fn) {
		fn = (dlclose_fn)next_symbol("dlclose");
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	return fn ? fn(handle) : -1;
}

EXPORT int dlclose(void *handle);
EXPORT int dlclose(void *handle)
{
	int ret = fm_agent_real_dlclose(handle);
	if (fm_sig.header) {
		// Which image went is not known here; all are told again when they are met again.
		for (uint32_t i = 0; i < FM_SIG_IMAGES; i++)
			atomic_store_explicit(&fm_sig.images[i].told, 0, memory_order_relaxed);
		atomic_fetch_add_explicit(&fm_sig.unload_generation, 1, memory_order_release);
	}
	return ret;
}
