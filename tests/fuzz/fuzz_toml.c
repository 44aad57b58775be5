// SPDX-License-Identifier: Apache-2.0
// Any bytes as a TOML file: it is read to its end, or refused in one line; keys are never empty.
#include "fuzz.h"

#include "base/toml.h"

static void take(void *ctx, struct fm_str item)
{
	volatile uint8_t sum = 0; // every byte that is handed out can be read
	for (uint32_t i = 0; i < item.len; i++)
		sum = (uint8_t)(sum + item.p[i]);
	++*(size_t *)ctx;
}

static enum fm_err each(void *ctx, const struct fm_toml_value *v, struct fm_diag *diag)
{
	++*(size_t *)ctx;
	FUZZ_CHECK(v->key.len > 0 && v->line > 0);
	size_t n = 0;
	take(&n, v->text);
	if (v->kind == FM_TOML_OTHER)
		fm_toml_strings(v->text, take, &n);
	FUZZ_CHECK(n <= v->text.len + 1u);
	return FM_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_diag diag = { "" };
	size_t n = 0;
	enum fm_err err =
		fm_toml_read((struct fm_str){ (const char *)data, (uint32_t)size }, "tool.fathom", each, &n, &diag);
	FUZZ_CHECK(n <= size);
	FUZZ_CHECK(err == FM_OK || (diag.text[0] && !strchr(diag.text, '\n')));
	return 0;
}
