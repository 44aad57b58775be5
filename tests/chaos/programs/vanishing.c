/* Mappings that vanish, shrink or lose their permission while registers that a profiler may take for frames point into
 * them.
 *
 * chaos: case munmap munmap
 * chaos: case mremap mremap
 * chaos: case protect protect
 * chaos: case dontneed dontneed
 * chaos: case truncate truncate
 * chaos: case raw raw
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 16, PAGE = 4096, SIZE = PAGES * PAGE };

static _Atomic(char *) shown; /* what the burning thread points at; the other one takes it away */
static _Atomic long rounds_left;
static const char *kind;

/* A chain of frame pointers and a text of plausible numbers, as a walker would want to find them. */
static void fill(char *at)
{
	uintptr_t *words = (uintptr_t *)at;
	for (size_t i = 0; i < SIZE / sizeof *words; i++)
		words[i] = (uintptr_t)(words + (i + 8) % (SIZE / sizeof *words));
}

static void point_and_burn(char *at, long n)
{
#if defined(__x86_64__)
	__asm__ volatile(
		"lea -128(%%rsp), %%rsp\n\tpush %%rbp\n\tpush %%rbx\n\tpush %%r12\n\tpush %%r13\n\tpush %%r14\n\tpush "
		"%%r15\n\t"
		"mov %0, %%rbp\n\tmov %0, %%rbx\n\tmov %0, %%r12\n\tmov %0, %%r13\n\tmov %0, %%r14\n\tmov %0, %%r15\n\t"
		"1: dec %1\n\tjnz 1b\n\t"
		"pop %%r15\n\tpop %%r14\n\tpop %%r13\n\tpop %%r12\n\tpop %%rbx\n\tpop %%rbp\n\tlea 128(%%rsp), "
		"%%rsp\n\t"
		: "+a"(at), "+c"(n)
		:
		: "memory", "cc");
#else
	for (volatile long i = 0; i < n; i++)
		__asm__ volatile("" : : "r"(at));
#endif
}

static void *burn(void *arg)
{
	(void)arg;
	while (atomic_load(&rounds_left) > 0) {
		char *at = atomic_load(&shown);
		point_and_burn(at + SIZE / 2, 20000);
		point_and_burn(at + SIZE - 16, 20000);
	}
	return NULL;
}

static char *map(int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		abort();
	fill(at);
	return at;
}

int main(int argc, char **argv)
{
	long n = (long)(atof(argc > 1 ? argv[1] : "1") * 6000) + 1;
	kind = argc > 2 ? argv[2] : "munmap";
	int is_file = strcmp(kind, "truncate") == 0;
	char path[] = "vanishing-XXXXXX";
	int fd = is_file ? mkstemp(path) : -1;
	if (is_file && (unlink(path) || ftruncate(fd, SIZE)))
		return 1;
	atomic_store(&rounds_left, n);
	atomic_store(&shown, map(fd));
	pthread_t thread;
	pthread_create(&thread, NULL, burn, NULL);
	long done = 0;
	for (long i = 0; i < n; i++) {
		char *at = atomic_load(&shown);
		point_and_burn(at + 64, 50000);
		if (is_file) {
			if (ftruncate(fd, 0) || ftruncate(fd, SIZE))
				return 1;
			fill(at);
		} else if (strcmp(kind, "munmap") == 0) {
			munmap(at, SIZE);
			atomic_store(&shown, map(fd));
		} else if (strcmp(kind, "raw") == 0) {
			syscall(SYS_munmap, at, SIZE);
			atomic_store(&shown, map(fd));
		} else if (strcmp(kind, "mremap") == 0) {
			char *small = mremap(at, SIZE, PAGE, 0);
			char *large = mremap(small, PAGE, SIZE, MREMAP_MAYMOVE);
			if (large == MAP_FAILED)
				abort();
			fill(large);
			atomic_store(&shown, large);
		} else if (strcmp(kind, "protect") == 0) {
			mprotect(at, SIZE, PROT_NONE);
			point_and_burn(at + 64, 50000);
			mprotect(at, SIZE, PROT_READ | PROT_WRITE);
		} else {
			madvise(at, SIZE, MADV_DONTNEED);
			point_and_burn(at + 64, 50000);
			fill(at);
		}
		atomic_fetch_sub(&rounds_left, 1);
		done++;
	}
	pthread_join(thread, NULL);
	printf("%s %ld\n", kind, done);
	return 0;
}
