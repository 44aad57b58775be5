// A library to preload, which tells false times, under a lock, as libfaketime does.
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t random_state = 88172645463325252u;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	pthread_mutex_lock(&lock);
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	uint64_t draw = random_state;
	for (volatile int i = 0; i < 50; i++) // so that signals come in here
		;
	pthread_mutex_unlock(&lock);
	if (clock == CLOCK_PROCESS_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	ret->tv_sec = (time_t)(draw >> 34);
	ret->tv_nsec = (long)(draw % 1000000000u);
	return 0;
}
