/* System calls that a signal may cut short or end, and that nothing cuts short or ends here: each does all of it. Only
 * the alarm, the time limit and the reset of the last cases end a call, and nobody finishes that one.
 *
 * chaos: case random random
 * chaos: case devices devices
 * chaos: case waitall waitall
 * chaos: case writev writev
 * chaos: case sendmsg sendmsg
 * chaos: case sendfile sendfile
 * chaos: case bare bare
 * chaos: case readv readv
 * chaos: case connect connect
 * chaos: case recvmsg recvmsg
 * chaos: case zeros zeros
 * chaos: case copies copies
 * chaos: case sendmmsg sendmmsg
 * chaos: case recvmmsg recvmmsg
 * chaos: case uring uring
 * chaos: case alarm alarm
 * chaos: case limit limit
 * chaos: case reset reset
 * chaos: case hangup hangup
 * chaos: case records records
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MIB (1l << 20)

static unsigned char block[8 * MIB], copy[MIB];
static int ends[2];
static long n_rounds;

static void work(long us)
{
	struct timespec from, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < us);
}

static long get_random(void)
{
	long n_short = 0;
	for (long i = 0; i < n_rounds / 4 + 1; i++)
		n_short += getrandom(block, 2 * MIB, 0) != 2 * MIB;
	return n_short;
}

static long read_devices(void)
{
	static const char *const names[] = { "/dev/zero", "/dev/full", "/dev/urandom" };
	long n_short = 0;
	for (int i = 0; i < 3; i++) {
		int fd = open(names[i], O_RDONLY);
		for (long k = 0; k < n_rounds / 8 + 1; k++) {
			memset(block, 1, sizeof(block));
			n_short += read(fd, block, sizeof(block)) != (long)sizeof(block);
			for (size_t at = 0; i < 2 && at < sizeof(block); at++)
				n_short += block[at] != 0;
		}
		close(fd);
	}
	return n_short;
}

// What comes out must be what went in, in this order.
static unsigned char byte_at(long at)
{
	return (unsigned char)(at * 7 + at / 4093);
}

static void fill(void)
{
	for (long i = 0; i < MIB; i++)
		block[i] = byte_at(i);
}

static void *feed(void *arg)
{
	for (long i = 0; i < n_rounds; i++)
		for (long at = 0; at < MIB; at += 4096)
			if (write(ends[1], block + at, 4096) != 4096)
				return NULL;
	return arg;
}

static void *drain(void *arg)
{
	static unsigned char got[65536];
	long *n_wrong = arg, n, at = 0;
	while ((n = read(ends[0], got, sizeof(got))) > 0)
		for (long i = 0; i < n; i++, at++)
			*n_wrong += got[i] != byte_at(at % MIB);
	*n_wrong += at != n_rounds * MIB;
	return NULL;
}

static long receive_all(void)
{
	pthread_t feeder;
	long n_wrong = 0;
	fill();
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	pthread_create(&feeder, NULL, feed, NULL);
	for (long i = 0; i < n_rounds; i++) {
		if (recv(ends[0], copy, MIB, MSG_WAITALL) != MIB) {
			printf("a part of it\n");
			exit(1);
		}
		n_wrong += memcmp(copy, block, MIB) != 0;
	}
	pthread_join(feeder, NULL);
	return n_wrong;
}

static long send_pieces(const char *how, int is_pipe)
{
	pthread_t reader;
	long n_wrong = 0;
	fill();
	if (is_pipe ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return -1;
	int file = memfd_create("cut_short", 0);
	long n_written = write(file, block, MIB);
	pthread_create(&reader, NULL, drain, &n_wrong);
	for (long i = 0; i < n_rounds; i++) {
		struct iovec pieces[] = { { block, 100000 },
					  { block, 0 },
					  { block + 100000, 3 },
					  { block + 100003, 500000 },
					  { block + 600003, MIB - 600003 },
					  { block, 0 } };
		struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 6 };
		off_t at = 0;
		long n = !strcmp(how, "writev")    ? writev(ends[1], pieces, 6)
			 : !strcmp(how, "sendmsg") ? sendmsg(ends[1], &message, 0)
						   : sendfile(ends[1], file, &at, (size_t)n_written);
		n_wrong += n != MIB;
	}
	close(ends[1]);
	pthread_join(reader, NULL);
	close(ends[0]);
	close(file);
	return n_wrong;
}

// By numbers, as those do who have no function for a call.
static long call_by_number(void)
{
	long n_ended = 0;
	int word = 0;
	for (long i = 0; i < n_rounds * 20; i++) {
		struct timespec nap = { .tv_nsec = 20000 };
		work(30);
		n_ended += syscall(SYS_futex, &word, FUTEX_WAIT, 0, &nap, NULL, 0) != -1 || errno != ETIMEDOUT;
		nap.tv_nsec = 20000;
		work(30);
		n_ended += syscall(SYS_ppoll, NULL, 0, &nap, NULL, 8) != 0;
	}
	n_ended += syscall(SYS_close, -1) != -1 || errno != EBADF;
	return n_ended;
}

static long read_pieces(void)
{
	long n_ended = 0;
	char byte;
	struct iovec piece = { &byte, 1 };
	struct timeval timeout = { .tv_usec = 1000 };
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	for (long i = 0; i < n_rounds * 4; i++) {
		work(100);
		n_ended += readv(ends[0], &piece, 1) != -1 || errno != EAGAIN;
	}
	return n_ended;
}

// To those who have no room for more: after a while, and with what it would have been without us.
static long connect_to(struct sockaddr *name, socklen_t bound, socklen_t len, int expected)
{
	long n_ended = 0;
	int listener = socket(name->sa_family, SOCK_STREAM, 0), full[8];
	bind(listener, name, bound);
	getsockname(listener, name, &len);
	listen(listener, 0);
	for (int i = 0; i < 8; i++) {
		full[i] = socket(name->sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(full[i], name, len);
	}
	for (long i = 0; i < n_rounds * 2; i++) {
		struct timeval timeout = { .tv_usec = 1000 };
		int fd = socket(name->sa_family, SOCK_STREAM, 0);
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
		work(100);
		n_ended += connect(fd, name, len) != -1 || errno != expected;
		close(fd);
	}
	for (int i = 0; i < 8; i++)
		close(full[i]);
	close(listener);
	return n_ended;
}

static long connect_all(void)
{
	struct sockaddr_in inet = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un local = { .sun_family = AF_UNIX }; // the kernel gives it a name
	return connect_to((struct sockaddr *)&inet, sizeof(inet), sizeof(inet), EINPROGRESS) +
	       connect_to((struct sockaddr *)&local, sizeof(sa_family_t), sizeof(local), EAGAIN);
}

static long receive_messages_whole(void)
{
	pthread_t feeder;
	long n_wrong = 0;
	fill();
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	pthread_create(&feeder, NULL, feed, NULL);
	for (long i = 0; i < n_rounds; i++) {
		struct iovec pieces[] = {
			{ copy, 100000 }, { copy, 0 }, { copy + 100000, 3 }, { copy + 100003, MIB - 100003 }
		};
		struct msghdr message = { .msg_iov = pieces, .msg_iovlen = 4 };
		if (recvmsg(ends[0], &message, MSG_WAITALL) != MIB) {
			printf("a part of it\n");
			exit(1);
		}
		n_wrong += memcmp(copy, block, MIB) != 0;
	}
	pthread_join(feeder, NULL);
	return n_wrong;
}

static long read_zeros(void)
{
	int fd = open("/dev/zero", O_RDONLY);
	long n_short = 0;
	for (long i = 0; i < n_rounds / 2 + 1; i++) {
		struct iovec pieces[] = { { block, 3 * MIB }, { block, 0 }, { block + 3 * MIB, 5 * MIB } };
		memset(block, 1, sizeof(block));
		long n = i % 3 == 0   ? readv(fd, pieces, 3)
			 : i % 3 == 1 ? preadv(fd, pieces, 3, 1000)
				      : pread(fd, block, sizeof(block), 1000);
		n_short += n != (long)sizeof(block);
		for (size_t at = 0; at < sizeof(block); at++)
			n_short += block[at] != 0;
	}
	close(fd);
	return n_short;
}

// From file to file, all that there is, and more than there is.
static long copy_files(void)
{
	const long size = 8 * MIB;
	long n_wrong = 0;
	static unsigned char back[8 * MIB];
	for (long i = 0; i < size; i++)
		block[i] = byte_at(i);
	char names[2][32] = { "cut_short_XXXXXX", "cut_short_XXXXXX" };
	int from = mkstemp(names[0]), to = mkstemp(names[1]);
	unlink(names[0]);
	unlink(names[1]);
	n_wrong += write(from, block, (size_t)size) != size;
	for (long i = 0; i < n_rounds / 4 + 1; i++) {
		off_t at = 0, to_at = 0;
		long asked = i % 4 < 2 ? size : size + MIB;
		n_wrong += ftruncate(to, 0) != 0 || lseek(to, 0, SEEK_SET) != 0;
		long n = i % 2 ? copy_file_range(from, &at, to, &to_at, (size_t)asked, 0)
			       : sendfile(to, from, &at, (size_t)asked);
		n_wrong += n != size || at != size;
		n_wrong += pread(to, back, (size_t)size, 0) != size || memcmp(back, block, (size_t)size) != 0;
	}
	close(from);
	close(to);
	return n_wrong;
}

#define N_MESSAGES 64

static void *take_messages(void *arg)
{
	long *n_wrong = arg;
	int number;
	for (long i = 0; i < n_rounds * N_MESSAGES; i++) {
		*n_wrong += recv(ends[0], &number, sizeof(number), 0) != sizeof(number) || number != i;
		work(5);
	}
	return NULL;
}

static void *give_messages(void *arg)
{
	for (int i = 0; i < n_rounds * N_MESSAGES; i++) {
		if (send(ends[1], &i, sizeof(i), 0) != sizeof(i))
			return NULL;
		work(5);
	}
	return arg;
}

static long pass_messages(int is_sender)
{
	pthread_t other;
	long n_wrong = 0;
	static int numbers[N_MESSAGES];
	static struct iovec pieces[N_MESSAGES];
	static struct mmsghdr messages[N_MESSAGES];
	socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
	pthread_create(&other, NULL, is_sender ? take_messages : give_messages, &n_wrong);
	for (long i = 0; i < n_rounds; i++) {
		for (int k = 0; k < N_MESSAGES; k++) {
			numbers[k] = is_sender ? (int)i * N_MESSAGES + k : -1;
			pieces[k] = (struct iovec){ &numbers[k], sizeof(numbers[k]) };
			messages[k] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &pieces[k], .msg_iovlen = 1 } };
		}
		work(10);
		int n = is_sender ? sendmmsg(ends[1], messages, N_MESSAGES, 0)
				  : recvmmsg(ends[0], messages, N_MESSAGES, 0, NULL);
		if (n != N_MESSAGES) {
			printf("%d of them\n", n);
			exit(1);
		}
		for (int k = 0; k < N_MESSAGES; k++)
			n_wrong += numbers[k] != i * N_MESSAGES + k || messages[k].msg_len != sizeof(int);
	}
	pthread_join(other, NULL);
	return n_wrong;
}

// Nothing is asked of the ring, so that each wait ends with its time.
static long wait_for_ring(void)
{
#if defined(SYS_io_uring_setup) && defined(SYS_io_uring_enter)
	long n_ended = 0;
	uint64_t parameters[15] = { 0 }; // struct io_uring_params
	int fd = (int)syscall(SYS_io_uring_setup, 8, parameters);
	if (fd < 0)
		exit(77);
	for (long i = 0; i < n_rounds * 4; i++) {
		struct timespec timeout = { .tv_nsec = 1000000 };
		uint64_t arg[3] = { 0, 0, (uintptr_t)&timeout }; // struct io_uring_getevents_arg
		work(100);
		long n = syscall(SYS_io_uring_enter, fd, 0, 1, 1 | 8 /* GETEVENTS, EXT_ARG */, arg, sizeof(arg));
		n_ended += n != -1 || errno != ETIME;
	}
	close(fd);
	return n_ended;
