// A program that does all at once what a signal could disturb, and counts every time it was: threads that fork, open
// and close libraries, throw, allocate; and threads that work for some microseconds and then wait in the kernel, where
// a signal that comes too late would end the wait. Usage: storm SECONDS PLUGIN. One line per kind of thread; ends with
// 1 when any was disturbed.
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int storm_throw(int depth); // storm_throw.cc: throws through so many frames and catches; returns depth

struct kind {
	const char *name;
	void (*once)(struct kind *k);
	_Atomic uint64_t n, n_early, n_eintr, n_wrong;
};

static uint64_t end_ns;
static const char *plugin_path;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
}

static __thread uint64_t seed;

static uint64_t next_random(void)
{
	if (!seed)
		seed = now_ns() * 0x9e3779b97f4a7c15u | 1;
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

// So short that most looks of a ticker fall close to the begin of the wait, so long that it sees the thread at all.
static void work(void)
{
	volatile uint64_t sum = 0;
	uint64_t end = now_ns() + 10000 + next_random() % 150000;
	while (now_ns() < end)
		sum += 1;
}

static uint64_t wait_of(void)
{
	return 1000000 + next_random() % 1000000;
}

// Judges a wait: failed is the call's own word, expected the errno of a plain end by time (0: the call returns
// success).
static void judge(struct kind *k, int failed, int expected, uint64_t began, uint64_t wanted)
{
	int err = failed ? errno : 0;
	if (err == EINTR)
		k->n_eintr++;
	else if (err != expected)
		k->n_wrong++;
	else if (now_ns() - began < wanted)
		k->n_early++;
}

static void do_poll(struct kind *k)
{
	uint64_t t = now_ns();
	int ret = poll(NULL, 0, 2);
	judge(k, ret < 0, 0, t, 2000000);
}

// Nothing blocked but SIGCHLD. A child that ends wakes some thread of the process even where the signal is ignored, and
// calls like epoll_pwait then fail with EINTR, with or without a profiler.
static sigset_t only_child(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return set;
}

static void do_ppoll(struct kind *k)
{
	uint64_t w = wait_of();
	struct timespec ts = timespec_of(w);
	sigset_t none = only_child();
	uint64_t t = now_ns();
	int ret = ppoll(NULL, 0, &ts, &none);
	judge(k, ret < 0, 0, t, w);
}

static int epoll_fd(void)
{
	static __thread int fd = -1;
	if (fd < 0)
		fd = epoll_create1(EPOLL_CLOEXEC);
	return fd;
}

static void do_epoll_wait(struct kind *k)
{
	struct epoll_event ev;
	int fd = epoll_fd();
	uint64_t t = now_ns();
	int ret = epoll_wait(fd, &ev, 1, 2);
	judge(k, ret < 0, 0, t, 2000000);
}

static void do_epoll_pwait(struct kind *k)
{
	struct epoll_event ev;
	sigset_t none = only_child();
	int fd = epoll_fd();
	uint64_t t = now_ns();
	int ret = epoll_pwait(fd, &ev, 1, 2, &none);
	judge(k, ret < 0, 0, t, 2000000);
}

static void do_nanosleep(struct kind *k)
{
	uint64_t w = wait_of();
	struct timespec ts = timespec_of(w);
	uint64_t t = now_ns();
	int ret = nanosleep(&ts, NULL);
	judge(k, ret != 0, 0, t, w);
}

static void do_usleep(struct kind *k)
{
	uint64_t t = now_ns();
	int ret = usleep(1500);
	judge(k, ret != 0, 0, t, 1500000);
}

static void do_clock_nanosleep(struct kind *k)
{
	uint64_t w = wait_of();
	struct timespec ts = timespec_of(w);
	uint64_t t = now_ns();
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	judge(k, errno != 0, 0, t, w);
	t = now_ns();
	ts = timespec_of(t + w);
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	judge(k, errno != 0, 0, t, w);
}

static void do_select(struct kind *k)
{
	struct timeval tv = { .tv_usec = 1500 };
	uint64_t t = now_ns();
	int ret = select(0, NULL, NULL, NULL, &tv);
	judge(k, ret < 0, 0, t, 1500000);
}

static void do_pselect(struct kind *k)
{
	uint64_t w = wait_of();
	struct timespec ts = timespec_of(w);
	sigset_t none = only_child();
	uint64_t t = now_ns();
	int ret = pselect(0, NULL, NULL, NULL, &ts, &none);
	judge(k, ret < 0, 0, t, w);
}

static void do_sem_timedwait(struct kind *k)
{
	sem_t sem;
	sem_init(&sem, 0, 0);
	uint64_t w = wait_of(), until = clock_ns(CLOCK_REALTIME) + w;
	struct timespec ts = timespec_of(until);
	int ret = sem_timedwait(&sem, &ts);
	int err = ret ? errno : 0;
	if (err == EINTR)
		k->n_eintr++;
	else if (err != ETIMEDOUT)
		k->n_wrong++;
	else if (clock_ns(CLOCK_REALTIME) < until)
		k->n_early++;
	sem_destroy(&sem);
}

// Spurious wake-ups are allowed by POSIX, but glibc has none of its own: each would be ours.
static void do_cond_timedwait(struct kind *k)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond;
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cond, &attr);
	uint64_t w = wait_of(), t = now_ns();
	struct timespec ts = timespec_of(t + w);
	pthread_mutex_lock(&mutex);
	errno = pthread_cond_timedwait(&cond, &mutex, &ts);
	judge(k, errno != 0, ETIMEDOUT, t, w);
	pthread_mutex_unlock(&mutex);
	pthread_cond_destroy(&cond);
}

