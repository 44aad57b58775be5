// A process id on the command line: decimal, or hexadecimal with 0x.
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool fm_pid_parse(const char *text, uint32_t *ret)
{
	char *end;
	errno = 0;
	unsigned long pid = strtoul(text, &end, 0);
	if (errno || *end || end == text || text[0] == '-' || pid == 0 || pid > INT32_MAX)
		return false;
	*ret = (uint32_t)pid;
	return true;
}
