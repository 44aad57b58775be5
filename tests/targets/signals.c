// Small programs in one, each named by its first argument, that use signals, stacks and descriptors in ways that a
// profiler in the same process could spoil. Each prints what it saw; a test compares that with a run without the
// profiler.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

// CPU time: however busy the machine is, so much of it can be sampled.
static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void burn(double seconds)
{
	uint64_t end = cpu_ns() + (uint64_t)(seconds * 1e9);
	while (cpu_ns() < end)
		for (volatile int i = 0; i < 10000; i++)
			;
}

static volatile sig_atomic_t n_caught, last_code;

static void on_signal(int sig)
{
	(void)sig;
	n_caught++;
}

static void on_signal_info(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	n_caught++;
	last_code = info->si_code;
}

static void burn_in_handler(int sig)
{
	(void)sig;
	n_caught++;
	burn(0.1);
}

// Signals this process from a child of it, n times.
static pid_t signal_from_child(int sig, int n, double first_s)
{
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		usleep((useconds_t)(first_s * 1e6));
		for (int i = 0; i < n; i++) {
			kill(parent, sig);
			usleep(10000);
		}
		_exit(0);
	}
	return pid;
}

static void urg_sigaction(void)
{
	struct sigaction act = { .sa_sigaction = on_signal_info, .sa_flags = SA_SIGINFO }, old;
	sigaction(SIGURG, &act, &old);
	printf("before: default=%d\n", old.sa_handler == SIG_DFL);
	for (int i = 0; i < 100; i++) {
		kill(getpid(),
		     SIGURG); // one sent to this thread alone could fall together with a tick that is on its way
		burn(0.002);
	}
	sigaction(SIGURG, NULL, &old);
	printf("caught=%d code=%d same=%d flags=%d\n", n_caught, last_code, old.sa_sigaction == on_signal_info,
	       old.sa_flags);
	act = (struct sigaction){ .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	sigaction(SIGURG, &act, NULL);
	kill(getpid(), SIGURG);
	kill(getpid(), SIGURG);
	sigaction(SIGURG, NULL, &old);
	printf("caught=%d default=%d\n", n_caught, old.sa_handler == SIG_DFL);
}

static void urg_signal(void)
{
	printf("before: default=%d\n", signal(SIGURG, on_signal) == SIG_DFL);
	for (int i = 0; i < 50; i++) {
		kill(getpid(), SIGURG);
		burn(0.002);
	}
	printf("caught=%d same=%d\n", n_caught, signal(SIGURG, SIG_IGN) == on_signal);
	kill(getpid(), SIGURG);
	printf("caught=%d ignored=%d\n", n_caught, signal(SIGURG, SIG_DFL) == SIG_IGN);
}

// A handler without SA_RESTART ends a read, one with it does not; a signal that is ignored ends nothing.
static void urg_restart(void)
{
	for (int restarts = 0; restarts < 2; restarts++) {
		struct sigaction act = { .sa_handler = on_signal, .sa_flags = restarts ? SA_RESTART : 0 };
		sigaction(SIGURG, &act, NULL);
		int fds[2];
		char byte;
		if (pipe(fds) != 0)
			abort();
		burn(0.1);
		pid_t writer = 0;
		if (restarts && (writer = fork()) == 0) {
			usleep(300000);
			_exit(write(fds[1], "x", 1) != 1);
		}
		pid_t child = signal_from_child(SIGURG, 1, 0.1);
		ssize_t n = read(fds[0], &byte, 1);
		printf("restarts=%d read=%zd interrupted=%d\n", restarts, n, n < 0 && errno == EINTR);
		waitpid(child, NULL, 0);
		if (writer)
			waitpid(writer, NULL, 0);
	}
	signal(SIGURG, SIG_DFL);
	pid_t child = signal_from_child(SIGURG, 20, 0.05);
	int n = poll(NULL, 0, 400);
	printf("ignored: poll=%d\n", n);
	waitpid(child, NULL, 0);
}

// The same handlers as other signals have: what a program asks for is what it finds.
static void other_handlers(void)
{
	struct sigaction act = { .sa_handler = on_signal }, old;
	sigfillset(&act.sa_mask);
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGUSR1, NULL, &old);
	printf("same=%d mask=%d\n", old.sa_handler == on_signal, sigismember(&old.sa_mask, SIGURG));
	burn(0.05);
	raise(SIGUSR1);
	printf("signal: same=%d\n", signal(SIGUSR1, burn_in_handler) == on_signal);
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &old);
	printf("caught=%d same=%d restart=%d\n", n_caught, old.sa_handler == burn_in_handler,
	       !!(old.sa_flags & SA_RESTART));
	pid_t pid = vfork(); // borrows this process's memory: what it sets must not be seen here
	if (pid == 0) {
		struct sigaction dfl = { .sa_handler = SIG_DFL };
		sigaction(SIGUSR1, &dfl, NULL);
		sigaction(SIGURG, &dfl, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	raise(SIGUSR1);
	printf("caught=%d bad=%d\n", n_caught, sigaction(SIGKILL, &act, NULL));
}

static void trap_handler(void)
{
	struct sigaction act = { .sa_sigaction = on_signal_info, .sa_flags = SA_SIGINFO };
	sigaction(SIGTRAP, &act, NULL);
	for (int i = 0; i < 50; i++) {
		raise(SIGTRAP);
		burn(0.002);
	}
	printf("caught=%d code=%d\n", n_caught, last_code);
#if defined(__x86_64__)
	for (int i = 0; i < 50; i++) {
		__asm__ volatile("int3");
		burn(0.002);
	}
	printf("caught=%d code=%d\n", n_caught, last_code);
#endif
	signal(SIGTRAP, SIG_IGN);
	raise(SIGTRAP);
	printf("ignored\n");
}

static void trap_default(void)
{
	burn(0.1);
	printf("now\n");
	fflush(stdout);
	raise(SIGTRAP);
	printf("not reached\n");
}

static void read_signalfd(void)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	int fd = signalfd(-1, &all, SFD_NONBLOCK);
	struct signalfd_siginfo info;
	int n = 0;
	for (int i = 0; i < 20; i++) {
		burn(0.02);
		if (i == 10)
			raise(SIGUSR1);
		while (read(fd, &info, sizeof(info)) == sizeof(info)) {
			printf("signal %u\n", info.ssi_signo);
			n++;
		}
	}
	printf("n=%d\n", n);
}

