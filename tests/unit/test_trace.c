// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <unistd.h>

#include "format/writer.h"
#include "format/zones.h"
#include "support/open.h"

static char path[64];

static struct fm_writer *open_writer(void)
{
	struct fm_writer *w;
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/tmp/fathom-test-%d.fathom", (int)getpid());
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	struct fm_process_info process = { .pid = 7 };
	fm_writer_process(w, &process);
	return w;
}

static uint32_t code(struct fm_writer *w, const char *name, uint32_t line)
{
	struct fm_code_info info = {
		.name = fm_str_of(name), .qualname = fm_str_of(name), .filename = FM_STR_LIT("a.py"), .first_line = line
	};
	return fm_writer_code(w, &info);
}

static void give(struct fm_writer *w, struct fm_zone_encoder *e, uint32_t thread)
{
	struct fm_buf body = { 0 };
	CHECK(fm_zone_encoder_take(e, thread, &body));
	fm_writer_trace(w, thread, body.data, body.len);
	CHECK_EQ(fm_writer_flush(w), FM_OK);
	fm_buf_deinit(&body);
}

static struct fm_analysis *analysis; // of the test that runs

static const struct fm_trace_stats *read_back(void)
{
	struct fm_diag diag;
	fm_analysis_close(analysis);
	CHECK_EQ(open_analysis(path, &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_CALLS, &analysis, &diag), FM_OK);
	unlink(path);
	return analysis->calls;
}

static const struct fm_trace_stats *close_and_read(struct fm_writer *w)
{
	struct fm_diag diag;
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	return read_back();
}

static const struct fm_traced_function *function(const struct fm_trace_stats *s, const char *name)
{
	for (size_t i = 0; i < s->functions.n; i++)
		if (fm_str_eq(s->functions.items[i].name, fm_str_of(name)))
			return &s->functions.items[i];
	printf("no function %s\n", name);
	CHECK(false);
	return NULL;
}

#define PUT(op, ref, ns) fm_zone_encode(&e, FM_ZONE_##op, ref, ns, 0)

TEST(an_encoded_batch_reads_back)
{
	static const struct fm_zone_event events[] = {
		{ 3, FM_ZONE_NOTE, FM_ZONE_ON, 1000, 0 },
		{ 3, FM_ZONE_ENTER, 5, 1000, 0 },
		{ 3, FM_ZONE_ENTER, FM_NO_ID, 1007, 0 },
		{ 3, FM_ZONE_LINE, 70000, 1007, 0 },
		{ 3, FM_ZONE_BEGIN, 2, 90000000000, 0 },
		{ 3, FM_ZONE_COUNTER, 1, 90000000001, -2.5 },
		{ 3, FM_ZONE_LEAVE, 0, 90000000001, 0 },
		{ 3, FM_ZONE_MARK, 0, 90000000002, 0 },
		{ 3, FM_ZONE_NOTE, FM_ZONE_LOST, 90000000002, 12 },
		{ 3, FM_ZONE_RESUME, 9, 90000000003, 0 },
	};
	struct fm_zone_encoder e = { 0 };
	for (size_t i = 0; i < FM_ARRAY_LEN(events); i++)
		fm_zone_encode(&e, events[i].op, events[i].ref, events[i].time_ns, events[i].value);
	CHECK_EQ(e.open.n, 3);
	struct fm_buf body = { 0 };
	CHECK(fm_zone_encoder_take(&e, 3, &body));
	CHECK(!fm_zone_encoder_take(&e, 3, &body));
	struct fm_cursor c = fm_cursor_over(body.data, body.len);
	struct fm_zone_batch batch;
	CHECK_EQ(fm_zones_get(&c, &batch), FM_OK);
	CHECK_EQ(batch.depth, 0);
	struct fm_zone_event ev;
	for (size_t i = 0; i < FM_ARRAY_LEN(events); i++) {
		CHECK_EQ(fm_zone_batch_next(&batch, &ev), FM_OK);
		CHECK(ev.thread_id == 3 && ev.op == events[i].op && ev.time_ns == events[i].time_ns);
		CHECK(ev.ref == events[i].ref && ev.value == events[i].value);
	}
	CHECK_EQ(fm_zone_batch_next(&batch, &ev), FM_E_END);
	// The next batch lists what is open.
	body.len = 0;
	fm_zone_encode(&e, FM_ZONE_LEAVE, 0, 90000000004, 0);
	CHECK(fm_zone_encoder_take(&e, 3, &body));
	c = fm_cursor_over(body.data, body.len);
	CHECK_EQ(fm_zones_get(&c, &batch), FM_OK);
	CHECK_EQ(batch.depth, 3);
	CHECK_EQ(batch.n_listed, 3);
	CHECK_EQ(fm_cursor_varint(&batch.listed), fm_zone_ref_of(FM_ZONE_ENTER, 5));
	CHECK_EQ(fm_cursor_varint(&batch.listed), fm_zone_ref_of(FM_ZONE_ENTER, FM_NO_ID));
	CHECK_EQ(fm_zone_ref_id(fm_zone_ref_of(FM_ZONE_ENTER, FM_NO_ID)), FM_NO_ID);
	CHECK_EQ(fm_cursor_varint(&batch.listed), fm_zone_ref_of(FM_ZONE_RESUME, 9));
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
}

