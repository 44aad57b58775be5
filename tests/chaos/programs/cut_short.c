/* System calls that a signal may cut short or end, and that nothing cuts short or ends here: each does all of it. Only
 * the alarm of the last case ends a write, and nobody finishes that one.
 *
 * chaos: case random random
 * chaos: case devices devices
 * chaos: case waitall waitall
 * chaos: case writev writev
 * chaos: case sendmsg sendmsg
 * chaos: case sendfile sendfile
 * chaos: case bare bare
 * chaos: case readv readv
 * chaos: case alarm alarm
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
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
		pthread_join(reader, NULL);
		close(ends[0]);
		close(ends[1]);
	}
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
					     : end_by_alarm();
	printf("%s: %ld\n", what, n);
	return 0;
}
