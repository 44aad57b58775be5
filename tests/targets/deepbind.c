// Opens memory_calls.so so that the loader binds it past whatever is preloaded, and has it allocate a known number of
// bytes.
//   deepbind LIBRARY now|lazy
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 6
#define BYTES (1 << 20)

typedef int (*blocks_fn)(const char *, size_t, size_t, void **);
typedef int (*copies_fn)(const char *, size_t, size_t);

// Pages of the library that can be written: the loader seals some, and they must stay so.
static void print_writable(const char *path)
{
	char line[4096];
	unsigned long start, end, n_pages = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, path) && sscanf(line, "%lx-%lx rw", &start, &end) == 2 && strstr(line, " rw"))
			n_pages += (end - start) >> 12;
	if (maps)
		fclose(maps);
	printf("writable %lu\n", n_pages);
}

int main(int argc, char **argv)
{
	static const char *const hows[] = { "malloc",        "calloc", "realloc", "reallocarray",   "memalign",
					    "aligned_alloc", "valloc", "pvalloc", "posix_memalign", "mmap" };
	void *kept[N];
	if (argc < 3)
		return 2;
	void *library = dlopen(argv[1], RTLD_DEEPBIND | (strcmp(argv[2], "now") ? RTLD_LAZY : RTLD_NOW));
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	blocks_fn get_all = (blocks_fn)dlsym(library, "get_all"), put_all = (blocks_fn)dlsym(library, "put_all");
	copies_fn copy_all = (copies_fn)dlsym(library, "copy_all");
	for (unsigned i = 0; i < sizeof(hows) / sizeof(hows[0]); i++)
		// A size of its own for each, so that the records tell them apart.
		if (get_all(hows[i], BYTES + 4096 * i, N, kept) || put_all(hows[i], BYTES + 4096 * i, N, kept))
			return 1;
	if (!copy_all || copy_all("memcpy", 2 << 20, 3))
		return 1;
	print_writable(argv[1]);
	return 0;
}