#else
	exit(77);
#endif
}

static void on_alarm(int sig)
{
	(void)sig;
}

static void *read_some(void *arg)
{
	for (long i = 0; i < 2000; i++) {
		if (read(ends[0], copy, 4096) <= 0)
			break;
		if (i % 20 == 0)
			usleep(50);
	}
	return arg;
}

static long end_by_alarm(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	sigset_t set;
	long n_wrong = 0;
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	for (long i = 0; i < n_rounds / 50 + 1; i++) {
		struct itimerval alarm = { .it_value.tv_sec = 1 };
		pthread_t reader;
		if (pipe(ends) != 0)
			return -1;
		pthread_sigmask(SIG_BLOCK, &set, NULL);
		pthread_create(&reader, NULL, read_some, NULL);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		setitimer(ITIMER_REAL, &alarm, NULL);
		// More than the reader takes and the pipe holds.
		long n = write(ends[1], block, sizeof(block));
		n_wrong += n <= 0 || n >= (long)sizeof(block);
		setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
		close(ends[1]); // on a crowded machine the alarm comes before the reader has had enough
		pthread_join(reader, NULL);
		close(ends[0]);
	}
	return n_wrong;
}

// A connection over the loopback interface whose other end a thread reads.
static int connected(void)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&name, len) || getsockname(listener, (struct sockaddr *)&name, &len) ||
	    listen(listener, 1) || connect(fd, (struct sockaddr *)&name, len))
		exit(77);
	ends[0] = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static volatile int is_over;

