// Native work for truth_native.py: plain arithmetic, no calls, no memory.
#include <stdint.h>

uint64_t spin(uint64_t n)
{
	volatile uint64_t x = n;
	for (uint64_t i = 0; i < n; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}
