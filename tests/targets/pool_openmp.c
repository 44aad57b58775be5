// The same work by OpenMP: a team of n, the caller one of them.
#include <stdint.h>
#include <time.h>

static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double openmp_run(double seconds, int n)
{
	uint64_t used_ns = 0;
#pragma omp parallel num_threads(n) reduction(+ : used_ns)
	{
		uint64_t start = cpu_ns(), now;
		volatile uint64_t sum = 0;
		do {
			for (unsigned i = 0; i < 20000; i++)
				sum += i;
			now = cpu_ns();
		} while (now < start + (uint64_t)(seconds * 1e9));
		used_ns += now - start;
	}
	return (double)used_ns * 1e-9;
}
