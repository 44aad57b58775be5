// SPDX-License-Identifier: Apache-2.0
// The two ways a sample comes about. Ticker: the collector sends FM_TICK_SIGNAL to threads that
// run; nothing to do here but to answer. Perf: the kernel's task clock raises SIGTRAP in the
// running thread itself, also in threads made later.
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "sigsafe/base/fault.h"
#include "sigsafe/base/thread_block.h"
#include "sigsafe/tick/handlers.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/state.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

bool fm_agent_is_handler(void (*handler)(int, siginfo_t *, void *))
{
	return handler == fm_sig_on_tick || handler == fm_sig_on_trap || handler == fm_sig_on_fault;
}

static bool install(int sig, void (*handler)(int, siginfo_t *, void *))
{
	// SA_ONSTACK: a thread on a small stack that has set another one up for signals wants it
	// used. All signals are blocked meanwhile: a program's handler that jumps out of ours would
	// leave a sample half made. But for those of faults: ours are mended (fault.h), and one
	// that is not must not wait.
	struct sigaction act = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	sigfillset(&act.sa_mask);
	sigdelset(&act.sa_mask, SIGSEGV);
	sigdelset(&act.sa_mask, SIGBUS);
	fm_agent_hold_signal(sig);
	return fm_agent_real_sigaction(sig, &act, NULL) == 0;
}

// Faults of our own reads come here first. What the program wants of them it gets as before: flags
// and mask are its own (SA_ONSTACK above all, without which a stack that overflows cannot be told
// of), but for SA_RESETHAND, which the handler sees to.
void fm_agent_install_fault(int sig)
{
	struct fm_sig_held *h = &fm_sig_held[sig];
	const struct sigaction *theirs = &h->copies[atomic_load(&h->current)];
	struct sigaction act = { .sa_sigaction = fm_sig_on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	if (!fm_sig_is_default_or_ignored(theirs)) {
		act.sa_flags = SA_SIGINFO | (theirs->sa_flags & (SA_ONSTACK | SA_NODEFER | SA_RESTART));
		act.sa_mask = theirs->sa_mask;
		if (act.sa_flags & SA_ONSTACK) { // as interpose.c does with other signals
			sigaddset(&act.sa_mask, FM_TICK_SIGNAL);
			sigaddset(&act.sa_mask, FM_OTHER_TICK_SIGNAL);
			sigaddset(&act.sa_mask, SIGTRAP);
		}
	}
	fm_agent_real_sigaction(sig, &act, NULL);
}

static void start_faults(void)
{
	unsigned long frame = getauxval(AT_MINSIGSTKSZ);
	if (frame)
		fm_sig_frame_bytes = frame;
#if defined(__x86_64__)
	fm_sig_may_read_fsbase = getauxval(AT_HWCAP2) & 1 << 1; // HWCAP2_FSGSBASE
#endif
	fm_agent_hold_signal(SIGSEGV);
	fm_agent_hold_signal(SIGBUS);
	fm_agent_install_fault(SIGSEGV);
	fm_agent_install_fault(SIGBUS);
	fm_sig_fault_handler = (uintptr_t)fm_sig_on_fault;
#ifdef FM_INJECT_FAULTS
	const char *nth = getenv("FATHOM_FAULT_NTH");
	fm_sig_inject_nth = nth ? (uint32_t)strtoul(nth, NULL, 10) : 0;
#endif
}

// Out of the way of programs that count on low descriptor numbers.
static int move_up(int fd)
{
	struct rlimit limit;
	int floor = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 1024 ? 1000 : 200;
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, floor);
	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

// Threads that inherit the event cannot be given random intervals: they keep the first thread's
// last one (sigsafe/tick/handlers.c), or what the event began with. So that is a period that no
// program's beat has: 95 to 97 % of what was asked for, drawn once per process. Against a beat of a
// round number of microseconds the samples then walk through all its phases, about thirty steps a
// round.
static uint64_t odd_period_ns(uint32_t rate_hz)
{
	uint64_t wanted_ns = 1000000000u / FM_MAX(rate_hz, 1u);
	uint64_t draw = fm_sig_hash(fm_now_ns()) % 1024;
	return wanted_ns * (95 * 1024 + 2 * draw) / (100 * 1024) | 1;
}

// What the kernel calls an event, by which it is told from whatever else has its number: a program
// may have closed the descriptor, and opened one of its own there.
static uint64_t perf_id;

static uint64_t id_of(int fd)
{
	uint64_t id = 0;
	return ioctl(fd, PERF_EVENT_IOC_ID, &id) == 0 ? id : 0;
}

static int start_perf(void)
{
	struct perf_event_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_SOFTWARE;
	attr.size = FM_PERF_ATTR_SIZE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	attr.sample_period = odd_period_ns(fm_sig.header->rate_hz);
	attr.inherit = 1;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	((uint64_t *)&attr)[FM_PERF_FLAG_WORD] |= FM_PERF_INHERIT_THREAD | FM_PERF_REMOVE_ON_EXEC | FM_PERF_SIGTRAP;
	((uint64_t *)&attr)[FM_PERF_SIG_DATA_WORD] = FM_SIG_PERF_MARK;
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 8ul /* PERF_FLAG_FD_CLOEXEC */);
	if (fd < 0)
		return errno;
	fd = move_up(fd);
	perf_id = id_of(fd);
	atomic_store(&fm_sig_quiet.perf_fd, fd);
	fm_sig_perf = (struct fm_sig_perf){ fm_sig_self ? fm_sig_self->slot : NULL, fm_now_ns() | 1 };
	return 0;
}

void fm_agent_engine_forget(void)
{
	int fd = atomic_exchange(&fm_sig_quiet.perf_fd, -1);
	int saved_errno = errno;
	if (fd >= 0 && perf_id && id_of(fd) == perf_id)
		close(fd);
	errno = saved_errno;
}

void fm_agent_choose_tick_signal(void)
{
	bool is_other = fm_sig_has_theirs(FM_TICK_SIGNAL) && !fm_sig_has_theirs(FM_OTHER_TICK_SIGNAL);
	if (is_other && !fm_sig_is_held(FM_OTHER_TICK_SIGNAL))
		is_other = install(FM_OTHER_TICK_SIGNAL, fm_sig_on_tick) && !fm_sig_has_theirs(FM_OTHER_TICK_SIGNAL);
	if (fm_sig.header && fm_sig.process)
		atomic_store(&fm_sig.process->tick_signal, is_other ? FM_OTHER_TICK_SIGNAL : FM_TICK_SIGNAL);
}

void fm_agent_engine_start(void)
{
	start_faults();
	if (fm_sig.header->engine == FM_ENGINE_PERF) {
		fm_agent_engine_forget();
		int err = install(SIGTRAP, fm_sig_on_trap) ? start_perf() : errno;
		if (err == 0) {
			// A program that closes descriptors it does not know ends the event. The
			// collector sees that, and sends ticks.
			install(FM_TICK_SIGNAL, fm_sig_on_tick);
			fm_agent_choose_tick_signal();
			fm_sig.process->perf_fd1 = (uint32_t)atomic_load(&fm_sig_quiet.perf_fd) + 1;
			fm_sig.process->engine = FM_ENGINE_PERF;
			return;
		}
		fm_sig.process->engine_errno = (uint32_t)err;
	}
	install(FM_TICK_SIGNAL, fm_sig_on_tick);
	fm_agent_choose_tick_signal();
	fm_sig.process->engine = FM_ENGINE_TICKER;
}