static void do_sigtimedwait(struct kind *k)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1); // blocked in all threads
	uint64_t w = wait_of();
	struct timespec ts = timespec_of(w);
	uint64_t t = now_ns();
	int ret = sigtimedwait(&set, NULL, &ts);
	judge(k, ret < 0, EAGAIN, t, w);
}

// Waits for every signal: the profiler's must not show.
static void do_sigwait_all(struct kind *k)
{
	sigset_t set, old;
	sigfillset(&set);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	work();
	uint64_t w = wait_of();
	struct timespec ts = timespec_of(w);
	siginfo_t info;
	uint64_t t = now_ns();
	int ret = sigtimedwait(&set, &info, &ts);
	if (ret >= 0 && ret != SIGCHLD) {
		k->n_wrong++;
		fprintf(stderr, "storm: took signal %d, code %d, from %d\n", ret, info.si_code, info.si_pid);
	} else if (ret < 0)
		judge(k, 1, EAGAIN, t, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void do_semtimedop(struct kind *k)
{
	static __thread int id = -1;
	if (id < 0) {
		id = semget(IPC_PRIVATE, 1, 0600);
		if (id < 0)
			return;
	}
	struct sembuf op = { .sem_op = -1 };
	uint64_t w = wait_of();
	struct timespec ts = timespec_of(w);
	uint64_t t = now_ns();
	int ret = semtimedop(id, &op, 1, &ts);
	judge(k, ret < 0, EAGAIN, t, w);
	if (now_ns() + 5000000 > end_ns) {
		semctl(id, 0, IPC_RMID);
		id = -1;
	}
}

static void do_recv(struct kind *k)
{
	static __thread int pair[2] = { -1, -1 };
	if (pair[0] < 0) {
		struct timeval tv = { .tv_usec = 8000 };
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
			abort();
		setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	}
	char byte;
	uint64_t t = now_ns();
	ssize_t ret = recv(pair[0], &byte, 1, 0);
	// The kernel counts this time in ticks of its own (4 ms at 250 Hz), and may be one short: seen without a
	// profiler, too.
	judge(k, ret < 0, EAGAIN, t, 4000000);
}

#define BULK (1 << 20)

// The reader of a pipe or socket, which lets the writer run and wait by turns.
static void *slow_reader(void *arg)
{
	int fd = *(int *)arg;
	char *buf = malloc(20000);
	while (read(fd, buf, 4096 + next_random() % 12000) > 0) {
		if (next_random() % 4 == 0) {
			struct timespec ts = { .tv_nsec = 100000 };
			nanosleep(&ts, NULL);
		}
	}
	free(buf);
	return NULL;
}

static void write_bulk(struct kind *k, const int *fds)
{
	static char bulk[BULK];
	ssize_t n = write(fds[1], bulk, BULK);
	if (n < 0 && errno == EINTR)
		k->n_eintr++;
	else if (n < 0)
		k->n_wrong++;
	else if (n != BULK)
		k->n_early++;
}

static void do_pipe_write(struct kind *k)
{
	static __thread int fds[2] = { -1, -1 };
	pthread_t reader;
	if (fds[0] < 0) {
		if (pipe(fds) != 0 || pthread_create(&reader, NULL, slow_reader, &fds[0]) != 0)
			abort();
		pthread_detach(reader);
	}
	write_bulk(k, fds);
}

static void do_socket_write(struct kind *k)
{
	static __thread int fds[2] = { -1, -1 };
	pthread_t reader;
	if (fds[0] < 0) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0 ||
		    pthread_create(&reader, NULL, slow_reader, &fds[0]) != 0)
			abort();
		pthread_detach(reader);
	}
	write_bulk(k, fds);
}

