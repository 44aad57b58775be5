// SPDX-License-Identifier: Apache-2.0
// A main() for fuzz targets without a fuzzer: every file of the corpus whole, cut off at every
// length up to 4 KiB, and with one byte changed at a time. The same inputs on every run, so a
// failure comes back. --every N: every Nth byte only, for targets that are slow.
#include "fuzz.h"

#include <dirent.h>

enum { MAX_INPUT_BYTES = 1 << 20, MAX_CUT_BYTES = 4096 };

static unsigned n_runs;
static size_t stride = 1;

// A heap block of exactly the right size, so that a sanitizer sees a read one byte past it.
static void run_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	n_runs++;
}

static void run_with_mutations(uint8_t *data, size_t size)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	run_copy(data, size);
	size_t n = size < MAX_CUT_BYTES ? size : MAX_CUT_BYTES;
	for (size_t i = 0; i < n; i += stride) {
		run_copy(data, i);
		uint8_t before = data[i];
		for (size_t v = 0; v < sizeof(values); v++) {
			data[i] = values[v];
			run_copy(data, size);
		}
		data[i] = before;
	}
}

int main(int argc, char **argv)
{
	static uint8_t data[MAX_INPUT_BYTES];
	unsigned n_files = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--every") && i + 1 < argc) {
			stride = strtoul(argv[++i], NULL, 10);
			continue;
		}
		struct dirent **names;
		int n = scandir(argv[i], &names, NULL, alphasort);
		for (int k = 0; k < n; k++) {
			char path[4096];
			snprintf(path, sizeof(path), "%s/%s", argv[i], names[k]->d_name);
			FILE *file = names[k]->d_name[0] == '.' ? NULL : fopen(path, "rb");
			free(names[k]);
			if (!file)
				continue;
			size_t size = fread(data, 1, sizeof(data), file);
			fclose(file);
			run_with_mutations(data, size);
			n_files++;
		}
		if (n >= 0)
			free(names);
	}
	printf("%u files, %u inputs\n", n_files, n_runs);
	return n_files == 0; // an empty corpus tests nothing
}
