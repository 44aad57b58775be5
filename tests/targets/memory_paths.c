// One place in native code that asks for memory, reached by two ways: what each asks for is told apart by its stack
// alone.
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default"), noinline))

static __attribute__((noinline)) void ask(size_t size, size_t n, void **kept)
{
	for (size_t i = 0; i < n; i++)
		kept[i] = malloc(size);
	__asm__ volatile("" ::"r"(kept) : "memory"); // and no jump into it instead of a call
}

EXPORT int by_the_short_way(size_t size, size_t n, void **kept)
{
	ask(size, n, kept);
	__asm__ volatile("");
	return 1;
}

EXPORT int by_the_long_way(size_t size, size_t n, void **kept)
{
	volatile char room[5000];
	room[0] = 1;
	ask(size, n, kept);
	return room[0];
}

EXPORT int give_back(size_t n, void **kept)
{
	for (size_t i = 0; i < n; i++)
		free(kept[i]);
	return 0;
}
