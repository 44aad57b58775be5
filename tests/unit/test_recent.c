// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <sys/mman.h>

#include "aggregate/live/now.h"
#include "format/writer.h"
#include "format/zones.h"

// A capture is written and followed at the same time. Time begins at a whole bucket, so that what
// lies where is known.
#define SECOND 1000000000ull
#define BASE (1000 * SECOND)

static char path[64];
static struct fm_writer *w;
static struct fm_reader *r;
static struct fm_recent recent;
static struct fm_namer *namer;

static void begin_capture(void)
{
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd_create("capture", MFD_CLOEXEC));
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	fm_writer_process(w, &(struct fm_process_info){ .pid = 7, .start_ns = BASE });
	fm_writer_thread(w, 0, 7, BASE);
	fm_writer_thread(w, 0, 8, BASE);
	CHECK_EQ(fm_writer_flush(w), FM_OK);
	CHECK_EQ(fm_reader_open(path, &r, &diag), FM_OK);
	fm_reader_follow(r);
	fm_recent_init(&recent);
	namer = fm_namer_create(fm_reader_profile(r));
}

static unsigned read_on(uint64_t now_ns)
{
	struct fm_event ev;
	unsigned n = 0;
	fm_recent_set_now(&recent, now_ns);
	for (; fm_reader_next(r, &ev) == FM_OK; n++)
		if (ev.type == FM_EVENT_SAMPLE)
			fm_recent_sample(&recent, &ev.sample);
		else if (ev.type == FM_EVENT_TRACE)
			fm_recent_trace(&recent, fm_reader_profile(r), ev.trace);
	return n;
}

static uint32_t code(const char *name, uint32_t line)
{
	return fm_writer_code(w, &(struct fm_code_info){ .name = fm_str_of(name),
							 .qualname = fm_str_of(name),
							 .filename = FM_STR_LIT("a.py"),
							 .first_line = line });
}

static uint32_t stack(uint32_t parent, uint32_t code_id)
{
	return fm_writer_stack(w, parent, fm_writer_frame(w, FM_FRAME_PYTHON, code_id, 0));
}

static void samples(uint32_t thread, uint32_t stack_id, uint8_t class, uint64_t from_ns, unsigned n)
{
	for (unsigned i = 1; i <= n; i++)
		fm_writer_sample(w, &(struct fm_sample){ .thread_id = thread,
							 .stack_id = stack_id,
							 .time_ns = from_ns + i * 1000000u,
							 .weight_ns = 1000000u,
							 .class = class });
}

static void give(struct fm_zone_encoder *e, uint32_t thread)
{
	struct fm_buf body = { 0 };
	CHECK(fm_zone_encoder_take(e, thread, &body));
	fm_writer_trace(w, thread, body.data, body.len);
	fm_buf_deinit(&body);
}

static const struct fm_now_function *function(const struct fm_now *now, const char *name)
{
	for (size_t i = 0; i < now->functions.n; i++)
		if (fm_str_eq(now->functions.items[i].function.name, fm_str_of(name)))
			return &now->functions.items[i];
	printf("no function %s\n", name);
	CHECK(false);
	return NULL;
}

TEST(a_followed_file_gives_what_there_is_and_goes_on)
{
	begin_capture();
	CHECK_EQ(read_on(BASE), 0);
	uint32_t f = stack(0, code("f", 1));
	samples(0, f, FM_CLASS_PYTHON, BASE, 10);
	CHECK_EQ(read_on(BASE), 0); // not written yet
	CHECK_EQ(fm_writer_flush(w), FM_OK);
	CHECK_EQ(read_on(BASE), 10);
	CHECK_EQ(read_on(BASE), 0);
	samples(0, stack(f, code("g", 5)), FM_CLASS_PYTHON, BASE + SECOND, 5);
	CHECK(!fm_reader_has_end(r));
	CHECK_EQ(fm_writer_close(w, NULL), FM_OK);
	CHECK_EQ(read_on(BASE + SECOND), 5);
	CHECK(fm_reader_has_end(r));
	CHECK(!fm_reader_profile(r)->is_truncated && fm_reader_profile(r)->n_damaged_chunks == 0);
	CHECK_EQ(recent.n_samples, 15);
}

