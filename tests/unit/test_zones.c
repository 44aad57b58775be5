// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <unistd.h>

#include "aggregate/analysis/timeline.h"
#include "aggregate/analysis/zone_spans.h"
#include "format/writer.h"
#include "format/zones.h"

#define MAX_TRUTH 60000
#define N_THREADS 3
#define DEPTH 6

static struct truth {
	uint32_t thread, depth;
	uint64_t begin_ns, end_ns;
} truth[MAX_TRUTH];
static size_t n_truth;

static char path[64];

static struct fm_writer *open_writer(void)
{
	struct fm_writer *w;
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/tmp/fathom-zones-%d.fathom", (int)getpid());
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	struct fm_process_info process = { .pid = 7, .start_ns = 1 };
	fm_writer_process(w, &process);
	return w;
}

static void read_back(struct fm_writer *w, struct fm_zones *ret)
{
	struct fm_diag diag;
	struct fm_timeline t = { 0 };
	struct fm_timeline_builder builder = { &t, ret, 1000 };
	struct fm_reader *reader;
	*ret = (struct fm_zones){ 0 };
	const struct fm_observer observer = fm_timeline_observer(&builder);
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	CHECK_EQ(fm_reader_open(path, &reader, &diag), FM_OK);
	CHECK_EQ(fm_reader_run(reader, &observer, 1), FM_OK);
	fm_reader_close(reader);
	fm_timeline_finish(&builder);
	fm_timeline_deinit(&t);
	unlink(path);
}

static uint64_t below(uint64_t n)
{
	return (uint64_t)rand() % n;
}

// Zones of all lengths within [from, to], nested at random: what each is, is written down.
static void fill(struct fm_zone_encoder *e, uint32_t thread, uint32_t depth, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t now = from_ns;
	while (n_truth < MAX_TRUTH * (thread + 1) / N_THREADS) {
		uint64_t pause = below(4) ? below(50) : 0, length = below(10) ? below(300) : below(200000);
		if (now + pause + length > to_ns)
			return;
		now += pause;
		fm_zone_encode(e, FM_ZONE_ENTER, (uint32_t)below(20), now, 0);
		size_t mine = n_truth++;
		truth[mine] = (struct truth){ thread, depth, now, now + length };
		if (depth + 1 < DEPTH)
			fill(e, thread, depth + 1, now, now + length);
		now += length;
		fm_zone_encode(e, FM_ZONE_LEAVE, 0, now, 0);
	}
}

static void make(struct fm_zones *ret, uint64_t *ret_end_ns)
{
	struct fm_writer *w = open_writer();
	for (uint32_t i = 0; i < 20; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		struct fm_code_info info = { .name = fm_str_of(name), .filename = FM_STR_LIT("a.py"), .first_line = i };
		CHECK_EQ(fm_writer_code(w, &info), i);
	}
	n_truth = 0;
	srand(11);
	for (uint32_t t = 0; t < N_THREADS; t++) {
		struct fm_zone_encoder e = { 0 };
		struct fm_buf body = { 0 };
		CHECK_EQ(fm_writer_thread(w, 0, 7 + t, 1), t);
		fill(&e, t, 0, 1000 + t, 1000000000);
		CHECK(fm_zone_encoder_take(&e, t, &body));
		fm_writer_trace(w, t, body.data, body.len);
		fm_buf_deinit(&body);
		fm_zone_encoder_deinit(&e);
	}
	read_back(w, ret);
	*ret_end_ns = ret->end_ns;
}

static bool overlaps(const struct truth *z, uint64_t from_ns, uint64_t to_ns)
{
	return z->begin_ns < to_ns && (z->end_ns > from_ns || z->begin_ns >= from_ns);
}

