// SPDX-License-Identifier: Apache-2.0
// Any bytes as JSON: a tree is made, or they are refused; every byte that is handed out can be
// read.
#include "fuzz.h"

#include "base/json.h"

static size_t walk(const struct fm_json_value *v, unsigned depth)
{
	FUZZ_CHECK(depth <= FM_JSON_READ_DEPTH);
	size_t n = 1;
	volatile uint8_t sum = 0;
	for (uint32_t i = 0; i < v->text.len; i++)
		sum = (uint8_t)(sum + v->text.p[i]);
	for (uint32_t i = 0; i < v->key.len; i++)
		sum = (uint8_t)(sum + v->key.p[i]);
	for (const struct fm_json_value *c = v->first; c; c = c->next)
		n += walk(c, depth + 1);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_arena arena;
	struct fm_json_value *root = NULL;
	fm_arena_init(&arena);
	if (!fm_json_parse(&arena, (struct fm_str){ (const char *)data, (uint32_t)size }, &root))
		FUZZ_CHECK(walk(root, 1) <= size);
	fm_arena_deinit(&arena);
	return 0;
}
