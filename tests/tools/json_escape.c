// SPDX-License-Identifier: Apache-2.0
// Reads records {32-bit little-endian length, bytes} from standard input; writes a JSON array of
// them as strings.
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"

int main(void)
{
	struct fm_json j;
	fm_json_init(&j, stdout);
	fm_json_array(&j, NULL);
	uint8_t head[4];
	while (fread(head, 1, 4, stdin) == 4) {
		uint32_t len = head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16;
		char *bytes = fm_alloc(len + 1);
		if (fread(bytes, 1, len, stdin) != len)
			return 1;
		fm_json_str(&j, NULL, (struct fm_str){ bytes, len });
		free(bytes);
	}
	fm_json_end(&j);
	return 0;
}