TEST(every_zone_of_a_range_is_in_one_span)
{
	struct fm_zones z;
	uint64_t end_ns;
	make(&z, &end_ns);
	CHECK_EQ(z.n, n_truth);
	for (int round = 0; round < 200; round++) {
		uint64_t from_ns = below(end_ns), to_ns = from_ns + 1 + below(round % 2 ? end_ns - from_ns : 3000);
		struct fm_filter one = { .has_threads = true };
		fm_filter_mark(&one, (uint32_t)round % N_THREADS);
		struct fm_zone_range range = { from_ns, to_ns, round % 5 ? 1 + (uint32_t)below(3000) : 0,
					       round % 3 ? DEPTH : 3, round % 4 ? NULL : &one };
		struct fm_zone_spans spans;
		fm_zone_spans_find(&spans, &z, &range);
		uint64_t counts[N_THREADS][DEPTH] = { 0 }, busy[N_THREADS][DEPTH] = { 0 }, n_merged = 0;
		uint64_t n_deeper = spans.n_deeper;
		for (size_t i = 0; i < spans.items.n; i++) {
			const struct fm_zone_span *s = &spans.items.items[i], *last = i ? s - 1 : NULL;
			bool is_same_row = last && last->thread_id == s->thread_id && last->depth == s->depth;
			CHECK(s->depth < range.max_depth && s->begin_ns <= s->end_ns && s->n > 0);
			CHECK(!is_same_row || last->end_ns <= s->begin_ns);
			CHECK(s->busy_ns <= s->end_ns - s->begin_ns);
			// Only what is narrower than a pixel is merged, and into no more than one.
			CHECK(s->n == 1 ||
			      (range.pixels && s->end_ns - s->begin_ns <= 3 * ((to_ns - from_ns) / range.pixels + 1)));
			counts[s->thread_id][s->depth] += s->n;
			busy[s->thread_id][s->depth] += s->busy_ns;
			n_merged += s->n > 1 ? s->n : 0;
		}
		CHECK_EQ(n_merged, spans.n_merged);
		for (size_t i = 0; i < n_truth; i++) {
			const struct truth *t = &truth[i];
			if (!overlaps(t, from_ns, to_ns) || (range.threads && t->thread != (uint32_t)round % N_THREADS))
				continue;
			if (t->depth >= range.max_depth) {
				n_deeper--;
				continue;
			}
			counts[t->thread][t->depth]--;
			busy[t->thread][t->depth] -= t->end_ns - t->begin_ns;
		}
		CHECK_EQ(n_deeper, 0);
		for (uint32_t t = 0; t < N_THREADS; t++)
			for (uint32_t d = 0; d < DEPTH; d++) {
				CHECK_EQ(counts[t][d], 0);
				CHECK_EQ(busy[t][d], 0);
			}
		fm_zone_spans_deinit(&spans);
		fm_filter_deinit(&one);
	}
	fm_zones_deinit(&z);
}

TEST(a_merged_span_has_the_name_of_its_longest_zone)
{
	struct fm_writer *w = open_writer();
	struct fm_zone_encoder e = { 0 };
	struct fm_buf body = { 0 };
	for (uint32_t i = 0; i < 2; i++) {
		struct fm_code_info info = { .name = i ? FM_STR_LIT("long") : FM_STR_LIT("short"), .first_line = i };
		fm_writer_code(w, &info);
	}
	fm_writer_thread(w, 0, 7, 1);
	for (uint32_t i = 0; i < 1000; i++) { // one of a thousand is longer
		fm_zone_encode(&e, FM_ZONE_ENTER, i == 777, 1000 + 10 * i, 0);
		fm_zone_encode(&e, FM_ZONE_LEAVE, 0, 1000 + 10 * i + (i == 777 ? 9 : 5), 0);
	}
	CHECK(fm_zone_encoder_take(&e, 0, &body));
	fm_writer_trace(w, 0, body.data, body.len);
	struct fm_zones z;
	read_back(w, &z);
	struct fm_zone_range range = { 0, 20000, 1, 0, NULL };
	struct fm_zone_spans spans;
	fm_zone_spans_find(&spans, &z, &range);
	CHECK_EQ(spans.items.n, 1);
	CHECK_EQ(spans.items.items[0].n, 1000);
	CHECK_EQ(spans.items.items[0].busy_ns, 999 * 5 + 9);
	CHECK_EQ(z.labels.items[spans.items.items[0].label].ref, fm_zone_ref_of(FM_ZONE_ENTER, 1));
	fm_zone_spans_deinit(&spans);
	uint32_t pixels;
	fm_zone_spans_fit(&spans, &z, range, 1000, &pixels);
	CHECK(pixels == 0 && spans.items.n == 1000 && !spans.n_merged);
	fm_zone_spans_deinit(&spans);
	fm_zone_spans_fit(&spans, &z, range, 600, &pixels);
	CHECK(pixels == 512 && spans.items.n <= 600 && spans.n_merged > 500);
	fm_zone_spans_deinit(&spans);
	fm_zones_deinit(&z);
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
}

