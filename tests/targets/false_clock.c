// A library to preload, which tells false times, under a lock, as libfaketime does; also to those
// who ask by syscall().
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t random_state = 88172645463325252u;

#include <errno.h>
#include <stdarg.h>

static long ask_kernel(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return nr;
}

static void lie(struct timespec *ret)
{
	pthread_mutex_lock(&lock);
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	uint64_t draw = random_state;
	for (volatile int i = 0; i < 50; i++) // so that signals come in here
		;
	pthread_mutex_unlock(&lock);
	ret->tv_sec = (time_t)(draw >> 34);
	ret->tv_nsec = (long)(draw % 1000000000u);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (clock == CLOCK_PROCESS_CPUTIME_ID)
		return (int)ask_kernel(SYS_clock_gettime, clock, (long)ret, 0, 0, 0, 0);
	lie(ret);
	return 0;
}

long syscall(long nr, ...)
{
	long args[6];
	va_list list;
	va_start(list, nr);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	if (nr == SYS_clock_gettime) {
		lie((struct timespec *)args[1]);
		return 0;
	}
	long ret = ask_kernel(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
	if (ret < 0 && ret >= -4095) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}
