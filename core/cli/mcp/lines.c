// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp/mcp.h"

#include <string.h>

static void take(struct fm_mcp_lines *l, const char *bytes, size_t n)
{
	if (l->is_too_long)
		return;
	if (l->line.len + n > FM_MCP_MAX_LINE) {
		l->is_too_long = true;
		fm_buf_deinit(&l->line);
		return;
	}
	fm_buf_bytes(&l->line, bytes, n);
}

void fm_mcp_lines_feed(struct fm_mcp_lines *l, const char *bytes, size_t n,
		       void (*each)(void *ctx, const struct fm_str *line), void *ctx)
{
	while (n) {
		const char *newline = memchr(bytes, '\n', n);
		size_t part = newline ? (size_t)(newline - bytes) : n;
		take(l, bytes, part);
		if (!newline)
			return;
		struct fm_str line = { l->line.len ? (const char *)l->line.data : "", (uint32_t)l->line.len };
		each(ctx, l->is_too_long ? NULL : &line);
		l->line.len = 0;
		l->is_too_long = false;
		bytes += part + 1;
		n -= part + 1;
	}
}
