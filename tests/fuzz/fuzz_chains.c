// SPDX-License-Identifier: Apache-2.0
// Any bytes as packed chains: what a damaged cache file, or a child that died over a damaged
// library, hands over.
#include "fuzz.h"

#include "symbolize/chains.h"

static void check(const struct fm_chains *c)
{
	for (size_t i = 0; i < c->items.n; i++) {
		const struct fm_chain *chain = &c->items.items[i];
		FUZZ_CHECK(i == 0 || c->items.items[i - 1].addr < chain->addr);
		FUZZ_CHECK(fm_chains_find(c, chain->addr) == chain);
		for (uint32_t k = 0; k < chain->n; k++) {
			FUZZ_CHECK(chain->first_link + (uint64_t)k < c->links.n);
			const struct fm_link *link = &c->links.items[chain->first_link + k];
			FUZZ_CHECK(fm_chains_str(c, link->name).p && fm_chains_str(c, link->file).p);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_chains c, again, merged;
	struct fm_cursor in = fm_cursor_over(data, size);
	if (fm_chains_unpack(&c, &in))
		return 0;
	check(&c);
	struct fm_buf packed = { 0 };
	fm_chains_pack(&c, &packed);
	struct fm_cursor back = fm_cursor_over(packed.data, packed.len);
	FUZZ_CHECK(fm_chains_unpack(&again, &back) == FM_OK && again.items.n == c.items.n);
	fm_chains_init(&merged);
	fm_chains_merge(&merged, &c);
	fm_chains_merge(&merged, &again);
	check(&merged);
	FUZZ_CHECK(merged.items.n == c.items.n);
	fm_chains_deinit(&merged);
	fm_chains_deinit(&again);
	fm_chains_deinit(&c);
	fm_buf_deinit(&packed);
	return 0;
}
