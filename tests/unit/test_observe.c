// SPDX-License-Identifier: Apache-2.0
#include "scratch.h"

#include "aggregate/tally/tally.h"
#include "format/writer.h"
#include "format/zones.h"
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

struct told {
	uint64_t n_samples, n_events, n_traced, sum;
	uint64_t most; // samples that are wanted; 0 = all
};

static void add_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	struct told *t = ctx;
	for (uint32_t i = 0; i < n; i++)
		t->sum += fm_hash_u64(samples[i].time_ns ^ (uint64_t)samples[i].stack_id << 40 ^
				      (uint64_t)samples[i].thread_id << 56);
	t->n_samples += n;
}

// Takes the batch apart, as each observer may.
static void add_event(void *ctx, const struct fm_profile *profile, struct fm_event *event)
{
	struct told *t = ctx;
	struct fm_zone_event ev;
	t->n_events++;
	while (event->type == FM_EVENT_TRACE && fm_trace_next(profile, event->trace, &ev) == FM_OK)
		t->n_traced++;
}

static bool has_enough(void *ctx)
{
	const struct told *t = ctx;
	return t->most && t->n_samples >= t->most;
}

static void write_part(struct fm_writer *w, uint32_t n_threads, uint64_t from_ns)
{
	for (uint32_t k = 0; k < n_threads; k++) {
		uint32_t thread = fm_writer_thread(w, 0, k + 1, 0);
		struct fm_zone_encoder e = { 0 };
		struct fm_buf body = { 0 };
		for (uint32_t i = 0; i < 3000; i++) {
			uint32_t frame = fm_writer_frame(w, FM_FRAME_NATIVE, FM_NO_ID, from_ns + i % 50);
			fm_writer_sample(w, &(struct fm_sample){ .thread_id = thread,
								 .stack_id = fm_writer_stack(w, FM_ROOT_STACK, frame),
								 .time_ns = from_ns + i,
								 .weight_ns = 1 });
		}
		fm_writer_alloc(w, &(struct fm_alloc){ thread, 0, from_ns, from_ns + k, 64, 64, FM_ALLOC_MALLOC });
		fm_zone_encode(&e, FM_ZONE_ENTER, FM_NO_ID, from_ns, 0);
		fm_zone_encode(&e, FM_ZONE_LEAVE, 0, from_ns + 9, 0);
		CHECK(fm_zone_encoder_take(&e, thread, &body));
		fm_writer_trace(w, thread, body.data, body.len);
		fm_zone_encoder_deinit(&e);
		fm_buf_deinit(&body);
	}
	CHECK_EQ(fm_writer_flush(w), FM_OK);
}

static bool is_same(const struct told *a, const struct told *b)
{
	return a->n_samples == b->n_samples && a->n_events == b->n_events && a->n_traced == b->n_traced &&
	       a->sum == b->sum;
}

// Two observers on the pass, one on the replay, and a file that has grown in between.
TEST(a_replay_is_the_first_pass_again)
{
	const char *path = scratch_file();
	struct fm_writer *w;
	struct fm_reader *r;
	struct fm_diag diag;
	struct told first = { 0 }, second = { 0 }, again = { 0 }, few = { .most = 1 }, samples_alone = { 0 };
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	fm_writer_process(w, &(struct fm_process_info){ .pid = 7 });
	write_part(w, 2, 1000);
	CHECK_EQ(fm_reader_open(path, &r, &diag), FM_OK);
	const struct fm_observer observers[] = { { add_samples, add_event, NULL, &first },
						 { add_samples, add_event, NULL, &second } };
	CHECK_EQ(fm_reader_run(r, observers, FM_ARRAY_LEN(observers)), FM_OK);
	CHECK_EQ(first.n_samples, 6000);
	CHECK_EQ(first.n_events, 4);
	CHECK_EQ(first.n_traced, 4);
	CHECK(is_same(&first, &second));

	write_part(w, 3, 900000); // other stacks, and a thread more
	size_t n_stacks = fm_reader_profile(r)->stacks.n;
	fm_reader_add_stack(r, (struct fm_stack){ 0, 0 }); // as workers do, between replays
	CHECK_EQ(fm_reader_replay(r, &(struct fm_observer){ add_samples, add_event, NULL, &again }, &diag), FM_OK);
	CHECK(is_same(&first, &again));
	CHECK_EQ(fm_reader_profile(r)->stacks.n, n_stacks + 1);

	CHECK_EQ(fm_reader_replay(r, &(struct fm_observer){ add_samples, NULL, NULL, &samples_alone }, &diag), FM_OK);
	CHECK(samples_alone.sum == first.sum && !samples_alone.n_events);
	CHECK_EQ(fm_reader_replay(r, &(struct fm_observer){ add_samples, add_event, has_enough, &few }, &diag), FM_OK);
	CHECK(few.n_samples && few.n_samples < first.n_samples);

	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	CHECK(!unlink(path));
	CHECK_EQ(fm_reader_replay(r, &observers[0], &diag), FM_E_NOT_FOUND);
	fm_reader_close(r);
}

TEST_MAIN()
