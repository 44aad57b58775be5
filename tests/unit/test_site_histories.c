// SPDX-License-Identifier: Apache-2.0
// However long a program runs, its histories have between 64 and 128 looks, evenly spread, and the
// last one is the end.
#include "collect/ingest/sites.h"

#include "test.h"

#define N_SITES 3

static struct fm_wire_site sites[N_SITES];

// Site 1 grows by 1000 a look, site 2 comes at look 100, site 0 stays too small.
static void run(struct fm_histories *c, uint32_t n_looks)
{
	for (uint32_t i = 0; i <= n_looks; i++) {
		sites[0] = (struct fm_wire_site){ .alloc_bytes = 10 * i, .live_bytes = FM_HISTORY_MIN_BYTES - 1 };
		sites[1] = (struct fm_wire_site){ .alloc_bytes = 10000 + 2000 * i, .live_bytes = 10000 + 1000 * i };
		sites[2] = (struct fm_wire_site){ .alloc_bytes = i < 100 ? 0 : 9000, .live_bytes = i < 100 ? 0 : 9000 };
		fm_histories_look(c, sites, N_SITES, i, i == n_looks);
	}
}

TEST(looks_stay_few_and_even)
{
	static const uint32_t lengths[] = { 1, 127, 128, 200, 1000, 54321 };
	for (unsigned k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		struct fm_histories c = { 0 };
		uint32_t n = lengths[k];
		run(&c, n);
		CHECK(c.n_looks <= FM_HISTORY_LOOKS);
		CHECK(c.n_looks >= (n < 64 ? n : FM_HISTORY_LOOKS / 2));
		CHECK_EQ(c.look_ns[c.n_looks - 1], n);
		uint64_t widest = 0;
		for (uint32_t i = 1; i < c.n_looks; i++) {
			CHECK(c.look_ns[i] > c.look_ns[i - 1]);
			widest = FM_MAX(widest, c.look_ns[i] - c.look_ns[i - 1]);
		}
		CHECK(widest <= n / (FM_HISTORY_LOOKS / 2) + 1);
		CHECK_EQ(c.histories.n, n >= 100 ? 2u : 1u);
		fm_histories_deinit(&c);
	}
}

TEST(a_point_is_what_was_seen_then)
{
	struct fm_histories c = { 0 };
	run(&c, 700);
	struct fm_history_point first[FM_HISTORY_LOOKS] = { 0 }, both[FM_HISTORY_LOOKS] = { 0 };
	CHECK(!fm_histories_add(&c, 0, first));
	CHECK(!fm_histories_add(&c, 99, first));
	CHECK(fm_histories_add(&c, 1, first));
	CHECK(fm_histories_add(&c, 1, both));
	CHECK(fm_histories_add(&c, 2, both));
	for (uint32_t i = 0; i < c.n_looks; i++) {
		CHECK_EQ(first[i].alloc_bytes, 10000 + 2000 * c.look_ns[i]);
		CHECK_EQ(first[i].live_bytes, 10000 + 1000 * c.look_ns[i]);
		CHECK_EQ(both[i].live_bytes - first[i].live_bytes, c.look_ns[i] < 100 ? 0u : 9000u);
	}
	fm_histories_deinit(&c);
}

TEST_MAIN()
