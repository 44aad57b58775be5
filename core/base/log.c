// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/utf8.h"

void fm_say(const char *fmt, ...)
{
	char line[1024] = "fathom: ";
	size_t used = 8;
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, args);
	va_end(args);
	if (n > 0)
		used += FM_MIN((size_t)n, sizeof(line) - used - 2);
	// Messages quote names and paths of others.
	struct fm_buf clean = { 0 };
	fm_utf8_clean(&clean, (struct fm_str){ line, (uint32_t)used });
	fm_buf_u8(&clean, '\n');
	// One write, so that lines of several processes do not mix.
	ssize_t ignored = write(STDERR_FILENO, clean.data, clean.len);
	(void)ignored;
	fm_buf_deinit(&clean);
}
