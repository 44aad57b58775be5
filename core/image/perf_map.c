// SPDX-License-Identifier: Apache-2.0
#include "image/jit.h"

#include <string.h>

// "0x" in front is not in the format, but some write it.
static bool read_hex(const char **pos, const char *end, uint64_t *ret)
{
	const char *p = *pos;
	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	const char *digits = p;
	uint64_t v = 0;
	for (; p < end; p++) {
		unsigned digit = *p >= '0' && *p <= '9'                 ? (unsigned)(*p - '0')
				 : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (unsigned)((*p | 32) - 'a' + 10)
									: 16;
		if (digit == 16)
			break;
		if (v >> 60)
			return false;
		v = v << 4 | digit;
	}
	if (p == digits || p == end || *p != ' ')
		return false;
	while (p < end && *p == ' ')
		p++;
	*pos = p;
	*ret = v;
	return true;
}

size_t fm_perf_map_parse(const char *text, size_t len, uint32_t owner, struct fm_code_ranges *ret,
			 uint32_t *n_bad_lines)
{
	const char *pos = text, *end = text + len;
	for (;;) {
		const char *newline = memchr(pos, '\n', (size_t)(end - pos));
		if (!newline)
			return (size_t)(pos - text);
		const char *at = pos;
		uint64_t start, size;
		bool is_good = read_hex(&at, newline, &start) && read_hex(&at, newline, &size) && at < newline;
		if (is_good)
			fm_code_ranges_add(ret, start, size,
					   (struct fm_str){ at, (uint32_t)FM_MIN(newline - at, 65536) }, owner);
		else if (newline > pos)
			++*n_bad_lines;
		pos = newline + 1;
	}
}
