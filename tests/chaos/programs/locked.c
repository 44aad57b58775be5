/* A program that has all of its memory locked, as those that must answer in time do: it is no larger for it.
 *
 * chaos: case all all
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK (8 << 20)

static long resident_mib(void)
{
	char line[128];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %ld", &kib);
	if (f)
		fclose(f);
	return kib >> 10;
}

int main(void)
{
	long sum = 0;
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		return 77;
	for (int i = 0; i < 20; i++) {
		unsigned char *block = malloc(BLOCK);
		memset(block, i, BLOCK);
		for (int at = 0; at < BLOCK; at += 512)
			sum += block[at];
		free(block);
	}
	printf("%ld, %s\n", sum, resident_mib() < 1024 ? "small" : "large");
	return munlockall();
}
