// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "base/compiler.h"
#include "render/export/spool.h"

// 7 threads, several blocks each; every third sample repeats the node before it.
TEST(a_spool_gives_back_each_threads_runs_in_order)
{
	struct fm_spool s = { 0 };
	const uint32_t n_threads = 7, n_each = FM_SPOOL_BLOCK * 5 + 13;
	for (uint32_t i = 0; i < n_each; i++)
		for (uint32_t t = 0; t < n_threads; t++) {
			uint32_t node = (i - (i % 3 == 2)) * 10 + t;
			CHECK_EQ(fm_spool_add(&s, t, (struct fm_run){ .node = node, .weight_ns = 1 + t }, NULL), FM_OK);
		}
	for (uint32_t t = 0; t < n_threads; t++) {
		struct fm_run runs[FM_SPOOL_BLOCK];
		uint32_t n, expected = 0;
		uint64_t weight = 0, n_runs = 0;
		for (size_t b = 0; !fm_spool_read(&s, t, b, runs, &n, NULL); b++)
			for (uint32_t i = 0; i < n; i++, n_runs++) {
				CHECK_EQ(runs[i].node, expected * 10 + t);
				CHECK(runs[i].weight_ns == 1 + t || runs[i].weight_ns == 2 * (1 + t));
				weight += runs[i].weight_ns;
				expected += expected % 3 == 1 ? 2 : 1;
			}
		CHECK_EQ(weight, (uint64_t)n_each * (1 + t));
		CHECK_EQ(s.threads.items[t].weight_ns, weight);
		CHECK_EQ(s.threads.items[t].n_runs, n_runs);
	}
	fm_spool_deinit(&s);
}

TEST(an_empty_spool_has_nothing)
{
	struct fm_spool s = { 0 };
	struct fm_run runs[FM_SPOOL_BLOCK];
	uint32_t n;
	CHECK_EQ(fm_spool_add(&s, 3, (struct fm_run){ .node = 1, .weight_ns = 5 }, NULL), FM_OK);
	CHECK_EQ(fm_spool_read(&s, 0, 0, runs, &n, NULL), FM_E_END);
	CHECK_EQ(fm_spool_read(&s, 3, 0, runs, &n, NULL), FM_OK);
	CHECK_EQ(n, 1);
	CHECK_EQ(fm_spool_read(&s, 3, 1, runs, &n, NULL), FM_E_END);
	fm_spool_deinit(&s);
}

TEST(samples_are_joined_unless_each_is_to_be_one)
{
	for (int keeps_each = 0; keeps_each < 2; keeps_each++) {
		struct fm_spool s = { .keeps_each = keeps_each };
		struct fm_run runs[FM_SPOOL_BLOCK];
		uint32_t n;
		const uint8_t classes[] = { 0, 0, 1, 1, 1, 0 };
		for (unsigned i = 0; i < FM_ARRAY_LEN(classes); i++)
			CHECK_EQ(fm_spool_add(&s, 0, (struct fm_run){ 4, classes[i], 10, 100 + i }, NULL), FM_OK);
		CHECK_EQ(fm_spool_read(&s, 0, 0, runs, &n, NULL), FM_OK);
		CHECK_EQ(n, keeps_each ? 6 : 3);
		CHECK_EQ(runs[1].class, !keeps_each);
		CHECK_EQ(runs[1].weight_ns, keeps_each ? 10 : 30);
		CHECK_EQ(runs[1].end_ns, keeps_each ? 101 : 104);
		fm_spool_deinit(&s);
	}
}

TEST_MAIN()