static atomic_int n_taken; // signals, by wait_all

static void *wait_all(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	for (int i = 0; i < 3; i++) {
		int sig = 0;
		burn(0.05);
		int err = sigwait(&all, &sig);
		printf("sigwait err=%d signal=%d\n", err, sig);
		n_taken++;
	}
	return arg;
}

static void sigwait_all(void)
{
	sigset_t all;
	pthread_t thread;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	pthread_create(&thread, NULL, wait_all, NULL);
	for (int i = 0; i < 3; i++) {
		usleep(150000);
		kill(getpid(), i == 2 ? SIGURG : SIGUSR1);
		while (n_taken <= i) // two of a kind that wait to be taken are one
			usleep(1000);
	}
	pthread_join(thread, NULL);
}

static void *burn_blocked(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	burn(0.7);
	return arg;
}

static void blocked(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, burn_blocked, NULL);
	pthread_join(thread, NULL);
	printf("done\n");
}

#define PATTERN 0xa5

// A stack of whole pages with a guard page below it, so that it can be seen afterwards how far down it was written to.
struct marked_stack {
	uint8_t *base;
	size_t size;
};

static struct marked_stack marked_stack(size_t least)
{
	struct marked_stack s = { .size = (least + 4095) & ~(size_t)4095 };
	uint8_t *memory = mmap(NULL, s.size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(memory, 4096, PROT_NONE);
	s.base = memory + 4096;
	memset(s.base, PATTERN, s.size);
	return s;
}

static size_t used_of(const struct marked_stack *s)
{
	size_t untouched = 0;
	while (untouched < s->size && s->base[untouched] == PATTERN)
		untouched++;
	return s->size - untouched;
}

static struct marked_stack marked_alt_stack(size_t least)
{
	struct marked_stack s = marked_stack(least);
	stack_t stack = { .ss_sp = s.base, .ss_size = s.size };
	sigaltstack(&stack, NULL);
	return s;
}

static void *burn_thread(void *arg)
{
	burn(0.5);
	return arg;
}

static size_t small_stack(void)
{
	size_t size = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	struct marked_stack s = marked_stack(size < 16384 ? 16384 : size);
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, s.base, s.size);
	pthread_t thread;
	if (pthread_create(&thread, &attr, burn_thread, NULL) != 0)
		abort();
	pthread_join(thread, NULL);
	printf("done\n");
	return used_of(&s);
}

