// Two ways down, 800 calls each, taken in turns: no two samples in a row have much in common, so each takes kilobytes of its ring.
//   two_deep SECONDS        of CPU time; says "ready" when it begins
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DEPTH 800
#define STAY_NS 100000

static volatile unsigned sink;

static double cpu_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void stay(void)
{
	double end = cpu_s() + STAY_NS * 1e-9;
	while (cpu_s() < end)
		for (int i = 0; i < 1000; i++)
			sink++;
}

__attribute__((noinline, noclone)) static void left(int depth)
{
	if (depth)
		left(depth - 1);
	else
		stay();
	sink++; // so that it is a call, and no jump
}

__attribute__((noinline, noclone)) static void right(int depth)
{
	if (depth)
		right(depth - 1);
	else
		stay();
	sink++;
}

int main(int argc, char **argv)
{
	double end = cpu_s() + (argc > 1 ? atof(argv[1]) : 1);
	puts("ready");
	fflush(stdout);
	while (cpu_s() < end) {
		left(DEPTH);
		right(DEPTH);
	}
	return 0;
}
