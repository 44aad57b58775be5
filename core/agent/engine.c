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

#include "base/compiler.h"
#include "sigsafe/state.h"
#include "sigsafe/tick.h"

#ifndef TRAP_PERF
#define TRAP_PERF 6
#endif

// sigtrap, remove_on_exec and inherit_thread (Linux 5.13) as bits of perf_event_attr's flag word, for older headers.
#define ATTR_INHERIT_THREAD (1ull << 35)
#define ATTR_REMOVE_ON_EXEC (1ull << 36)
#define ATTR_SIGTRAP (1ull << 37)

static int perf_fd = -1;

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

static void on_trap(int sig, siginfo_t *info, void *context)
{
	if (fm_agent_signal_is_ours(info))
		fm_sig_tick(context, /* may_interrupt= */ false); // raised in user code only
	else
		fm_agent_chain_signal(sig, info, context);
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

static int start_perf(void)
{
	struct perf_event_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_SOFTWARE;
	attr.size = 128; // PERF_ATTR_SIZE_VER7: the first with sig_data
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	attr.sample_period = 1000000000u / FM_MAX(fm_sig.header->rate_hz, 1u);
	attr.inherit = 1;
	attr.exclude_kernel = 1;
	attr.exclude_hv = 1;
	uint64_t *flags = (uint64_t *)((char *)&attr + 40);
	*flags |= ATTR_INHERIT_THREAD | ATTR_REMOVE_ON_EXEC | ATTR_SIGTRAP;
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 8ul /* PERF_FLAG_FD_CLOEXEC */);
	if (fd < 0)
		return errno;
	perf_fd = move_up(fd);
	return 0;
}

void fm_agent_engine_start(void)
{
	if (fm_sig.header->engine == FM_ENGINE_PERF) {
		if (perf_fd >= 0) { // inherited over fork: counts the parent, not us
			close(perf_fd);
			perf_fd = -1;
		}
		int err = install(SIGTRAP, on_trap) ? start_perf() : errno;
		if (err == 0) {
			fm_sig.process->engine = FM_ENGINE_PERF;
			return;
		}
		fm_sig.process->engine_errors = (uint32_t)err;
	}
	install(FM_TICK_SIGNAL, on_tick);
	fm_sig.process->engine = FM_ENGINE_TICKER;
}
