// Two threads and the first one, each busy for so many seconds of CPU time: two_threads SECONDS
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static double seconds;
static volatile unsigned sink;

static void *work(void *unused)
{
	struct timespec t;
	do {
		for (int i = 0; i < 10000; i++)
			sink++;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec * 1e-9 < seconds);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	seconds = argc > 1 ? atof(argv[1]) : 0.3;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	work(NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