static void *read_slowly(void *arg)
{
	while (!is_over && read(ends[0], copy, 8192) > 0)
		usleep(4000);
	return arg;
}

// 0.2 s for a send that would take 4 s and more.
static long end_by_limit(void)
{
	struct timeval limit = { .tv_usec = 200000 };
	long n_wrong = 0;
	for (long i = 0; i < n_rounds / 20 + 1; i++) {
		pthread_t reader;
		int fd = connected();
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		is_over = 0;
		pthread_create(&reader, NULL, read_slowly, NULL);
		double before_s = now_s();
		long n = 0;
		for (int k = 0; k < 3; k++) // the first ones are mostly copied, in which ticks come
			n += send(fd, block, sizeof(block), 0);
		n_wrong += n <= 0 || n >= 3 * (long)sizeof(block) || now_s() - before_s > 2.5;
		is_over = 1;
		close(fd);
		pthread_join(reader, NULL);
		close(ends[0]);
	}
	return n_wrong;
}

// Reads some, and then leaves with all that is not read: by a reset, or of a unix socket.
static void *leave(void *arg)
{
	struct linger at_once = { .l_onoff = 1 };
	for (int i = 0; i < 300; i++) {
		if (read(ends[0], copy, 8192) <= 0)
			break;
		if (i % 10 == 0)
			usleep(300);
	}
	setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(ends[0]);
	return arg;
}

