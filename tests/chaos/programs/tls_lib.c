/* A library with a thread-local variable and a constructor that allocates, as many extension modules have. Copies of it
 * are loaded by the hundred. While the constructor runs, the thread's table of thread-locals is behind: whoever looks
 * one up now makes it grow, on the heap. */
#include <stdlib.h>

static __thread long counter = 1;
static __thread char room[200];
static void *kept[64];

__attribute__((constructor)) static void begin(void)
{
	for (unsigned i = 0; i < 20000; i++) {
		void **at = &kept[(i * 7) % 64];
		free(*at);
		*at = malloc(1100 + (i * 977) % 9000); /* larger than what a thread keeps for itself */
	}
	for (unsigned i = 0; i < 64; i++)
		free(kept[i]);
}

long touch(long n)
{
	counter += n;
	room[n % 200]++;
	return counter;
}
