/* Signal handlers of the program that jump out, from a timer's signals and from their own.
 *
 * chaos: case raised raised
 * chaos: case timer timer
 * chaos: case threads threads
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t may_jump;

static void jump(int sig)
{
	(void)sig;
	if (may_jump)
		siglongjmp(back, 1);
}

__attribute__((noinline)) static long nest(int depth, long n)
{
	volatile long x = 0;
	if (depth > 0)
		return nest(depth - 1, n) + (x & 1);
	for (long i = 0; i < n; i++)
		x += i & 1;
	return x;
}

static long raised(long n)
{
	volatile long jumps = 0;
	for (volatile long i = 0; i < n; i++) {
		if (sigsetjmp(back, 1) == 0) {
			may_jump = 1;
			nest(20, 10000);
			raise(SIGUSR1);
		} else {
			may_jump = 0;
			jumps++;
		}
	}
	return jumps;
}

static void *in_thread(void *arg)
{
	return (void *)raised((long)arg);
}

static long by_threads(long n)
{
	pthread_t threads[3];
	long total = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, in_thread, (void *)n);
	for (int i = 0; i < 3; i++) {
		void *got;
		pthread_join(threads[i], &got);
		total += (long)got;
	}
	return total;
}

/* Until the timer has thrown us out so often. */
static long by_timer(long n)
{
	volatile long jumps = 0;
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } };
	setitimer(ITIMER_PROF, &every, NULL);
	if (sigsetjmp(back, 1))
		jumps++;
	may_jump = 1;
	while (jumps < n)
		nest(30, 100000);
	may_jump = 0;
	memset(&every, 0, sizeof every);
	setitimer(ITIMER_PROF, &every, NULL);
	return jumps;
}

int main(int argc, char **argv)
{
	double scale = atof(argc > 1 ? argv[1] : "1");
	const char *kind = argc > 2 ? argv[2] : "raised";
	struct sigaction action = { .sa_handler = jump };
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGPROF, &action, NULL);
	long n = strcmp(kind, "raised") == 0  ? raised((long)(30000 * scale) + 1)
		 : strcmp(kind, "timer") == 0 ? by_timer((long)(200 * scale) + 1)
					      : by_threads((long)(10000 * scale) + 1);
	printf("%s %ld\n", kind, n);
	return 0;
}
