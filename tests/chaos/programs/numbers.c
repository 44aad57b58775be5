/* A descriptor has the lowest free number. The main thread takes signals that are sent to the process
 * while other threads work; one more opens and closes files all the time and looks at their numbers.
 *
 * chaos: case process
 * chaos: case thread thread
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int is_over;
static volatile sig_atomic_t n_taken;

static void take(int sig)
{
	(void)sig;
	n_taken = 1;
}

static void *work(void *arg)
{
	volatile long x = 0;
	while (!is_over)
		x += x & 1;
	return arg;
}

static void *open_files(void *arg)
{
	long *n_other = arg;
	int first = open("/dev/null", O_RDONLY);
	close(first);
	while (!is_over) {
		int fd = open("/dev/null", O_RDONLY);
		*n_other += fd != first;
		close(fd);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	double s = atof(argc > 1 ? argv[1] : "1");
	int is_for_thread = argc > 2 && strcmp(argv[2], "thread") == 0;
	struct sigaction action = { .sa_handler = take, .sa_flags = SA_RESTART };
	sigaction(SIGUSR1, &action, NULL);
	pthread_t workers[2], opener;
	long n_other = 0;
	for (int i = 0; i < 2; i++)
		pthread_create(&workers[i], NULL, work, NULL);
	pthread_create(&opener, NULL, open_files, &n_other);
	for (long i = 0; i < (long)(s * 20000) + 1; i++) {
		if (is_for_thread)
			pthread_kill(workers[i & 1], SIGUSR1);
		else
			kill(getpid(), SIGUSR1);
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(workers[i], NULL);
	pthread_join(opener, NULL);
	printf("%s, %ld other numbers\n", n_taken ? "signals taken" : "no signal", n_other);
	return 0;
}