TEST(a_half_written_part_is_read_when_it_is_whole)
{
	char grown[80];
	struct fm_diag diag;
	struct fm_writer *again;
	snprintf(grown, sizeof(grown), "/tmp/fathom-test-%d-grown.fathom", (int)getpid());
	CHECK_EQ(fm_writer_open(grown, &again, &diag), FM_OK);
	fm_writer_process(again, &(struct fm_process_info){ .pid = 7, .start_ns = BASE });
	fm_writer_thread(again, 0, 7, BASE);
	fm_writer_sample(again, &(struct fm_sample){ .time_ns = BASE + 1, .weight_ns = 1 });
	CHECK_EQ(fm_writer_close(again, NULL), FM_OK);
	FILE *in = fopen(grown, "rb");
	char bytes[4096];
	size_t len = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	CHECK(len > 50 && len < sizeof(bytes));
	FILE *out = fopen(grown, "wb");
	setbuf(out, NULL);
	fwrite(bytes, 1, 16, out);
	struct fm_reader *slow;
	CHECK_EQ(fm_reader_open(grown, &slow, &diag), FM_OK);
	fm_reader_follow(slow);
	unsigned n = 0;
	struct fm_event ev;
	for (size_t i = 16; i < len; i++) {
		fwrite(bytes + i, 1, 1, out);
		while (fm_reader_next(slow, &ev) == FM_OK)
			n++;
	}
	fclose(out);
	unlink(grown);
	CHECK_EQ(n, 1);
	CHECK(fm_reader_has_end(slow));
	CHECK_EQ(fm_reader_profile(slow)->n_damaged_chunks, 0);
	fm_reader_close(slow);
}

TEST(the_hot_list_is_of_the_last_seconds)
{
	begin_capture();
	uint32_t old = stack(0, code("old", 1)), outer = stack(0, code("outer", 10));
	uint32_t inner = stack(outer, code("inner", 20));
	samples(0, old, FM_CLASS_PYTHON, BASE, 1000);
	uint64_t now_ns = BASE + 20 * SECOND;
	samples(0, outer, FM_CLASS_PYTHON, now_ns - 3 * SECOND, 300);
	samples(0, inner, FM_CLASS_NATIVE, now_ns - 2 * SECOND, 700);
	samples(1, outer, FM_CLASS_WAIT, now_ns - 3 * SECOND, 400);
	CHECK_EQ(fm_writer_flush(w), FM_OK);
	read_on(now_ns);
	struct fm_now now;
	fm_now_build(&now, &recent, fm_reader_profile(r), namer, now_ns, false);
	CHECK_EQ(now.functions.n, 2); // "old" is too long ago
	CHECK_EQ(function(&now, "inner")->self_ns, 700000000);
	CHECK_EQ(function(&now, "inner")->total_ns, 700000000);
	CHECK_EQ(function(&now, "outer")->self_ns, 300000000);
	CHECK_EQ(function(&now, "outer")->total_ns, 1000000000);
	CHECK_EQ(function(&now, "outer")->wait_ns, 400000000);
	CHECK_EQ(now.functions.items[0].self_ns, 700000000); // the hottest first
	CHECK_EQ(now.threads.n, 2);
	CHECK_EQ(now.threads.items[0].thread_id, 0);
	CHECK_EQ(now.threads.items[0].cpu_ns, 1000000000);
	CHECK_EQ(now.threads.items[0].class_ns[FM_CLASS_NATIVE], 700000000);
	CHECK_EQ(now.threads.items[1].class_ns[FM_CLASS_WAIT], 400000000);
	CHECK(!strcmp(now.threads.items[0].state, "waiting")); // for more than a second nothing was heard of it
	CHECK_STR(now.threads.items[0].place.function.name, "inner");
	uint64_t sum = 0;
	for (unsigned i = 0; i < FM_RECENT_SHOWN; i++)
		sum += now.threads.items[0].bucket_ns[i][FM_CLASS_PYTHON];
	CHECK_EQ(sum, 300000000);
	fm_now_deinit(&now);
}

TEST(names_keep_up_with_a_profile_that_grows)
{
	begin_capture();
	uint64_t now_ns = BASE + 10 * SECOND;
	struct fm_now now;
	for (unsigned i = 0; i < 200; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		samples(0, stack(0, code(name, i + 1)), FM_CLASS_PYTHON, now_ns - SECOND + i * 2000000u, 1);
		CHECK_EQ(fm_writer_flush(w), FM_OK);
		read_on(now_ns);
		fm_now_build(&now, &recent, fm_reader_profile(r), namer, now_ns, false);
		CHECK_EQ(now.functions.n, FM_MIN(i + 1, FM_NOW_FUNCTIONS));
		CHECK_STR(now.threads.items[0].place.function.name, name);
		fm_now_deinit(&now);
	}
}

