/* Threads that block every signal and work there, and a program that does so before it has threads.
 *
 * chaos: case threads threads
 * chaos: case all all
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static long spin(long n)
{
	volatile long x = 0;
	for (long i = 0; i < n; i++)
		x += i & 1;
	return x;
}

static void *work(void *arg)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	long n = (long)arg, x = 0;
	for (long i = 0; i < n; i++) {
		char *kept = malloc(1000 + (size_t)i % 100000);
		kept[0] = 1;
		x += spin(20000) + kept[0];
		free(kept);
	}
	return (void *)x;
}

int main(int argc, char **argv)
{
	long n = (long)(atof(argc > 1 ? argv[1] : "1") * 14000) + 1, total = 0;
	if (argc > 2 && strcmp(argv[2], "all") == 0) {
		sigset_t all;
		sigfillset(&all);
		sigprocmask(SIG_SETMASK, &all, NULL);
		total += (long)work((void *)n);
	}
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, (void *)n);
	for (int i = 0; i < 3; i++) {
		void *got;
		pthread_join(threads[i], &got);
		total += (long)got;
	}
	printf("%ld\n", total);
	return 0;
}
