#include "test.h"

#include "aggregate/sample_queue.h"

static struct fm_sample sample_at(uint32_t i)
{
	uint32_t h = i * 2654435761u;
	return (struct fm_sample){ .thread_id = h >> 8 & 7,
				   .stack_id = h >> 12 & 0x3ff,
				   .time_ns = 1000u * i,
				   .weight_ns = 900 + (h & 127),
				   .class = (uint8_t)(h >> 24 & 3) };
}

// Nothing, part of a block, whole blocks, and more of them than wait at a time.
TEST(every_sample_is_counted_once)
{
	static const uint32_t sizes[] = { 0, 1, 4095, 4096, 4097, 40000, 500001 };
	for (size_t k = 0; k < FM_ARRAY_LEN(sizes); k++) {
		struct fm_tally by_queue = { 0 }, at_once = { 0 };
		struct fm_sample_queue *q = fm_sample_queue_begin(&by_queue);
		for (uint32_t i = 0; i < sizes[k]; i++) {
			struct fm_sample s = sample_at(i);
			fm_sample_queue_put(q, &s);
			fm_tally_add(&at_once, &s);
		}
		fm_sample_queue_end(q);
		CHECK_EQ(by_queue.n_samples, sizes[k]);
		CHECK_EQ(by_queue.cells.n, at_once.cells.n);
		for (size_t i = 0; i < at_once.cells.n; i++) { // in the same order, too
			const struct fm_cell *a = &by_queue.cells.items[i], *b = &at_once.cells.items[i];
			CHECK(a->thread_id == b->thread_id && a->stack_id == b->stack_id && a->class == b->class);
			CHECK(a->n == b->n && a->weight_ns == b->weight_ns && a->last_ns == b->last_ns);
		}
		fm_tally_deinit(&by_queue);
		fm_tally_deinit(&at_once);
	}
}

TEST_MAIN()
