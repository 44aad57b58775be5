/* Signals by the older names (sigset, sysv_signal, which signal() is in C without extensions, sigignore), and what is
 * pending. No handler gets a signal that the program did not send, and none is pending.
 *
 * chaos: case handlers handlers
 * chaos: case pending pending
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

typedef void (*handler)(int);
extern handler __sysv_signal(int sig, handler handler);

static const int signals[] = { SIGURG, SIGWINCH, SIGTRAP, SIGUSR1 };
static volatile sig_atomic_t n_got;

static void on_signal(int sig)
{
	(void)sig;
	n_got++;
}

static void work(double s)
{
	clock_t until = clock() + (clock_t)(s * CLOCKS_PER_SEC);
	while (clock() < until)
		;
}

static const char *name_of(handler h)
{
	return h == SIG_DFL     ? "default"
	       : h == SIG_IGN   ? "ignored"
	       : h == SIG_HOLD  ? "held"
	       : h == SIG_ERR   ? "error"
	       : h == on_signal ? "handler"
				: "another";
}

static void set_handlers(double s)
{
	for (int i = 0; i < 4; i++) {
		int sig = signals[i];
		n_got = 0;
		printf("%d: %s", sig, name_of(sigset(sig, on_signal)));
		work(s / 8);
		printf(", %d without one", (int)n_got);
		kill(getpid(), sig);
		printf(", %d with one", (int)n_got);
		printf(", %s", name_of(sigset(sig, SIG_HOLD)));
		printf(", %s", name_of(sigset(sig, on_signal)));
		printf(", %s", name_of(__sysv_signal(sig, on_signal)));
		n_got = 0;
		work(s / 8);
		printf(", %d without one", (int)n_got);
		raise(sig);
		printf(", %d with one", (int)n_got);
		printf(", %s", name_of(ssignal(sig, SIG_DFL)));
		sigignore(sig);
		raise(sig);
		printf(", %s\n", name_of(sysv_signal(sig, SIG_DFL)));
	}
	printf("0: %s, 65: %s\n", name_of(sysv_signal(0, on_signal)), name_of(sigset(65, on_signal)));
}

static void print_pending(const char *when)
{
	sigset_t set;
	sigpending(&set);
	printf("%s:", when);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&set, sig))
			printf(" %d", sig);
	printf("\n");
}

static void wait_for_all(void)
{
	sigset_t set;
	siginfo_t info;
	// Would wait for ever for one that is not there.
	while (sigpending(&set) == 0 && !sigisemptyset(&set)) {
		int sig = sigwaitinfo(&set, &info);
		printf("%d by %s\n", sig, info.si_pid == getpid() ? "itself" : "another");
	}
}

static void look_at_pending(double s)
{
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	work(s / 8);
	print_pending("none");
	wait_for_all();
	for (int i = 0; i < 4; i++) {
		work(s / 32);
		kill(getpid(), signals[i]);
	}
	work(s / 8);
	print_pending("of the process");
	print_pending("of the process still");
	wait_for_all();
	sigprocmask(SIG_SETMASK, &before, NULL);
	print_pending("none");
}

int main(int argc, char **argv)
{
	double s = atof(argc > 1 ? argv[1] : "1");
	if (argc > 2 && !strcmp(argv[2], "pending"))
		look_at_pending(s);
	else
		set_handlers(s);
	return 0;
}