static size_t alt_stack(void)
{
	size_t size = 8192; // what SIGSTKSZ was for decades, and what programs still pass
	if (size < (size_t)sysconf(_SC_MINSIGSTKSZ) * 2)
		size = (size_t)sysconf(_SC_MINSIGSTKSZ) * 2;
	struct marked_stack s = marked_alt_stack(size);
	burn(0.3);
	size_t used = used_of(&s);
	printf("done\n");
	return used;
}

// The program's own handler on its alternate stack, and a tick on top of it. On one of the usual
// size, four frames of the kernel's, ticks wait for the handler's end.
static size_t alt_stack_nested(void)
{
	struct marked_stack s = marked_alt_stack(2 * (size_t)sysconf(_SC_SIGSTKSZ));
	struct sigaction act = { .sa_handler = burn_in_handler, .sa_flags = SA_ONSTACK };
	sigaction(SIGUSR1, &act, NULL);
	for (int i = 0; i < 3; i++)
		raise(SIGUSR1);
	printf("caught=%d\n", n_caught);
	return used_of(&s);
}

static void close_all(void)
{
	int n_open = 0;
	for (int fd = 3; fd < 4096; fd++)
		n_open += fcntl(fd, F_GETFD) >= 0;
	printf("open=%d\n", n_open);
	syscall(SYS_close_range, 3, ~0u, 0);
	burn(0.3);
	int fd = open("/dev/null", O_RDONLY);
	printf("first=%d\n", fd);
}

// path is a FIFO: whoever reads it decides how long the daemon lives.
static void daemonize(const char *path)
{
	int ends[2];
	char byte = 0;
	fflush(stdout);
	if (pipe(ends) != 0)
		abort();
	if (fork() != 0) {
		close(ends[1]);
		// Of a child that never had a CPU nobody could tell that it lives on.
		_exit(read(ends[0], &byte, 1) != 1);
	}
	setsid();
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (write(ends[1], &byte, 1) != 1)
		abort();
	alarm(300); // if nobody reads
	burn(0.1);
	FILE *f = fopen(path, "w");
	fprintf(f, "alive\n");
	fclose(f);
}

static const struct program {
	const char *name;
	void (*run)(void);
	size_t (*run_on_stack)(void); // tells how much of the stack was used
} programs[] = {
	{ "urg_sigaction", urg_sigaction, NULL },
	{ "urg_signal", urg_signal, NULL },
	{ "urg_restart", urg_restart, NULL },
	{ "other_handlers", other_handlers, NULL },
	{ "trap_handler", trap_handler, NULL },
	{ "trap_default", trap_default, NULL },
	{ "signalfd", read_signalfd, NULL },
	{ "sigwait_all", sigwait_all, NULL },
	{ "blocked", blocked, NULL },
	{ "small_stack", NULL, small_stack },
	{ "alt_stack", NULL, alt_stack },
	{ "alt_stack_nested", NULL, alt_stack_nested },
	{ "close_all", close_all, NULL },
};

// Differs from run to run, so it goes where a test can ask for it.
static void tell_stack_use(size_t used)
{
	if (!getenv("STACK_USE_FILE"))
		return;
	FILE *f = fopen(getenv("STACK_USE_FILE"), "w");
	fprintf(f, "%zu\n", used);
	fclose(f);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "daemon") && argc > 2) {
		daemonize(argv[2]);
		return 0;
	}
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		if (strcmp(what, programs[i].name))
			continue;
		size_t used = 0;
		if (programs[i].run)
			programs[i].run();
		else
			used = programs[i].run_on_stack();
		tell_stack_use(used);
		return 0;
	}
	return 2;
}