TEST(calls_zones_marks_and_counters_of_a_trace)
{
	begin_capture();
	struct fm_zone_encoder e = { 0 };
	uint32_t f = code("f", 1), g = code("g", 2);
	uint32_t zone = fm_writer_trace_name(w, FM_NAME_ZONE, FM_STR_LIT("load"));
	uint32_t mark = fm_writer_trace_name(w, FM_NAME_MARK, FM_STR_LIT("warm"));
	uint32_t counter = fm_writer_trace_name(w, FM_NAME_COUNTER, FM_STR_LIT("rows"));
	uint64_t now_ns = BASE + 10 * SECOND, t = now_ns - 3 * SECOND;
	fm_zone_encode(&e, FM_ZONE_ENTER, f, t, 0);
	for (unsigned i = 0; i < 100; i++) { // 10 ms each: 4 in g, 6 in f itself
		fm_zone_encode(&e, FM_ZONE_ENTER, g, t, 0);
		fm_zone_encode(&e, FM_ZONE_LEAVE, 0, t += 4000000, 0);
		t += 6000000;
	}
	fm_zone_encode(&e, FM_ZONE_BEGIN, zone, t, 0);
	fm_zone_encode(&e, FM_ZONE_LEAVE, 0, t += 500000000, 0);
	fm_zone_encode(&e, FM_ZONE_BEGIN, zone, t, 0); // and one that stays open
	fm_zone_encode(&e, FM_ZONE_MARK, mark, t, 0);
	fm_zone_encode(&e, FM_ZONE_COUNTER, counter, t, 2.5);
	give(&e, 0);
	fm_writer_flush(w);
	read_on(now_ns);
	struct fm_now now;
	fm_now_build(&now, &recent, fm_reader_profile(r), namer, now_ns, false);
	CHECK(now.is_traced);
	CHECK_EQ(function(&now, "g")->n_calls, 100);
	CHECK_EQ(function(&now, "g")->own_ns, 400000000);
	CHECK_EQ(function(&now, "f")->n_calls, 1);
	CHECK_EQ(function(&now, "f")->own_ns, 600000000);
	CHECK_EQ(now.zones.n, 1);
	CHECK_EQ(now.zones.items[0].n, 1);
	CHECK_EQ(now.zones.items[0].n_open, 1);
	CHECK_EQ(now.zones.items[0].total_ns, 500000000);
	CHECK_EQ(now.zones.items[0].max_ns, 500000000);
	CHECK_EQ(recent.n_marks, 1);
	CHECK_EQ(recent.marks[0].name, mark);
	CHECK_EQ(recent.counters.n, 1);
	CHECK(recent.counters.items[0].value == 2.5);
	bool has_open = false, has_load = false;
	for (size_t i = 0; i < now.spans.n; i++) {
		has_open |= !now.spans.items[i].end_ns && now.spans.items[i].depth == 0;
		has_load |= now.spans.items[i].end_ns - now.spans.items[i].begin_ns == 500000000;
	}
	CHECK(has_open && has_load);
	fm_now_deinit(&now);
	fm_zone_encoder_deinit(&e);
}

TEST(whoever_comes_late_finds_the_stack_as_it_is)
{
	begin_capture();
	struct fm_zone_encoder e = { 0 };
	uint32_t outer = code("outer", 1), f = code("f", 2);
	uint64_t t = BASE;
	fm_zone_encode(&e, FM_ZONE_ENTER, outer, t, 0);
	for (unsigned i = 0; i < 3000; i++) { // long ago, and too much to be read: passed over
		fm_zone_encode(&e, FM_ZONE_ENTER, f, t += 1000, 0);
		fm_zone_encode(&e, FM_ZONE_LEAVE, 0, t += 1000, 0);
	}
	give(&e, 0);
	uint64_t now_ns = BASE + 60 * SECOND;
	fm_zone_encode(&e, FM_ZONE_ENTER, f, now_ns - 2 * SECOND, 0);
	fm_zone_encode(&e, FM_ZONE_LEAVE, 0, now_ns - SECOND, 0);
	give(&e, 0);
	fm_writer_flush(w);
	read_on(now_ns);
	CHECK_EQ(recent.n_events, 6003);
	CHECK_EQ(recent.threads.items[0].open.n, 1);
	struct fm_now now;
	fm_now_build(&now, &recent, fm_reader_profile(r), namer, now_ns, false);
	CHECK_EQ(function(&now, "f")->n_calls, 1);
	CHECK_EQ(function(&now, "f")->own_ns, SECOND);
	fm_now_deinit(&now);
	fm_zone_encoder_deinit(&e);
}

TEST(spans_stay_bounded_however_many_calls)
{
	begin_capture();
	struct fm_zone_encoder e = { 0 };
	uint32_t f = code("f", 1);
	uint64_t now_ns = BASE + 10 * SECOND, t = now_ns - 5 * SECOND;
	for (unsigned i = 0; i < 40000; i++) {
		fm_zone_encode(&e, FM_ZONE_ENTER, f, t, 0);
		fm_zone_encode(&e, FM_ZONE_LEAVE, 0, t += 100000, 0);
		if (e.events.len > 4096)
			give(&e, 0);
	}
	give(&e, 0);
	fm_writer_flush(w);
	read_on(now_ns);
	struct fm_now now;
	fm_now_build(&now, &recent, fm_reader_profile(r), namer, now_ns, false);
	CHECK(recent.n_spans < 20 * 2500 && recent.min_span_ns > 100000);
	CHECK(now.spans.n <= FM_NOW_SPANS);
	CHECK(function(&now, "f")->n_calls > 30000);
	fm_now_deinit(&now);
	fm_zone_encoder_deinit(&e);
}

TEST_MAIN()
