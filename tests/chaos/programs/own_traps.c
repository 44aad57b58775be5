/* A program with a perf event of its own that raises SIGTRAP, as a profiler of its own would have: it gets all of them.
 *
 * chaos: case own own
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIGTRAP_FLAGS (1ull << 36 | 1ull << 37) // remove_on_exec, sigtrap: younger than some headers

static volatile sig_atomic_t n_traps;

static void on_trap(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	n_traps += info->si_code == 6; // TRAP_PERF
}

int main(void)
{
	struct sigaction act = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	uint64_t words[16] = { 0 }; // struct perf_event_attr
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_TASK_CLOCK,
					.sample_period = 1000000,
					.exclude_kernel = 1,
					.exclude_hv = 1 };
	memcpy(words, &attr, sizeof(attr) < sizeof(words) ? sizeof(attr) : sizeof(words));
	((uint32_t *)words)[1] = sizeof(words);
	words[5] |= SIGTRAP_FLAGS;
	sigaction(SIGTRAP, &act, NULL);
	int fd = (int)syscall(SYS_perf_event_open, words, 0, -1, -1, 8);
	if (fd < 0)
		return 77;
	clock_t until = clock() + 20 * CLOCKS_PER_SEC;
	while (n_traps < 20 && clock() < until)
		for (volatile int i = 0; i < 100000; i++)
			;
	printf("%s\n", n_traps >= 20 ? "all of them" : "too few");
	close(fd);
	return 0;
}
