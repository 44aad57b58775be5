// SPDX-License-Identifier: Apache-2.0
// Functions that take a signal instead of having it delivered. A thread that blocks all signals and
// waits for any of them would be handed ours: it is passed over, and the wait goes on.
#include "base/compiler.h"
#include "agent/agent.h"
#include "agent/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <time.h>

#include "base/clock.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/tick/handlers.h"

typedef int (*sigtimedwait_fn)(const sigset_t *, siginfo_t *, const struct timespec *);
typedef int (*signalfd_fn)(int, const sigset_t *, int);

static sigtimedwait_fn real_sigtimedwait(void)
{
	static _Atomic(sigtimedwait_fn) real;
	sigtimedwait_fn fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (!fn) {
		fn = (sigtimedwait_fn)dlsym(RTLD_NEXT, "sigtimedwait");
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	return fn;
}

// As sigtimedwait, but never returns a signal of ours.
static int wait_for_theirs(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	sigtimedwait_fn wait = real_sigtimedwait();
	if (!wait) {
		errno = ENOSYS;
		return -1;
	}
	siginfo_t own;
	if (!info)
		info = &own;
	// A strange timeout is for the kernel to refuse.
	bool is_timed = timeout && timeout->tv_sec >= 0 && timeout->tv_sec < 1000000000 && timeout->tv_nsec >= 0 &&
			timeout->tv_nsec < 1000000000;
	uint64_t until_ns = 0;
	if (is_timed)
		until_ns = fm_now_ns() + (uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec;
	struct timespec left;
	for (;;) {
		int sig = wait(set, info, timeout);
		if (sig < 0 || !fm_sig_is_ours(info))
			return sig;
		if (is_timed) {
			uint64_t now_ns = fm_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
			left = (struct timespec){ .tv_sec = (time_t)(left_ns / 1000000000u),
						  .tv_nsec = (long)(left_ns % 1000000000u) };
			timeout = &left;
		}
	}
}

FM_EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
			   const struct timespec *restrict timeout);
FM_EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
			   const struct timespec *restrict timeout)
{
	return wait_for_theirs(set, info, timeout);
}

FM_EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info);
FM_EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
	return wait_for_theirs(set, info, NULL);
}

// Returns an error number, sets no errno, and never ends with EINTR.
FM_EXPORT int sigwait(const sigset_t *restrict set, int *restrict ret);
FM_EXPORT int sigwait(const sigset_t *restrict set, int *restrict ret)
{
	int saved_errno = errno, sig, err;
	do {
		sig = wait_for_theirs(set, NULL, NULL);
		err = errno;
	} while (sig < 0 && err == EINTR);
	errno = saved_errno;
	if (sig < 0)
		return err;
	*ret = sig;
	return 0;
}

// True when sig waits for this thread, and not for a sample alone: ours are taken, and anybody
// else's are sent again as they were.
static bool is_theirs_pending(int sig)
{
	uint64_t set = 1ull << (sig - 1);
	struct timespec at_once = { 0 };
	siginfo_t info;
	while (fm_system_call(SYS_rt_sigtimedwait, (long)&set, (long)&info, (long)&at_once, sizeof(set)) == sig) {
		if (fm_sig_is_ours(&info))
			continue;
		long pid = fm_system_call(SYS_getpid, 0, 0, 0, 0);
		if (info.si_code == SI_TKILL)
			fm_system_call(SYS_rt_tgsigqueueinfo, pid, fm_system_call(SYS_gettid, 0, 0, 0, 0), sig,
				       (long)&info);
		else
			fm_system_call(SYS_rt_sigqueueinfo, pid, sig, (long)&info, 0);
		return true;
	}
	return false;
}

FM_EXPORT int sigpending(sigset_t *set);
FM_EXPORT int sigpending(sigset_t *set)
{
	static const int ours[] = { FM_TICK_SIGNAL, FM_OTHER_TICK_SIGNAL, SIGTRAP };
	long ret = fm_system_call(SYS_rt_sigpending, (long)set, 8, 0, 0);
	if (ret != 0) {
		errno = (int)-ret;
		return -1;
	}
	for (unsigned i = 0; i < FM_ARRAY_LEN(ours); i++)
		if (fm_sig_is_held(ours[i]) && sigismember(set, ours[i]) && !is_theirs_pending(ours[i]))
			sigdelset(set, ours[i]);
	return 0;
}

// What is read from the descriptor cannot be filtered, so signals we hold are left out of a set of
// many. A program that asks for such a signal alone means it, and gets ours with it.
FM_EXPORT int signalfd(int fd, const sigset_t *mask, int flags);
FM_EXPORT int signalfd(int fd, const sigset_t *mask, int flags)
{
	static _Atomic(signalfd_fn) real;
	signalfd_fn fn = atomic_load_explicit(&real, memory_order_relaxed);
	if (!fn) {
		fn = (signalfd_fn)dlsym(RTLD_NEXT, "signalfd");
		atomic_store_explicit(&real, fn, memory_order_relaxed);
	}
	if (!fn) {
		errno = ENOSYS;
		return -1;
	}
	const sigset_t *volatile given = mask; // the header promises what a program may not keep
	if (!given)
		return fn(fd, given, flags); // for the kernel to refuse
	sigset_t theirs = *mask;
	for (int sig = 1; sig < NSIG; sig++)
		if (fm_sig_is_held(sig) && sig != SIGSEGV && sig != SIGBUS)
			sigdelset(&theirs, sig);
	return fn(fd, sigisemptyset(&theirs) ? mask : &theirs, flags);
}

OURS(sigtimedwait);
OURS(sigwaitinfo);
OURS(sigwait);
OURS(signalfd);
OURS(sigpending);
const struct fm_agent_hook fm_agent_signal_wait_hooks[] = {
	HOOK(sigtimedwait), HOOK(sigwaitinfo), HOOK(sigwait), HOOK(signalfd), HOOK(sigpending), { NULL, NULL },
};
