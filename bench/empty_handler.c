// The floor under any sampler that stops a thread by a signal: the same deliveries, with a handler that does nothing but
// count its calls. What this costs, no sampler of this kind can save; the bench holds fathom's cost against it.
//
// One file, two artefacts:
//   cc -O2 -DEMPTY_LIBRARY -shared -fPIC -o libempty.so empty_handler.c     preloaded into the target: installs the handler
//   cc -O2 -o empty_handler empty_handler.c                                 starts the target and, for "ticker", signals it
// Usage: empty_handler ticker|perf RATE_HZ LIBRARY RESULT_FILE PROG [args...]
//
// The result file gets one line from each side: "sent N" from the ticker, "hits N" from the library when the target exits,
// or "failed REASON" when the machine refuses the engine. A floor whose signals never arrived must not pass for a cheap one.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void result_line(const char *path, const char *key, const char *text, unsigned long n)
{
	char line[256];
	int len = text ? snprintf(line, sizeof(line), "%s %s\n", key, text)
		       : snprintf(line, sizeof(line), "%s %lu\n", key, n);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	if (write(fd, line, (size_t)len) != len)
		fprintf(stderr, "empty_handler: cannot write %s: %s\n", path, strerror(errno));
	close(fd);
}

#ifdef EMPTY_LIBRARY

#include <linux/perf_event.h>

static unsigned long
	n_hits; // plain: two threads may lose a count between them, and an atomic would not be an empty handler
static char result_path[4096];
static pid_t owner_pid;

static void on_sample(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	n_hits++;
}

static const char *install(int sig)
{
	struct sigaction sa = { .sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };

	sigemptyset(&sa.sa_mask);
	return sigaction(sig, &sa, NULL) ? strerror(errno) : NULL;
}

static const char *open_perf(unsigned long rate_hz)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_period = 1000000000ul / rate_hz,
		.exclude_kernel = 1, // an unprivileged process may not sample the kernel
		.exclude_hv = 1,
		.inherit = 1, // with inherit_thread: this one descriptor serves every thread made later
		.inherit_thread = 1,
		.remove_on_exec = 1, // the kernel asks for it with sigtrap: the next program has no handler
		.sigtrap = 1,
	};

	// Never closed: the event lives as long as the descriptor does.
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0 ? strerror(errno) : NULL;
}

__attribute__((constructor)) static void start(void)
{
	const char *engine = getenv("EMPTY_HANDLER_ENGINE");
	const char *rate = getenv("EMPTY_HANDLER_RATE");
	const char *result = getenv("EMPTY_HANDLER_RESULT");
	const char *failure;

	if (!engine || !rate || !result || strlen(result) >= sizeof(result_path))
		return;
	strcpy(result_path, result);
	owner_pid = getpid();
	int is_perf = !strcmp(engine, "perf");

	failure = install(is_perf ? SIGTRAP : SIGURG);
	if (!failure && is_perf)
		failure = open_perf(strtoul(rate, NULL, 10));
	if (failure)
		result_line(result_path, "failed", failure, 0);
	unsetenv("LD_PRELOAD"); // the floor is for one process; its children run bare
	unsetenv("EMPTY_HANDLER_ENGINE");
}

__attribute__((destructor)) static void stop(void)
{
	if (owner_pid == getpid())
		result_line(result_path, "hits", NULL, n_hits);
}

#else

// 1024 threads are far more than any workload here has; one open file each.
#define MAX_THREADS 1024
// New and gone threads are looked up this often, not on every tick: reading a directory of 160 entries costs more than a tick.
#define RESCAN_NS 50000000ull

#include <dirent.h>

struct watched {
	pid_t tid;
	int fd; // /proc/PID/task/TID/syscall, or -1: this slot is free
	int is_seen;
};

static struct watched watched[MAX_THREADS];
static int n_watched;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t next_random(uint64_t *state) // xorshift64
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void watch_add(pid_t pid, pid_t tid)
{
	char path[64];

	if (n_watched == MAX_THREADS)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		watched[n_watched++] = (struct watched){ .tid = tid, .fd = fd, .is_seen = 1 };
}

static void rescan(pid_t pid)
{
	char path[64];
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return;
	for (int i = 0; i < n_watched; i++)
		watched[i].is_seen = 0;
	while ((entry = readdir(dir))) {
		pid_t tid = atoi(entry->d_name);
		int i = 0;

		if (tid <= 0)
			continue;
		while (i < n_watched && watched[i].tid != tid)
			i++;
		if (i < n_watched)
			watched[i].is_seen = 1;
		else
			watch_add(pid, tid);
	}
	closedir(dir);
	for (int i = 0; i < n_watched;) {
		if (watched[i].is_seen) {
			i++;
			continue;
		}
		close(watched[i].fd);
		watched[i] = watched[--n_watched];
	}
}

// "running" means in user code or in the kernel but not asleep: only such a thread is signalled, so nothing that waits
// is ever woken.
static unsigned long tick(pid_t pid)
{
	unsigned long n_sent = 0;
	char text[16];

	for (int i = 0; i < n_watched; i++)
		if (pread(watched[i].fd, text, sizeof(text), 0) >= 7 && !memcmp(text, "running", 7))
			n_sent += syscall(SYS_tgkill, pid, watched[i].tid, SIGURG) == 0;
	return n_sent;
}

static unsigned long run_ticker(pid_t pid, unsigned long rate_hz, int *ret_status)
{
	uint64_t interval_ns = 1000000000ull / rate_hz, random = (uint64_t)pid * 2654435761u + 1;
	uint64_t due_ns = now_ns(), rescan_ns = 0;
	unsigned long n_sent = 0;

	while (waitpid(pid, ret_status, WNOHANG) == 0) {
		// Uniform in [0.5, 1.5) intervals: the mean is kept, and no program can keep step with it.
		due_ns += interval_ns / 2 + next_random(&random) % interval_ns;
		uint64_t now = now_ns();
		if (now > due_ns + 20 * interval_ns)
			due_ns = now; // long descheduled: go on from here instead of firing a burst
		if (now >= rescan_ns) {
			rescan(pid);
			rescan_ns = now + RESCAN_NS;
		}
		struct timespec ts = { .tv_sec = (time_t)(due_ns / 1000000000u),
				       .tv_nsec = (long)(due_ns % 1000000000u) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		n_sent += tick(pid);
	}
	return n_sent;
}

int main(int argc, char **argv)
{
	unsigned long rate_hz = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	if (argc < 6 || (strcmp(argv[1], "ticker") && strcmp(argv[1], "perf")) || rate_hz == 0 || rate_hz > 100000) {
		fprintf(stderr, "usage: empty_handler ticker|perf RATE_HZ LIBRARY RESULT_FILE PROG [args...]\n");
		return 2;
	}
	pid_t pid = fork();
	if (pid < 0) {
		fprintf(stderr, "empty_handler: fork: %s\n", strerror(errno));
		return 1;
	}
	if (pid == 0) {
		setenv("LD_PRELOAD", argv[3], 1);
		setenv("EMPTY_HANDLER_ENGINE", argv[1], 1);
		setenv("EMPTY_HANDLER_RATE", argv[2], 1);
		setenv("EMPTY_HANDLER_RESULT", argv[4], 1);
		execvp(argv[5], argv + 5);
		fprintf(stderr, "empty_handler: cannot run %s: %s\n", argv[5], strerror(errno));
		_exit(127);
	}

	int status = 0;
	if (!strcmp(argv[1], "ticker"))
		result_line(argv[4], "sent", NULL, run_ticker(pid, rate_hz, &status));
	else
		waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