TEST(a_cut_batch_is_no_batch)
{
	struct fm_zone_encoder e = { 0 };
	struct fm_buf body = { 0 };
	for (int i = 0; i < 100; i++)
		PUT(ENTER, (uint32_t)i, 1000u + (unsigned)i);
	CHECK(fm_zone_encoder_take(&e, 0, &body));
	for (size_t len = 0; len < body.len; len++) {
		struct fm_cursor c = fm_cursor_over(body.data, len);
		struct fm_zone_batch batch;
		struct fm_zone_event ev;
		if (fm_zones_get(&c, &batch))
			continue;
		unsigned n = 0;
		enum fm_err err;
		while (!(err = fm_zone_batch_next(&batch, &ev)))
			CHECK_EQ(ev.ref, n++);
		CHECK(err == FM_E_TRUNCATED && n < 100);
	}
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
}

// main [0, 100): f [10, 60): f [20, 30); g [40, 50). Then f [70, 80) by main.
TEST(times_and_recursion)
{
	struct fm_writer *w = open_writer();
	uint32_t thread = fm_writer_thread(w, 0, 7, 0), m = code(w, "main", 1), f = code(w, "f", 5),
		 g = code(w, "g", 9);
	struct fm_zone_encoder e = { 0 };
	fm_zone_encode(&e, FM_ZONE_NOTE, FM_ZONE_ON, 90, 0);
	PUT(ENTER, m, 100), PUT(ENTER, f, 110), PUT(ENTER, f, 120), PUT(LEAVE, 0, 130);
	PUT(ENTER, g, 140), PUT(LEAVE, 0, 150), PUT(LEAVE, 0, 160);
	PUT(ENTER, f, 170), PUT(LEAVE, 0, 180), PUT(LEAVE, 0, 200);
	fm_zone_encode(&e, FM_ZONE_NOTE, FM_ZONE_OFF, 205, 0);
	give(w, &e, thread);
	const struct fm_trace_stats *s = close_and_read(w);
	const struct fm_traced_function *fm = function(s, "main"), *ff = function(s, "f"), *fg = function(s, "g");
	CHECK_EQ(fm->total_ns, 100);
	CHECK_EQ(fm->own_ns, 40);
	CHECK_EQ(ff->n_calls, 3);
	CHECK_EQ(ff->n_recursive, 1);
	CHECK_EQ(ff->total_ns, 60); // the inner one is inside the outer one
	CHECK_EQ(ff->own_ns, 50);
	CHECK_EQ(ff->spans.min_ns, 10);
	CHECK_EQ(ff->spans.max_ns, 50);
	CHECK_EQ(fg->own_ns, 10);
	CHECK_EQ(s->threads.items[thread].region_ns, 115);
	CHECK_EQ(s->threads.items[thread].outside_ns, 15);
	CHECK_EQ(fm->own_ns + ff->own_ns + fg->own_ns + s->threads.items[thread].outside_ns, 115);
	for (size_t i = 0; i < s->edges.n; i++) {
		const struct fm_trace_edge *edge = &s->edges.items[i];
		if (edge->callee == (uint32_t)(ff - s->functions.items) &&
		    edge->caller == (uint32_t)(fm - s->functions.items)) {
			CHECK_EQ(edge->n_calls, 2);
			CHECK_EQ(edge->total_ns, 60);
			CHECK_EQ(edge->own_ns, 40);
		}
	}
	fm_zone_encoder_deinit(&e);
}

