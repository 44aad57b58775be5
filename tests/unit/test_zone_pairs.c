// SPDX-License-Identifier: Apache-2.0
// Zones of two traces whose lengths are known.
#include "aggregate/compare/zone_pairs.h"

#include "format/writer.h"
#include "format/zones.h"
#include "scratch.h"
#include "support/open.h"

struct zones_of {
	const char *name, *file;
	uint32_t line, n;
	uint64_t length_ns;
};

static struct fm_analysis *open_trace(const struct zones_of *of, size_t n)
{
	const char *path = scratch_file();
	struct fm_writer *w;
	struct fm_diag diag;
	struct fm_analysis *a;
	struct fm_zone_encoder e = { 0 };
	struct fm_buf body = { 0 };
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = 1, .start_ns = 1 });
	uint32_t thread = fm_writer_thread(w, process, 1, 1);
	uint64_t now_ns = 1000;
	for (size_t i = 0; i < n; i++) {
		struct fm_code_info info = { .name = fm_str_of(of[i].name),
					     .qualname = fm_str_of(of[i].name),
					     .filename = fm_str_of(of[i].file),
					     .first_line = of[i].line };
		uint32_t code = fm_writer_code(w, &info);
		for (uint32_t k = 0; k < of[i].n; k++, now_ns += 100) {
			fm_zone_encode(&e, FM_ZONE_ENTER, code, now_ns, 0);
			fm_zone_encode(&e, FM_ZONE_LEAVE, 0, now_ns += of[i].length_ns, 0);
		}
	}
	if (fm_zone_encoder_take(&e, thread, &body)) {
		fm_writer_meta(w, "trace_events", FM_STR_LIT("1"));
		fm_writer_trace(w, thread, body.data, body.len);
	}
	fm_buf_deinit(&body);
	fm_zone_encoder_deinit(&e);
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	CHECK_EQ(open_analysis(path, &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	return a;
}

static const struct fm_zone_pair *pair_of(const struct fm_zone_pairs *p, const char *name)
{
	const struct fm_zone_pair *found = NULL;
	for (size_t i = 0; i < p->items.n; i++)
		if (fm_str_eq(p->items.items[i].name, fm_str_of(name))) {
			CHECK(!found); // once
			found = &p->items.items[i];
		}
	return found;
}

static void check_spans(const struct fm_durations *d, uint64_t n, uint64_t sum_ns, uint64_t min_ns, uint64_t max_ns)
{
	CHECK_EQ(d->n, n);
	CHECK_EQ(d->sum_ns, sum_ns);
	CHECK_EQ(d->min_ns, min_ns);
	CHECK_EQ(d->max_ns, max_ns);
	uint64_t counted = 0;
	for (unsigned i = 0; d->buckets && i < FM_DURATION_BUCKETS; i++)
		counted += d->buckets[i];
	CHECK_EQ(counted, n);
}

TEST(zones_of_one_name_and_file_are_one_in_both)
{
	static const struct zones_of before[] = {
		{ "step", "/home/ann/app.py", 3, 20, 2000000 },
		{ "gone", "/home/ann/app.py", 9, 5, 1000 },
		{ "step", "/home/ann/other.py", 3, 1, 7 },
		{ "never", "/home/ann/app.py", 40, 0, 1 },
	};
	static const struct zones_of after[] = {
		{ "fresh", "/srv/bob/app.py", 1, 4, 500 },
		{ "step", "/srv/bob/app.py", 13, 10, 3000000 },
		{ "step", "/srv/bob/app.py", 30, 2, 5000000 }, // a second one of that name
	};
	struct fm_analysis *base = open_trace(before, FM_ARRAY_LEN(before));
	struct fm_analysis *a = open_trace(after, FM_ARRAY_LEN(after));
	struct fm_zone_pairs p = { 0 };
	struct fm_diag diag;
	CHECK_EQ(fm_zone_pairs_build(&p, base, a, &diag), FM_OK);
	CHECK_EQ(p.items.n, 4);
	check_spans(&pair_of(&p, "gone")->spans[0], 5, 5000, 1000, 1000);
	check_spans(&pair_of(&p, "gone")->spans[1], 0, 0, 0, 0);
	check_spans(&pair_of(&p, "fresh")->spans[0], 0, 0, 0, 0);
	check_spans(&pair_of(&p, "fresh")->spans[1], 4, 2000, 500, 500);
	unsigned n_steps = 0;
	for (size_t i = 0; i < p.items.n; i++) {
		const struct fm_zone_pair *pair = &p.items.items[i];
		if (!fm_str_eq(pair->name, FM_STR_LIT("step")))
			continue;
		n_steps++;
		if (fm_str_eq(pair->file, FM_STR_LIT("/home/ann/other.py"))) { // of another file: another one
			check_spans(&pair->spans[0], 1, 7, 7, 7);
			check_spans(&pair->spans[1], 0, 0, 0, 0);
			continue;
		}
		CHECK_EQ(pair->line, 13);
		check_spans(&pair->spans[0], 20, 40000000, 2000000, 2000000);
		check_spans(&pair->spans[1], 12, 40000000, 3000000, 5000000);
	}
	CHECK_EQ(n_steps, 2);
	fm_zone_pairs_deinit(&p);
	fm_analysis_close(base);
	fm_analysis_close(a);
}

TEST(a_capture_without_a_trace_has_no_zones_of_its_own)
{
	static const struct zones_of some[] = { { "step", "/home/ann/app.py", 3, 20, 2000000 } };
	struct fm_analysis *base = open_trace(NULL, 0), *a = open_trace(some, 1);
	struct fm_zone_pairs p = { 0 }, none = { 0 };
	struct fm_diag diag;
	CHECK_EQ(fm_zone_pairs_build(&p, base, a, &diag), FM_OK);
	CHECK_EQ(p.items.n, 1);
	check_spans(&p.items.items[0].spans[0], 0, 0, 0, 0);
	check_spans(&p.items.items[0].spans[1], 20, 40000000, 2000000, 2000000);
	CHECK_EQ(fm_zone_pairs_build(&none, base, base, &diag), FM_OK);
	CHECK_EQ(none.items.n, 0);
	fm_zone_pairs_deinit(&p);
	fm_zone_pairs_deinit(&none);
	fm_analysis_close(base);
	fm_analysis_close(a);
}

TEST_MAIN()
