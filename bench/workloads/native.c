// C work for the workloads and truth programs: loops that hold or release the GIL (by ctypes.PyDLL or ctypes.CDLL), and
// loops that call back into Python.
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

uint64_t bench_spin(uint64_t n);
int64_t bench_spin_for(int64_t cpu_ns);
uint64_t bench_each(uint64_t n, uint64_t inner, uint64_t (*callback)(uint64_t));
void bench_allocate(uint64_t n, uint64_t size);

// n rounds of arithmetic that the compiler cannot fold: each round needs the last one's result.
uint64_t bench_spin(uint64_t n)
{
	uint64_t x = n | 1;

	while (n--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

// Spins until the calling thread has used cpu_ns of CPU, and returns what it really used.
int64_t bench_spin_for(int64_t cpu_ns)
{
	struct timespec ts;
	int64_t start_ns, now_ns;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	start_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	do {
		bench_spin(2000);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	} while (now_ns - start_ns < cpu_ns);
	return now_ns - start_ns;
}

// Python called from C called from Python: the stack that a profiler of both worlds has to merge.
uint64_t bench_each(uint64_t n, uint64_t inner, uint64_t (*callback)(uint64_t))
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += callback(bench_spin(inner) & 0xff);
	return sum;
}

// n blocks one after the other.
void bench_allocate(uint64_t n, uint64_t size)
{
	while (n--) {
		char *volatile block = malloc(size);

		if (block)
			block[0] = 1;
		free(block);
	}
}