// Two threads are in one function at the same time: neither is the other's recursion.
TEST(threads_do_not_mix)
{
	struct fm_writer *w = open_writer();
	uint32_t f = code(w, "f", 5), threads[2];
	struct fm_zone_encoder all[2];
	memset(all, 0, sizeof(all));
	for (int i = 0; i < 2; i++) {
		threads[i] = fm_writer_thread(w, 0, 7u + (unsigned)i, 0);
		fm_zone_encode(&all[i], FM_ZONE_ENTER, f, 100, 0);
		give(w, &all[i], threads[i]);
	}
	for (int i = 0; i < 2; i++) {
		fm_zone_encode(&all[i], FM_ZONE_LEAVE, 0, 200, 0);
		give(w, &all[i], threads[i]);
		fm_zone_encoder_deinit(&all[i]);
	}
	const struct fm_trace_stats *s = close_and_read(w);
	CHECK_EQ(function(s, "f")->n_recursive, 0);
	CHECK_EQ(function(s, "f")->total_ns, 200);
}

TEST(resumed_generators_are_no_calls)
{
	struct fm_writer *w = open_writer();
	uint32_t thread = fm_writer_thread(w, 0, 7, 0), g = code(w, "g", 9);
	struct fm_zone_encoder e = { 0 };
	PUT(ENTER, g, 100), PUT(LEAVE, 0, 110), PUT(RESUME, g, 150), PUT(LEAVE, 0, 170);
	give(w, &e, thread);
	const struct fm_trace_stats *s = close_and_read(w);
	CHECK_EQ(function(s, "g")->n_calls, 1);
	CHECK_EQ(function(s, "g")->spans.n, 2);
	CHECK_EQ(function(s, "g")->own_ns, 30);
	fm_zone_encoder_deinit(&e);
}

// A chunk in the middle is damaged: what is open afterwards is known from the next batch, and its
// end is no surprise.
TEST(a_lost_part_leaves_the_rest_in_step)
{
	struct fm_writer *w = open_writer();
	uint32_t thread = fm_writer_thread(w, 0, 7, 0), m = code(w, "main", 1), f = code(w, "f", 5),
		 g = code(w, "g", 9);
	struct fm_zone_encoder e = { 0 };
	PUT(ENTER, m, 100);
	give(w, &e, thread);
	uint64_t before = fm_writer_bytes(w);
	PUT(ENTER, f, 110), PUT(ENTER, g, 120);
	give(w, &e, thread);
	uint64_t after = fm_writer_bytes(w);
	PUT(LEAVE, 0, 130), PUT(LEAVE, 0, 140), PUT(LEAVE, 0, 150);
	give(w, &e, thread);
	struct fm_diag diag;
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	FILE *file = fopen(path, "r+b");
	CHECK(file && !fseek(file, (long)(before + after) / 2 + 8, SEEK_SET) && fputc('!', file) != EOF &&
	      !fclose(file));
	const struct fm_trace_stats *s = read_back();
	CHECK_EQ(function(s, "main")->n_calls, 1);
	CHECK_EQ(function(s, "g")->n_calls, 0); // its beginning was lost
	CHECK_EQ(function(s, "g")->spans.n, 1);
	CHECK_EQ(function(s, "main")->own_ns + function(s, "f")->own_ns + function(s, "g")->own_ns, 50);
	CHECK(s->n_lost > 0);
	fm_zone_encoder_deinit(&e);
}

