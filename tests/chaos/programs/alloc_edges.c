// What allocation answers at its edges, with errno: sizes too large, of zero, odd alignments, calls that the kernel
// refuses. Sizes are volatile: every call is one.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define MIB (1ul << 20)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

static volatile size_t half = SIZE_MAX / 2 + 1, most = SIZE_MAX;
static int is_shown;

#define SHOW(call)                                                  \
	do {                                                        \
		errno = 77;                                         \
		long value = (long)(call);                          \
		if (is_shown)                                       \
			printf("%s %ld %d\n", #call, value, errno); \
	} while (0)

static void blocks(void)
{
	void *q = NULL;
	SHOW(malloc(half));
	SHOW(malloc(most));
	SHOW(calloc(most, 2));
	SHOW(realloc(NULL, half));
	char *volatile p = memset(malloc(300000), 1, 300000); // it outlives what fails
	SHOW(realloc(p, half));
	SHOW(reallocarray(p, most, 2));
	SHOW(p[299999]);
	SHOW(malloc_usable_size(p) >= 300000);
	SHOW(realloc(p, 0));
	SHOW(posix_memalign(&q, 3, 10));
	SHOW(posix_memalign(&q, 16, half));
	SHOW(posix_memalign(&q, 4 * MIB, 1000) || (uintptr_t)q % (4 * MIB));
	SHOW((free(q), 0));
	SHOW(aligned_alloc(64, most - 64));
	SHOW(valloc(half));
	SHOW(pvalloc(most));
	q = realloc(pvalloc(5), 300000);
	SHOW(q != NULL);
	q = realloc(q, 10);
	SHOW(q != NULL);
	free(q);
}

static void maps(void)
{
	SHOW(mmap(NULL, 0, RW, PRIVATE, -1, 0));
	SHOW(mmap((void *)1, 4096, RW, PRIVATE | MAP_FIXED, -1, 0));
	SHOW(mmap(NULL, most & ~4095ul, RW, PRIVATE, -1, 0));
	SHOW(mmap(NULL, 4096, RW, MAP_PRIVATE, -1, 0));
	SHOW(munmap((void *)1, 4096));
	SHOW(munmap(NULL, 0));
	char *m = mmap(NULL, MIB, RW, PRIVATE, -1, 0), *room = mmap(NULL, 8 * MIB, PROT_NONE, PRIVATE, -1, 0);
	m[4096] = 7;
	SHOW(mremap(m, MIB, half, 0));
	SHOW(mremap(m + 1, MIB, 2 * MIB, MREMAP_MAYMOVE));
	m = mremap(m, MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	SHOW(m == room && m[4096] == 7);
	munmap(room + 4 * MIB, 4 * MIB);
	char *hinted = mremap(m, 4 * MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, room + 4 * MIB);
	SHOW(hinted == room + 4 * MIB);
	if (hinted != MAP_FAILED) // Linux 5.7
		SHOW(hinted[4096] + m[4096]);
	SHOW(munmap(room, 8 * MIB));
	char *before = sbrk(0);
	SHOW(sbrk((intptr_t)(half / 2)));
	SHOW((char *)sbrk(MIB) - before);
	SHOW((char *)sbrk(-(intptr_t)MIB) - before);
	SHOW((char *)sbrk(0) - before);
}

int main(int argc, char **argv)
{
	long n = argc > 1 ? (long)(2000 * atof(argv[1])) : 1;
	for (long i = 0; i <= n; i++) {
		is_shown = i == n;
		blocks();
		maps();
	}
	return 0;
}
