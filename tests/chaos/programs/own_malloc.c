// A program that brings malloc itself, and leaves the rest to libc, which asks the program's own functions for its
// memory.
//
// chaos: case plain
// chaos: case threads threads
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAP_BYTES (256ul << 20)
#define MARK 0x5eed5eed5eed5eedul

struct head {
	size_t size, mark;
};

static char heap[HEAP_BYTES] __attribute__((aligned(16)));
static _Atomic size_t used;

void *malloc(size_t size)
{
	size_t whole = (sizeof(struct head) + size + 15) & ~15ul,
	       at = __atomic_fetch_add((size_t *)&used, whole, __ATOMIC_RELAXED);
	if (size > HEAP_BYTES || at + whole > HEAP_BYTES)
		abort();
	struct head *h = (void *)(heap + at);
	*h = (struct head){ size, MARK };
	return h + 1;
}

static struct head *head_of(void *p)
{
	struct head *h = (struct head *)p - 1;
	if ((char *)p < heap || (char *)p >= heap + HEAP_BYTES || h->mark != MARK) {
		static const char said[] = "not one of ours\n";
		if (fwrite(said, 1, sizeof(said) - 1, stderr))
			abort();
	}
	return h;
}

void free(void *p)
{
	if (p)
		head_of(p);
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size); // never used before: zeros
}

void *realloc(void *p, size_t size)
{
	void *moved = malloc(size);
	if (p)
		memcpy(moved, p, head_of(p)->size < size ? head_of(p)->size : size);
	return moved;
}

static void *work(void *arg)
{
	long n = (long)arg, total = 0;
	for (long i = 0; i < n; i++) {
		int *numbers = NULL;
		for (int k = 1; k < 6; k++) {
			numbers = reallocarray(numbers, (size_t)k, sizeof(int));
			numbers[k - 1] = k;
		}
		char *text = strdup("a text"), *made = NULL;
		total += asprintf(&made, "%s and %d", text, numbers[4]);
		free(text);
		free(made);
		free(numbers);
	}
	return (void *)total;
}

int main(int argc, char **argv)
{
	long n = (long)(200000 * atof(argv[1])), total = 0;
	int n_threads = argc > 2 && !strcmp(argv[2], "threads") ? 4 : 0;
	pthread_t threads[4];
	for (int i = 0; i < n_threads; i++)
		pthread_create(&threads[i], NULL, work, (void *)(n / 4));
	for (int i = 0; i < n_threads; i++) {
		void *part;
		pthread_join(threads[i], &part);
		total += (long)part;
	}
	if (!n_threads)
		total = (long)work((void *)n);
	printf("%ld\n", total);
	return 0;
}