// main { short { shorter } long { short } } with 100 ns as the limit: main { long }.
TEST(short_ones_are_taken_back)
{
	struct fm_writer *w = open_writer();
	uint32_t thread = fm_writer_thread(w, 0, 7, 0), m = code(w, "main", 1), f = code(w, "f", 5),
		 g = code(w, "g", 9);
	struct fm_zone_encoder e = { .min_ns = 100 };
	PUT(ENTER, m, 1000);
	PUT(ENTER, f, 1010), PUT(ENTER, f, 1020), PUT(LEAVE, 0, 1030), PUT(LEAVE, 0, 1060);
	PUT(ENTER, g, 1100), PUT(ENTER, f, 1110), PUT(LEAVE, 0, 1120), PUT(LEAVE, 0, 1300);
	CHECK_EQ(e.n_left_out, 3);
	PUT(LEAVE, 0, 1400);
	give(w, &e, thread);
	const struct fm_trace_stats *s = close_and_read(w);
	CHECK_EQ(s->functions.n, 2);
	CHECK_EQ(function(s, "g")->own_ns, 200);
	CHECK_EQ(function(s, "main")->own_ns, 200);
	CHECK_EQ(function(s, "main")->total_ns, 400);
	fm_zone_encoder_deinit(&e);
}

static fm_zone_ref of_code(uint32_t id)
{
	return fm_zone_ref_of(FM_ZONE_ENTER, id);
}

TEST(sums_of_calls_count_without_a_trace)
{
	struct fm_writer *w = open_writer();
	uint32_t f = code(w, "f", 1), g = code(w, "g", 2),
		 len = fm_writer_trace_name(w, FM_NAME_FUNCTION, FM_STR_LIT("len"));
	fm_zone_ref native = fm_zone_ref_of(FM_ZONE_BEGIN, len);
	const struct fm_call_sum sums[] = {
		{ .callee = of_code(f), .n_calls = 2, .own_ns = 100, .total_ns = 1ull << 40 },
		{ .callee = of_code(g), .n_calls = 9, .n_recursive = 3, .own_ns = 40, .total_ns = 70 },
		{ .callee = of_code(g), .n_calls = 1, .own_ns = 2, .total_ns = 2 },
		{ .callee = native, .n_calls = 5, .own_ns = 30, .total_ns = 30 },
		{ .is_pair = true,
		  .caller = of_code(f),
		  .callee = of_code(g),
		  .n_calls = 6,
		  .own_ns = 41,
		  .total_ns = 69 },
		{ .is_pair = true,
		  .caller = of_code(g),
		  .callee = native,
		  .n_calls = 5,
		  .n_recursive = 1,
		  .total_ns = 30 },
		{ .is_pair = true, .caller = of_code(77), .callee = of_code(g), .n_calls = 1 }, // who is 77?
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(sums); i++)
		fm_writer_call_sum(w, &sums[i]);
	const struct fm_trace_stats *s = close_and_read(w);
	CHECK_EQ(s->n_calls, 17);
	CHECK_EQ(s->n_sums, FM_ARRAY_LEN(sums));
	CHECK_EQ(s->summed_ns, 172);
	CHECK_EQ(s->profile->n_undefined_refs, 0); // the writer gives out nothing that it does not know
	CHECK_EQ(function(s, "f")->total_ns, 1ull << 40);
	CHECK_EQ(function(s, "g")->n_calls, 10);
	CHECK_EQ(function(s, "g")->n_recursive, 3);
	CHECK_EQ(function(s, "g")->own_ns, 42);
	CHECK_EQ(function(s, "g")->spans.n, 0);
	CHECK_EQ(function(s, "len")->kind, FM_TRACE_NATIVE);
	CHECK_EQ(s->edges.n, 3);
	CHECK_EQ(s->edges.items[0].n_calls, 6);
	CHECK_EQ(s->edges.items[0].own_ns, 41);
	CHECK_EQ(s->edges.items[0].total_ns, 69);
	CHECK_EQ(s->edges.items[1].n_recursive, 1);
	CHECK_EQ(s->functions.items[s->edges.items[2].caller].kind, FM_TRACE_UNKNOWN);
}

