// SPDX-License-Identifier: Apache-2.0
// Any bytes as a symbol: names come out, in the arena or as they went in.
#include "fuzz.h"

#include "symbolize/parts.h"
#include "symbolize/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_arena arena;
	fm_arena_init(&arena);
	struct fm_str symbol = { (const char *)data, (uint32_t)size };
	struct fm_pretty pretty = fm_demangle(&arena, symbol);
	size_t n = 0; // every byte is touched, so that a sanitizer sees a bad one
	for (uint32_t i = 0; i < pretty.name.len; i++)
		n += pretty.name.p[i] != 0;
	for (uint32_t i = 0; i < pretty.full.len; i++)
		n += pretty.full.p[i] != 0;
	FUZZ_CHECK(n <= (size_t)pretty.name.len + pretty.full.len);
	FUZZ_CHECK(!size || !data[0] || pretty.name.len);
	struct fm_str plain = fm_name_without_tags(&arena, pretty.name);
	FUZZ_CHECK(plain.len <= pretty.name.len);
	fm_name_module(&arena, symbol);
	fm_name_is_library(symbol);
	fm_arena_deinit(&arena);
	return 0;
}
