// The two ways a sample comes about. Ticker: the collector sends FM_TICK_SIGNAL to threads that run; nothing to do here but
// to answer. Perf: the kernel's task clock raises SIGTRAP in the running thread itself, also in threads made later.
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "sigsafe/quiet.h"
#include "sigsafe/raw.h"
#include "sigsafe/state.h"
#include "sigsafe/tick.h"

#ifndef TRAP_PERF
#define TRAP_PERF 6
#endif

// Two samples of a thread are at least so far apart: the time a sample and its timer take.
#define PERF_SHORTEST_NS 20000u

// Below this period a sample sets no other one: on a virtual machine that costs 10 to 20 us, a fifth of a period at 10 kHz, and
// the odd period does against a beat what it can.
#define PERF_JITTER_FROM_NS 500000u

static struct fm_wire_slot *perf_slot; // of the thread that opened it
static uint64_t perf_random, perf_next_ns;

// Ours come from the collector by tgkill, or from the kernel for the perf event; anybody else's belong to the program.
bool fm_agent_signal_is_ours(const siginfo_t *info)
{
	if (info->si_signo == SIGTRAP)
		return info->si_code == TRAP_PERF;
	// libc's sigtimedwait shows SI_USER for SI_TKILL. The collector passes signals on to its child, but never this one.
	return info->si_signo == FM_TICK_SIGNAL && (info->si_code == SI_TKILL || info->si_code == SI_USER) &&
	       fm_sig.collector_pid != 0 && (uint32_t)info->si_pid == fm_sig.collector_pid;
}

static void on_tick(int sig, siginfo_t *info, void *context)
{
	if (fm_agent_signal_is_ours(info))
		fm_sig_tick(context, /* may_interrupt= */ true);
	else
		fm_agent_chain_signal(sig, info, context);
}

// A fixed period could stay in step with the program's own beat, so each sample sets the next one's. The schedule is kept in
// the thread's own CPU time: what the sample itself took does not lower the rate. Only the thread that opened the event can
// do this; threads that inherited it keep a fixed one (odd_period_ns).
static void jitter(void)
{
	struct fm_sig_thread *t = fm_sig_self;
	int perf_fd = atomic_load_explicit(&fm_sig_quiet.perf_fd, memory_order_relaxed);
	if (!t || perf_fd < 0 || t->slot != perf_slot)
		return;
	uint64_t period = 1000000000u / FM_MAX(fm_sig.header->rate_hz, 1u);
	if (period < PERF_JITTER_FROM_NS)
		return;
	uint64_t now = atomic_load_explicit(&t->slot->cpu_ns, memory_order_relaxed);
	perf_random ^= perf_random << 13;
	perf_random ^= perf_random >> 7;
	perf_random ^= perf_random << 17;
	perf_next_ns += period / 2 + perf_random % (period + 1);
	if (perf_next_ns + 2 * period < now)
		perf_next_ns = now; // far behind, after a long system call say: do not make up for it in a burst
	uint64_t next = perf_next_ns > now + PERF_SHORTEST_NS ? perf_next_ns - now : PERF_SHORTEST_NS;
	if (fm_sig_syscall(SYS_ioctl, perf_fd, PERF_EVENT_IOC_PERIOD, (long)&next, 0) != 0)
		atomic_store(&fm_sig_quiet.perf_fd, -1); // the program has closed it
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	if (fm_agent_signal_is_ours(info)) {
		fm_sig_tick(context, /* may_interrupt= */ false); // raised in user code only
		jitter();
	} else {
		fm_agent_chain_signal(sig, info, context);
	}
}

bool fm_agent_is_handler(void (*handler)(int, siginfo_t *, void *))
{
	return handler == on_tick || handler == on_trap;
}

static bool install(int sig, void (*handler)(int, siginfo_t *, void *))
{
	// SA_ONSTACK: a thread on a small stack that has set another one up for signals wants it used.
	// All signals are blocked meanwhile: a program's handler that jumps out of ours would leave a sample half made.
	struct sigaction act = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	sigfillset(&act.sa_mask);
	fm_agent_hold_signal(sig);
	return fm_agent_real_sigaction(sig, &act, NULL) == 0;
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

// Threads that inherit the event cannot be given random intervals. So their period is one that no program's beat has: 95 to 97 % of
// what was asked for, drawn once per process. Against a beat of a round number of microseconds the samples then walk through
// all its phases, about thirty steps a round.
static uint64_t odd_period_ns(uint32_t rate_hz)
{
	uint64_t wanted_ns = 1000000000u / FM_MAX(rate_hz, 1u);
	uint64_t draw = fm_sig_hash(fm_now_ns()) % 1024;
	return wanted_ns * (95 * 1024 + 2 * draw) / (100 * 1024) | 1;
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
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 8ul /* PERF_FLAG_FD_CLOEXEC */);
	if (fd < 0)
		return errno;
	atomic_store(&fm_sig_quiet.perf_fd, move_up(fd));
	perf_slot = fm_sig_self ? fm_sig_self->slot : NULL;
	perf_random = fm_now_ns() | 1;
	perf_next_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return 0;
}

void fm_agent_engine_forget(void)
{
	int fd = atomic_exchange(&fm_sig_quiet.perf_fd, -1);
	if (fd >= 0)
		close(fd);
}

void fm_agent_engine_start(void)
{
	if (fm_sig.header->engine == FM_ENGINE_PERF) {
		fm_agent_engine_forget();
		int err = install(SIGTRAP, on_trap) ? start_perf() : errno;
		if (err == 0) {
			// A program that closes descriptors it does not know ends the event. The collector sees that, and sends ticks.
			install(FM_TICK_SIGNAL, on_tick);
			fm_sig.process->perf_fd1 = (uint32_t)atomic_load(&fm_sig_quiet.perf_fd) + 1;
			fm_sig.process->engine = FM_ENGINE_PERF;
			return;
		}
		fm_sig.process->engine_errno = (uint32_t)err;
	}
	install(FM_TICK_SIGNAL, on_tick);
	fm_sig.process->engine = FM_ENGINE_TICKER;
}
