// SPDX-License-Identifier: Apache-2.0
// print_type PID ADDR SIZE [t]: the type of the Python object in a block of another process, or
// nothing and exit code 1. t: that Python is free-threaded.
#include <stdio.h>
#include <stdlib.h>

#include "collect/ingest/live_blocks.h"

int main(int argc, char **argv)
{
	char name[FM_TYPE_NAME_BYTES];
	if (argc != 4 && argc != 5)
		return fputs("usage: print_type PID ADDR SIZE [t]\n", stderr), 2;
	if (!fm_survivor_type((uint32_t)strtoul(argv[1], NULL, 0), argc == 5, strtoull(argv[2], NULL, 0),
			      strtoull(argv[3], NULL, 0), name, NULL))
		return 1;
	puts(name);
	return 0;
}
