// SPDX-License-Identifier: Apache-2.0
// Any bytes as a Python source: scopes are inside one another without a circle, names are bytes of
// the text, and every scope's own line and name give one qualified name that ends in it, or none.
#include "fuzz.h"

#include <string.h>

#include "symbolize/python_scopes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct fm_python_scopes s;
	fm_python_scopes_read(&s, (struct fm_str){ text, (uint32_t)size });
	FUZZ_CHECK(s.items.n <= size && s.by_line.n == s.items.n);
	struct fm_buf name = { 0 };
	for (uint32_t i = 0; i < s.items.n && i < 1000; i++) {
		const struct fm_python_scope *scope = &s.items.items[i];
		FUZZ_CHECK(scope->line >= 1 && scope->line <= size + 1);
		FUZZ_CHECK(scope->name.p[0] == '<' ||
			   (scope->name.p >= text && scope->name.p + scope->name.len <= text + size));
		size_t n_steps = 0;
		for (uint32_t at = scope->parent; at != FM_NO_SCOPE; at = s.items.items[at].parent)
			FUZZ_CHECK(at < s.items.n && n_steps++ < s.items.n);
		name.len = 0;
		if (fm_python_scopes_qualname(&s, scope->line, scope->name, &name))
			FUZZ_CHECK(name.len >= scope->name.len &&
				   memcmp(name.data + name.len - scope->name.len, scope->name.p, scope->name.len) == 0);
	}
	fm_buf_deinit(&name);
	fm_python_scopes_deinit(&s);
	return 0;
}