// A program's own signal ends a wait: that end must reach the program also when ours comes in the same moment.
static __thread volatile sig_atomic_t n_woken;

static void on_usr2(int sig)
{
	(void)sig;
	n_woken++;
	work(); // all signals are blocked here: a tick has to wait, and meets the interrupted call right after
}

static void do_own_signal(struct kind *k)
{
	static __thread timer_t timer;
	static __thread bool has_timer;
	if (!has_timer) {
		struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };
		ev._sigev_un._tid = (pid_t)syscall(SYS_gettid);
		if (timer_create(CLOCK_MONOTONIC, &ev, &timer) != 0)
			abort();
		has_timer = true;
	}
	struct itimerspec soon = { .it_value = timespec_of(wait_of()) };
	struct timespec limit = { .tv_sec = 1 };
	sigset_t usr2, old;
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &usr2,
			&old); // so that it can only come in ppoll, however late this thread gets there
	sigset_t open = old;
	sigdelset(&open, SIGUSR2);
	n_woken = 0;
	timer_settime(timer, 0, &soon, NULL);
	int ret = ppoll(NULL, 0, &limit, &open);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (n_woken != 1 || ret == 0)
		k->n_wrong++; // slept on although the signal came
}

static void do_fork(struct kind *k)
{
	pid_t pid = fork();
	if (pid == 0) {
		work();
		_exit(7);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		if (errno == EINTR)
			k->n_eintr++;
		else
			k->n_wrong++;
	} else if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
		k->n_wrong++;
	}
}

static void do_dlopen(struct kind *k)
{
	void *lib = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	int (*answer)(int) = lib ? (int (*)(int))dlsym(lib, "storm_plugin_sum") : NULL;
	if (!answer || answer(2000) != 1999000)
		k->n_wrong++;
	if (lib)
		dlclose(lib);
}

static void do_throw(struct kind *k)
{
	for (int i = 0; i < 20; i++)
		if (storm_throw(i) != i)
			k->n_wrong++;
}

static void do_malloc(struct kind *k)
{
	enum { N = 200 };
	uint8_t *blocks[N];
	size_t sizes[N];
	for (int i = 0; i < N; i++) {
		sizes[i] = 16 + next_random() % (i % 20 ? 4000 : 300000);
		blocks[i] = malloc(sizes[i]);
		memset(blocks[i], i, sizes[i]);
	}
	for (int i = 0; i < N; i++) {
		if (blocks[i][0] != i || blocks[i][sizes[i] - 1] != i)
			k->n_wrong++;
		free(blocks[i]);
	}
}

