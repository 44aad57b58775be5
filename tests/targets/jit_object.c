// An object that jit_emitter.c takes into memory as a JIT compiler would: debug information with calls inlined two
// deep, no relocations in its code.
#include <stdint.h>

#define INLINED static inline __attribute__((always_inline))

INLINED uint64_t object_mix(uint64_t x, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		x = x * 6364136223846793005u + 1442695040888963407u; // LINE mix
	return x;
}

INLINED uint64_t object_twice(uint64_t x, uint64_t n)
{
	x ^= object_mix(x, n);           // LINE first
	return object_mix(x + 1, n * 2); // LINE second
}

uint64_t object_outer(uint64_t (*callback)(void *), void *arg)
{
	uint64_t x = callback(arg);     // LINE callback
	return object_twice(x, 200000); // LINE outer
}
