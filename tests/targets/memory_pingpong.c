// The same call N times: memory_pingpong malloc|memcpy N
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	static char from[64], to[64];
	void *(*volatile get)(size_t) = malloc;
	void (*volatile put)(void *) = free;
	void *(*volatile copy)(void *, const void *, size_t) = memcpy;
	if (argc != 3)
		return 2;
	for (long n = atol(argv[2]); n > 0; n--) {
		if (argv[1][1] == 'a')
			put(get(64));
		else
			copy(to, from, sizeof(to));
	}
	return 0;
}
