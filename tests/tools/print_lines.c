// SPDX-License-Identifier: Apache-2.0
// Decodes line tables: each line of standard input is "KIND FIRST_LINE N_BYTES HEX" (KIND: enum
// fm_py_lines, HEX may be "-" for an empty table); the answer is the source line of every second
// byte offset below N_BYTES, on one line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pyabi/lines.h"

static unsigned hex_digit(int c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

int main(void)
{
	char *line = NULL;
	size_t capacity = 0;
	while (getline(&line, &capacity, stdin) > 0) {
		char *pos = line;
		enum fm_py_lines kind = (enum fm_py_lines)strtoul(pos, &pos, 10);
		uint32_t first_line = (uint32_t)strtoul(pos, &pos, 10), n_bytes = (uint32_t)strtoul(pos, &pos, 10);
		pos += strspn(pos, " ");
		size_t len = *pos == '-' ? 0 : strcspn(pos, " \n") / 2;
		// In place: the bytes overwrite the digits they came from.
		for (size_t i = 0; i < len; i++)
			pos[i] = (char)(hex_digit(pos[2 * i]) << 4 | hex_digit(pos[2 * i + 1]));
		for (uint32_t off = 0; off < n_bytes; off += 2)
			printf("%u ", fm_pyabi_line(kind, (const uint8_t *)pos, len, first_line, off));
		putchar('\n');
	}
	free(line);
	return 0;
}
