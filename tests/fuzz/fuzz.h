// What every fuzzer has: LLVMFuzzerTestOneInput, and outside of libFuzzer a main() that runs it over the files and
// folders given, so that a corpus is also an ordinary test.
#pragma once

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                         \
	do {                                                                     \
		if (!(cond)) {                                                   \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                 \
		}                                                                \
	} while (0)

#ifndef FM_LIBFUZZER
static unsigned fuzz_run_path(const char *path)
{
	struct stat st;
	if (stat(path, &st)) {
		perror(path);
		exit(2);
	}
	if (S_ISDIR(st.st_mode)) {
		unsigned n_run = 0;
		DIR *dir = opendir(path);
		for (struct dirent *e; dir && (e = readdir(dir));) {
			char child[4096];
			if (e->d_name[0] == '.')
				continue;
			snprintf(child, sizeof(child), "%s/%s", path, e->d_name);
			n_run += fuzz_run_path(child);
		}
		if (dir)
			closedir(dir);
		return n_run;
	}
	FILE *f = fopen(path, "rb");
	size_t size = (size_t)st.st_size;
	uint8_t *data = malloc(size ? size : 1); // exactly as long as the file: sanitizers see a read beyond
	if (!f || !data || fread(data, 1, size, f) != size) {
		perror(path);
		exit(2);
	}
	fclose(f);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

int main(int argc, char **argv)
{
	unsigned n_run = 0;
	for (int i = 1; i < argc; i++)
		n_run += fuzz_run_path(argv[i]);
	printf("%u inputs\n", n_run);
	return n_run == 0;
}
#endif
