// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "aggregate/tally/tally.h"
#include "read/observe.h"

static struct fm_sample sample_at(uint32_t i)
{
	uint32_t h = i * 2654435761u;
	return (struct fm_sample){ .thread_id = h >> 8 & 7,
				   .stack_id = h >> 12 & 0x3ff,
				   .time_ns = 1000u * i,
				   .weight_ns = 900 + (h & 127),
				   .class = (uint8_t)(h >> 24 & 3) };
}

// What the observer saw: how many, and whether in order.
struct seen {
	uint64_t n, last_ns;
	bool is_ordered;
};

static void on_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	struct seen *seen = ctx;
	for (uint32_t i = 0; i < n; i++) {
		seen->is_ordered = seen->is_ordered && (!seen->n || samples[i].time_ns > seen->last_ns);
		seen->last_ns = samples[i].time_ns;
		seen->n++;
	}
}

// Nothing, part of a block, whole blocks, and more of them than wait at a time; handed over in
// pieces of every size, of which neighbours are often of one cell.
TEST(every_sample_is_counted_and_seen_once)
{
	static struct fm_sample piece[7000];
	static const uint32_t sizes[] = { 0, 1, 4095, 4096, 4097, 40000, 500001 };
	for (size_t k = 0; k < FM_ARRAY_LEN(sizes); k++) {
		struct fm_tally by_queue = { 0 }, at_once = { 0 };
		struct seen seen = { .is_ordered = true };
		const struct fm_observer observers[] = { fm_tally_observer(&by_queue),
							 { .on_samples = on_samples, .ctx = &seen } };
		struct fm_sample_queue *q = fm_sample_queue_begin(observers, FM_ARRAY_LEN(observers));
		uint32_t n = 0, size = 1;
		for (uint32_t i = 0; i < sizes[k]; i++) {
			piece[n] = sample_at(i / 3);
			piece[n].time_ns = 1000 + i;
			fm_tally_add(&at_once, &piece[n++], 1);
			if (n == size || i + 1 == sizes[k]) {
				fm_sample_queue_put(q, piece, n);
				n = 0;
				size = size % FM_ARRAY_LEN(piece) * 3 + 1;
				size = FM_MIN(size, (uint32_t)FM_ARRAY_LEN(piece));
			}
		}
		fm_sample_queue_end(q);
		CHECK_EQ(seen.n, sizes[k]);
		CHECK(seen.is_ordered);
		CHECK_EQ(by_queue.n_samples, sizes[k]);
		CHECK_EQ(by_queue.cells.n, at_once.cells.n);
		for (size_t i = 0; i < at_once.cells.n; i++) { // in the same order, too
			const struct fm_cell *a = &by_queue.cells.items[i], *b = &at_once.cells.items[i];
			CHECK(a->thread_id == b->thread_id && a->stack_id == b->stack_id && a->class == b->class);
			CHECK(a->n == b->n && a->weight_ns == b->weight_ns && a->last_ns == b->last_ns);
			CHECK(a->weight_sq == b->weight_sq); // to the bit: added in the same order
		}
		fm_tally_deinit(&by_queue);
		fm_tally_deinit(&at_once);
	}
}

TEST_MAIN()