static void *do_nothing(void *arg)
{
	work();
	return arg;
}

static void do_threads(struct kind *k)
{
	pthread_t thread;
	void *ret = NULL;
	if (pthread_create(&thread, NULL, do_nothing, k) != 0 || pthread_join(thread, &ret) != 0 || ret != k)
		k->n_wrong++;
}

// Nobody here calls a function that may fail: errno stays what it was, whatever interrupts.
static void do_errno(struct kind *k)
{
	errno = 4711;
	for (volatile int i = 0; i < 200000; i++)
		if (errno != 4711) {
			k->n_wrong++;
			errno = 4711;
		}
}

static struct kind kinds[] = {
	{ .name = "poll", .once = do_poll },
	{ .name = "ppoll", .once = do_ppoll },
	{ .name = "epoll_wait", .once = do_epoll_wait },
	{ .name = "epoll_pwait", .once = do_epoll_pwait },
	{ .name = "nanosleep", .once = do_nanosleep },
	{ .name = "usleep", .once = do_usleep },
	{ .name = "clock_nanosleep", .once = do_clock_nanosleep },
	{ .name = "select", .once = do_select },
	{ .name = "pselect", .once = do_pselect },
	{ .name = "sem_timedwait", .once = do_sem_timedwait },
	{ .name = "cond_timedwait", .once = do_cond_timedwait },
	{ .name = "sigtimedwait", .once = do_sigtimedwait },
	{ .name = "sigwait_all", .once = do_sigwait_all },
	{ .name = "semtimedop", .once = do_semtimedop },
	{ .name = "recv", .once = do_recv },
	{ .name = "pipe_write", .once = do_pipe_write },
	{ .name = "socket_write", .once = do_socket_write },
	{ .name = "own_signal", .once = do_own_signal },
	{ .name = "fork", .once = do_fork },
	{ .name = "dlopen", .once = do_dlopen },
	{ .name = "throw", .once = do_throw },
	{ .name = "malloc", .once = do_malloc },
	{ .name = "threads", .once = do_threads },
	{ .name = "errno", .once = do_errno },
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void *run(void *arg)
{
	struct kind *k = arg;
	while (now_ns() < end_ns) {
		work();
		k->once(k);
		k->n++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: storm SECONDS PLUGIN [KIND...]\n");
		return 2;
	}
	plugin_path = argv[2];
	end_ns = now_ns() + (uint64_t)(atof(argv[1]) * 1e9);
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGCHLD); // see only_child()
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	struct sigaction act = { .sa_handler = on_usr2 };
	sigfillset(&act.sa_mask);
	sigaction(SIGUSR2, &act, NULL);
	pthread_t threads[N_KINDS];
	bool is_wanted[N_KINDS];
	for (size_t i = 0; i < N_KINDS; i++) {
		is_wanted[i] = argc == 3;
		for (int j = 3; j < argc; j++)
			is_wanted[i] |= !strcmp(argv[j], kinds[i].name);
		if (is_wanted[i] && pthread_create(&threads[i], NULL, run, &kinds[i]) != 0)
			return 2;
	}
	bool was_disturbed = false;
	for (size_t i = 0; i < N_KINDS; i++) {
		struct kind *k = &kinds[i];
		if (!is_wanted[i])
			continue;
		pthread_join(threads[i], NULL);
		printf("%s n=%lu early=%lu eintr=%lu wrong=%lu\n", k->name, k->n, k->n_early, k->n_eintr, k->n_wrong);
		was_disturbed |= k->n_early || k->n_eintr || k->n_wrong || !k->n;
	}
	return was_disturbed;
}
