/* Threads that Python did not make call into it: ctypes takes the GIL for them with a thread state that lives for one
 * call. */
#include <pthread.h>
#include <stdlib.h>

typedef long (*callback)(long);

struct work {
	callback call;
	long n_calls, n_spins, sum;
};

__attribute__((noinline)) static long spin(long n)
{
	volatile long x = 0;
	for (long i = 0; i < n; i++)
		x += i;
	return x;
}

static void *run(void *arg)
{
	struct work *work = arg;
	for (long i = 0; i < work->n_calls; i++) {
		spin(work->n_spins);
		work->sum += work->call(i);
	}
	return NULL;
}

long run_threads(callback call, int n_threads, long n_calls, long n_spins)
{
	pthread_t threads[16];
	struct work works[16];
	long sum = 0;
	for (int i = 0; i < n_threads; i++) {
		works[i] = (struct work){ call, n_calls, n_spins, 0 };
		pthread_create(&threads[i], NULL, run, &works[i]);
	}
	for (int i = 0; i < n_threads; i++) {
		pthread_join(threads[i], NULL);
		sum += works[i].sum;
	}
	return sum;
}
