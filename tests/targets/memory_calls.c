// Every function by which native code gets memory or copies it, called a known number of times with a known size. The
// noinline functions and the volatile pointers keep the compiler from leaving calls out.
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), noinline))

static void *get(const char *how, size_t size)
{
	void *volatile p = NULL;
	if (!strcmp(how, "malloc"))
		p = malloc(size);
	else if (!strcmp(how, "calloc"))
		p = calloc(size / 4, 4);
	else if (!strcmp(how, "realloc"))
		p = realloc(NULL, size);
	else if (!strcmp(how, "reallocarray"))
		p = reallocarray(NULL, size / 4, 4);
	else if (!strcmp(how, "memalign"))
		p = memalign(64, size);
	else if (!strcmp(how, "aligned_alloc"))
		p = aligned_alloc(64, size);
	else if (!strcmp(how, "valloc"))
		p = valloc(size);
	else if (!strcmp(how, "pvalloc"))
		p = pvalloc(size);
	else if (!strcmp(how, "posix_memalign"))
		return posix_memalign((void **)&p, 64, size) ? NULL : p;
	else if (!strcmp(how, "mmap"))
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else if (!strcmp(how, "mmap64"))
		p = mmap64(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return p;
}

// Blocks are kept in kept[], for put_all().
EXPORT int get_all(const char *how, size_t size, size_t n, void **kept)
{
	for (size_t i = 0; i < n; i++) {
		kept[i] = get(how, size);
		if (!kept[i])
			return -1;
		*(volatile char *)kept[i] = 1;
	}
	return 0;
}

EXPORT int put_all(const char *how, size_t size, size_t n, void **kept)
{
	for (size_t i = 0; i < n; i++)
		if (!strncmp(how, "mmap", 4))
			munmap(kept[i], size);
		else
			free(kept[i]);
	return 0;
}

EXPORT int grow(size_t from, size_t to, void **kept)
{
	kept[0] = realloc(kept[0], to);
	return kept[0] ? 0 : (int)from;
}

EXPORT int remap(size_t from, size_t to, void **kept)
{
	kept[0] = mremap(kept[0], from, to, MREMAP_MAYMOVE);
	return kept[0] == MAP_FAILED;
}

// The middle of three parts goes.
EXPORT int unmap_middle(size_t part, void **kept)
{
	return munmap((char *)kept[0] + part, part);
}

EXPORT int move_break(intptr_t by)
{
	return sbrk(by) == (void *)-1;
}

EXPORT int reserve_only(size_t size)
{
	return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED;
}

extern void *__memcpy_chk(void *, const void *, size_t, size_t);
extern void *__memmove_chk(void *, const void *, size_t, size_t);
extern void *__mempcpy_chk(void *, const void *, size_t, size_t);

// Returns 0 when every copy came out right.
EXPORT int copy_all(const char *how, size_t size, size_t n)
{
	char *from = malloc(size + 8), *to = malloc(size + 8);
	int wrong = 0;
	for (size_t i = 0; i < size; i++)
		from[i] = (char)(i * 7 + 1);
	for (size_t i = 0; i < n; i++) {
		char *volatile t = to;
		const char *volatile f = from;
		volatile size_t s = size;
		void *ret = NULL, *expected = to;
		t[0] = t[s - 1] = 0;
		if (!strcmp(how, "memcpy"))
			ret = memcpy(t, f, s);
		else if (!strcmp(how, "memmove"))
			ret = memmove(t, f, s);
		else if (!strcmp(how, "mempcpy"))
			ret = mempcpy(t, f, s), expected = to + size;
		else if (!strcmp(how, "bcopy"))
			bcopy(f, t, s), ret = to;
		else if (!strcmp(how, "memcpy_chk"))
			ret = __memcpy_chk(t, f, s, s);
		else if (!strcmp(how, "memmove_chk"))
			ret = __memmove_chk(t, f, s, s);
		else if (!strcmp(how, "mempcpy_chk"))
			ret = __mempcpy_chk(t, f, s, s), expected = to + size;
		wrong |= ret != expected || t[0] != from[0] || t[s - 1] != from[size - 1];
	}
	// Overlapping, to either side.
	char *volatile t = from;
	volatile size_t s = size;
	memmove(t + 8, t, s);
	wrong |= from[8] != 1 || from[size + 7] != (char)((size - 1) * 7 + 1);
	memmove(t, t + 8, s);
	wrong |= from[0] != 1 || from[size - 1] != (char)((size - 1) * 7 + 1);
	free(from);
	free(to);
	return wrong;
}