TEST(sums_are_of_all_zones_also_of_those_left_out)
{
	struct fm_zones z = { .max = 1000 };
	struct fm_profile p = { 0 };
	fm_vec_grow_to(&p.codes, 1);
	struct fm_zone_encoder e = { 0 };
	struct fm_buf body = { 0 };
	uint64_t now = 1000, sum = 0;
	for (uint32_t i = 0; i < 5000; i++) {
		uint64_t length = i % 10 == 9 ? 20000 : 600;
		fm_zone_encode(&e, FM_ZONE_ENTER, 0, now, 0);
		fm_zone_encode(&e, FM_ZONE_LEAVE, 0, now += length, 0);
		sum += length;
	}
	CHECK(fm_zone_encoder_take(&e, 0, &body));
	struct fm_cursor c = fm_cursor_over(body.data, body.len);
	// The record has the thread in front (fm_zones_get).
	struct fm_zone_batch batch;
	CHECK_EQ(fm_zones_get(&c, &batch), FM_OK);
	fm_zones_add(&z, &p, &batch);
	fm_zones_finish(&z);
	CHECK(z.n < 1000 && z.grain_ns > 600);
	CHECK_EQ(z.n + z.n_left_out, 5000);
	CHECK_EQ(z.labels.items[1].n_calls, 5000);
	CHECK_EQ(z.labels.items[1].spans.n, 5000);
	CHECK_EQ(z.labels.items[1].spans.sum_ns, sum);
	CHECK_EQ(z.labels.items[1].spans.min_ns, 600);
	CHECK_EQ(z.labels.items[1].spans.max_ns, 20000);
	CHECK_EQ(z.labels.items[1].spans.buckets[fm_duration_bucket(600)], 4500);
	struct fm_zone_range range = { 0, UINT64_MAX, 100, 0, NULL };
	struct fm_zone_spans spans;
	fm_zone_spans_find(&spans, &z, &range);
	uint64_t n = 0;
	for (size_t i = 0; i < spans.items.n; i++)
		n += spans.items.items[i].n;
	CHECK_EQ(n, z.n);
	fm_zone_spans_deinit(&spans);
	fm_zones_deinit(&z);
	fm_vec_deinit(&p.codes);
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
}

// Values of n counters in turns, rounds times: each value is its counter's number.
static void count(struct fm_zones *z, struct fm_profile *p, uint32_t n, uint32_t rounds)
{
	struct fm_zone_encoder e = { 0 };
	struct fm_buf body = { 0 };
	struct fm_zone_batch batch;
	fm_vec_grow_to(&p->trace_names, n);
	for (uint32_t r = 0; r < rounds; r++) {
		for (uint32_t i = 0; i < n; i++)
			fm_zone_encode(&e, FM_ZONE_COUNTER, i, 1000 + r * n + i, i);
		body.len = 0;
		CHECK(fm_zone_encoder_take(&e, 0, &body));
		struct fm_cursor c = fm_cursor_over(body.data, body.len);
		CHECK_EQ(fm_zones_get(&c, &batch), FM_OK);
		fm_zones_add(z, p, &batch);
	}
	fm_zones_finish(z);
	fm_vec_deinit(&p->trace_names);
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
}

TEST(no_counter_is_left_out_however_many_there_are)
{
	struct fm_zones z = { 0 };
	struct fm_profile p = { 0 };
	count(&z, &p, 1000, 3);
	CHECK_EQ(z.counters.n, 1000);
	for (uint32_t i = 0; i < z.counters.n; i++) {
		const struct fm_zone_counter *c = &z.counters.items[i];
		CHECK_EQ(c->n_seen, 3);
		CHECK_EQ(c->points.n, 3);
		CHECK(c->points.items[2].value == i && c->points.items[2].time_ns == 3000 + i);
	}
	fm_zones_deinit(&z);
}

TEST(values_of_many_counters_are_thinned_evenly_to_what_memory_has)
{
	struct fm_zones z = { 0 };
	struct fm_profile p = { 0 };
	count(&z, &p, 500, 5000); // 2.5 million
	size_t n = 0;
	for (uint32_t i = 0; i < z.counters.n; i++) {
		const struct fm_zone_counter *c = &z.counters.items[i];
		n += c->points.n;
		CHECK_EQ(c->n_seen, 5000);
		CHECK_EQ(c->points.n, (5000 + c->stride - 1) / c->stride);
		CHECK(c->points.n > 500);
		for (size_t k = 0; k < c->points.n; k++)
			CHECK_EQ(c->points.items[k].time_ns, 1000 + k * c->stride * 500 + i);
	}
	CHECK_EQ(n, z.n_points);
	CHECK(n <= 64 * 8192);
	fm_zones_deinit(&z);
}

TEST(more_counters_than_values_fit_keep_one_each)
{
	struct fm_zones z = { 0 };
	struct fm_profile p = { 0 };
	count(&z, &p, 600000, 2);
	CHECK_EQ(z.counters.n, 600000);
	CHECK(z.n_points >= 600000 && z.n_points <= 1200000);
	fm_zones_deinit(&z);
}

TEST_MAIN()
