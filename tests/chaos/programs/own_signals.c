/* The same in C, with handlers by sigaction(), signal() and sigwait(), and by the system call's number.
 *
 * chaos: case action action
 * chaos: case plain plain
 * chaos: case wait wait
 * chaos: case number number
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t urg, trap, queued;

__attribute__((noinline)) static long spin(long n)
{
	volatile long x = 0;
	for (long i = 0; i < n; i++)
		x += i & 1;
	return x;
}

static void count(int sig)
{
	if (sig == SIGURG)
		urg++;
	else
		trap++;
}

static void take(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code == SI_QUEUE)
		queued += info->si_value.sival_int;
	count(sig);
}

struct kernel_action {
	void *handler;
	uint64_t flags, restorer, mask;
};

// As a runtime that has a sigaction() of its own. What it finds there must be nobody's, and then
// what it has set.
static void set_by_number(int sig)
{
	struct kernel_action action, before, after;
	signal(SIGUSR1, count);
	syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, 8); // with libc's way back from a handler
	action.handler = (void *)take;
	action.flags |= SA_SIGINFO;
	long ret = syscall(SYS_rt_sigaction, sig, &action, &before, 8);
	ret += syscall(SYS_rt_sigaction, sig, NULL, &after, 8);
	if (ret || before.handler || after.handler != action.handler || after.flags != action.flags ||
	    after.mask != action.mask)
		printf("signal %d: %ld\n", sig, ret);
}

int main(int argc, char **argv)
{
	long n = (long)(atof(argc > 1 ? argv[1] : "1") * 8000) + 1;
	const char *kind = argc > 2 ? argv[2] : "action";
	if (strcmp(kind, "wait") == 0) {
		sigset_t set;
		sigemptyset(&set);
		sigaddset(&set, SIGUSR2);
		sigprocmask(SIG_BLOCK, &set, NULL);
		long got = 0;
		for (long i = 0; i < n; i++) {
			int sig;
			raise(SIGUSR2);
			spin(40000);
			got += sigwait(&set, &sig) == 0 && sig == SIGUSR2;
		}
		printf("wait %ld\n", got);
		return 0;
	}
	if (strcmp(kind, "plain") == 0) {
		signal(SIGURG, count);
		signal(SIGTRAP, count);
	} else if (strcmp(kind, "number") == 0) {
		set_by_number(SIGURG);
		set_by_number(SIGTRAP);
	} else {
		struct sigaction action = { .sa_sigaction = take, .sa_flags = SA_SIGINFO };
		sigaction(SIGURG, &action, NULL);
		sigaction(SIGTRAP, &action, NULL);
	}
	for (long i = 0; i < n; i++) {
		raise(SIGURG);
		spin(20000);
		raise(SIGTRAP);
		sigqueue(getpid(), SIGURG, (union sigval){ .sival_int = 3 });
		spin(20000);
	}
	printf("%s %d %d %d\n", kind, (int)urg, (int)trap, (int)queued);
	return 0;
}