TEST(percentiles_are_near)
{
	struct fm_writer *w = open_writer();
	uint32_t thread = fm_writer_thread(w, 0, 7, 0), f = code(w, "f", 5);
	struct fm_zone_encoder e = { 0 };
	uint64_t at = 1000;
	for (unsigned i = 1; i <= 1000; i++) { // 100, 200, ... 100,000 ns
		PUT(ENTER, f, at);
		at += i * 100;
		PUT(LEAVE, 0, at);
	}
	give(w, &e, thread);
	const struct fm_trace_stats *s = close_and_read(w);
	const struct fm_traced_function *ff = function(s, "f");
	uint64_t median = fm_durations_percentile_ns(&ff->spans, 0.5),
		 p99 = fm_durations_percentile_ns(&ff->spans, 0.99);
	CHECK(median > 46500 && median < 53500);
	CHECK(p99 > 92000 && p99 <= 100000);
	CHECK(fm_durations_percentile_ns(&ff->spans, 0) >= ff->spans.min_ns &&
	      fm_durations_percentile_ns(&ff->spans, 1) <= ff->spans.max_ns);
	fm_zone_encoder_deinit(&e);
}

// The steps of a batch as text: what begins by its code, "?" = not known, "+" = a call.
static void walk(struct fm_zone_encoder *e, struct fm_trace_stack *stack, char *ret)
{
	struct fm_profile profile = { 0 };
	struct fm_code_info codes[3] = { 0 };
	struct fm_buf body = { 0 };
	struct fm_zone_batch batch;
	struct fm_trace_walk w;
	struct fm_trace_step step;
	profile.codes.items = codes;
	profile.codes.n = FM_ARRAY_LEN(codes);
	CHECK(fm_zone_encoder_take(e, 0, &body));
	struct fm_cursor c = fm_cursor_over(body.data, body.len);
	CHECK_EQ(fm_zones_get(&c, &batch), FM_OK);
	fm_trace_walk_begin(&w, &profile, stack, &batch);
	while (fm_trace_walk_next(&w, &step)) {
		*ret++ = "GBELMCNFX"[step.kind];
		if (step.kind == FM_TRACE_BEGIN) {
			*ret++ = step.ref ? (char)('0' + fm_zone_ref_id(step.ref)) : '?';
			*ret = '+';
			ret += step.is_call;
		}
	}
	*ret = 0;
	fm_buf_deinit(&body);
}

TEST(a_walk_ends_what_is_gone_and_begins_what_is_listed)
{
	struct fm_zone_encoder e = { 0 };
	struct fm_trace_stack seen = { 0 }, late = { 0 };
	char steps[100];
	PUT(ENTER, 0, 100), PUT(ENTER, 1, 110), PUT(LINE, 4, 111), PUT(ENTER, 7, 115), PUT(LEAVE, 0, 116);
	walk(&e, &seen, steps);
	CHECK(!strcmp(steps, "B0+B1+LB?E"));
	CHECK_EQ(seen.n_open, 2);
	PUT(LEAVE, 0, 120), PUT(RESUME, 2, 130);
	walk(&e, &late, steps); // what has not seen the first batch
	CHECK(!strcmp(steps, "GB0B1EB2"));
	CHECK_EQ(late.n_open, 2);
	PUT(LEAVE, 0, 140), PUT(LEAVE, 0, 150), PUT(MARK, 0, 155);
	walk(&e, &seen, steps); // what has not seen the second: as deep, so that nothing tells
	CHECK(!strcmp(steps, "EEM"));
	PUT(ENTER, 0, 160), PUT(ENTER, 1, 170);
	walk(&e, &seen, steps);
	PUT(LEAVE, 0, 180);
	struct fm_buf lost = { 0 };
	CHECK(fm_zone_encoder_take(&e, 0, &lost));
	fm_buf_deinit(&lost);
	PUT(ENTER, 2, 190);
	walk(&e, &seen, steps);
	CHECK(!strcmp(steps, "GEEB0B2+"));
	PUT(NOTE, FM_ZONE_OFF, 200), PUT(ENTER, 1, 210);
	walk(&e, &seen, steps);
	CHECK(!strcmp(steps, "EEFB1+"));
	CHECK_EQ(seen.last_ns, 210);
	fm_zone_encoder_deinit(&e);
}

TEST_MAIN()