static volatile sig_atomic_t n_broken;

static void on_pipe(int sig)
{
	(void)sig;
	n_broken++;
}

// The send that it meets gives what it has sent; the next one tells what became of the other end, and
// SIGPIPE comes with the one that nobody can take.
static long end_by_leaving(int is_reset)
{
	long n_wrong = 0;
	signal(SIGPIPE, on_pipe);
	for (long i = 0; i < n_rounds / 2 + 1; i++) {
		pthread_t other;
		int fd = is_reset ? connected() : socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ? -1 : ends[1];
		n_broken = 0;
		pthread_create(&other, NULL, leave, NULL);
		long n = i % 2 ? write(fd, block, sizeof(block)) : send(fd, block, sizeof(block), 0);
		n_wrong += n <= 0 || n >= (long)sizeof(block) || n_broken;
		if (is_reset)
			n_wrong += send(fd, block, 10, 0) != -1 || errno != ECONNRESET || n_broken;
		n_wrong += send(fd, block, 10, 0) != -1 || errno != EPIPE || n_broken != 1;
		pthread_join(other, NULL);
		close(fd);
	}
	return n_wrong;
}

// Each read gives one record of the kernel's log, and the last one nothing.
static long read_records(void)
{
	long n_wrong = 0, n;
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		exit(77);
	for (long i = 0; i < n_rounds * 4 && n_wrong == 0; i++) {
		lseek(fd, 0, SEEK_SET);
		while ((n = read(fd, copy, 65536)) > 0) {
			long n_lines = 0;
			for (long at = 0; at < n; at++)
				n_lines += copy[at] == '\n' && at + 1 < n && copy[at + 1] != ' ';
			n_wrong += n_lines != 0;
		}
	}
	close(fd);
	return n_wrong;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "random";
	n_rounds = (long)(atof(argc > 1 ? argv[1] : "1") * 100) + 1;
	long n = !strcmp(what, "random")     ? get_random()
		 : !strcmp(what, "devices")  ? read_devices()
		 : !strcmp(what, "waitall")  ? receive_all()
		 : !strcmp(what, "writev")   ? send_pieces(what, 1) + send_pieces(what, 0)
		 : !strcmp(what, "sendmsg")  ? send_pieces(what, 0)
		 : !strcmp(what, "sendfile") ? send_pieces(what, 0)
		 : !strcmp(what, "bare")     ? call_by_number()
		 : !strcmp(what, "readv")    ? read_pieces()
		 : !strcmp(what, "connect")  ? connect_all()
		 : !strcmp(what, "recvmsg")  ? receive_messages_whole()
		 : !strcmp(what, "zeros")    ? read_zeros()
		 : !strcmp(what, "copies")   ? copy_files()
		 : !strcmp(what, "sendmmsg") ? pass_messages(1)
		 : !strcmp(what, "recvmmsg") ? pass_messages(0)
		 : !strcmp(what, "uring")    ? wait_for_ring()
		 : !strcmp(what, "limit")    ? end_by_limit()
		 : !strcmp(what, "reset")    ? end_by_leaving(1)
		 : !strcmp(what, "hangup")   ? end_by_leaving(0)
		 : !strcmp(what, "records")  ? read_records()
					     : end_by_alarm();
	printf("%s: %ld\n", what, n);
	return 0;
}
