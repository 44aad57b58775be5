// A thread of a library that calls Python, and does work of its own in a function without a symbol.
#include <pthread.h>
#include <time.h>

static void (*callback)(void);

__attribute__((noinline)) void host_before(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void unnamed(double seconds)
{
	struct timespec start, now;
	volatile unsigned sum = 0;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
	do {
		for (unsigned i = 0; i < 50000; i++)
			sum += i * i;
		for (unsigned i = 0; i < 50000; i++)
			sum ^= i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((double)(now.tv_sec - start.tv_sec) + 1e-9 * (double)(now.tv_nsec - start.tv_nsec) < seconds);
}

__attribute__((noinline)) void host_middle(void)
{
	unnamed(0.1);
	callback();
	host_before();
}

static void *run(void *arg)
{
	(void)arg;
	host_middle();
	return NULL;
}

void host_run(void (*function)(void))
{
	pthread_t thread;
	callback = function;
	pthread_create(&thread, NULL, run, NULL);
	pthread_join(thread, NULL);
}
