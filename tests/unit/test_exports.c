// SPDX-License-Identifier: Apache-2.0
// What exports of stacks are put together from: locations with what is inlined in them, functions that
// a format cannot tell apart, sums, the threads by how busy they were.
#include "known_analysis.h"
#include "scratch_profile.h"
#include "test.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "pyabi/row.h"
#include "render/export/dictionary.h"
#include "render/export/proto.h"
#include "render/export/runs.h"
#include "render/export/sample_sums.h"
#include "render/export/sampled_calls.h"

static uint32_t python_frame(struct fm_writer *w, const char *name, const char *file)
{
	struct fm_code_info code = { fm_str_of(name),    fm_str_of(name),
				     fm_str_of(file),    7,
				     FM_PY_LINES_LNOTAB, { (const char *)known_lnotab, sizeof(known_lnotab) } };
	return fm_writer_frame(w, FM_FRAME_PYTHON, fm_writer_code(w, &code), 0);
}

// main, which calls a native outer with middle and inner inlined into it, which calls back "twin",
// which calls itself. Another library was made of the same source.
static struct fm_analysis *open_inlined(void)
{
	struct fm_writer *w = open_writer();
	uint32_t process = fm_writer_process(w, &(struct fm_process_info){ .pid = 5 });
	uint32_t thread = fm_writer_thread(w, process, 5, 1);
	uint32_t image = fm_writer_image(w, FM_STR_LIT("/nonexistent/liba.so"), FM_STR_LIT("\x01\xab"), 0);
	const struct fm_symbol_link links[] = {
		{ FM_STR_LIT("outer"), FM_STR_LIT("a.c"), 1, 10, false },
		{ FM_STR_LIT("middle"), FM_STR_LIT("a.h"), 20, 21, true },
		{ FM_STR_LIT("inner"), FM_STR_LIT("a.h"), 30, 31, true },
	};
	uint32_t other = fm_writer_image(w, FM_STR_LIT("/nonexistent/libb.so"), FM_STR_LIT("\x02"), 0);
	fm_writer_symbol(w, image, 16, links, FM_ARRAY_LEN(links));
	fm_writer_symbol(w, other, 16, links, FM_ARRAY_LEN(links));
	uint32_t stack = fm_writer_stack(w, FM_ROOT_STACK, python_frame(w, "main", "m.py"));
	uint32_t elsewhere = fm_writer_stack(w, stack, fm_writer_frame(w, FM_FRAME_NATIVE, other, 16));
	fm_writer_sample(w, &(struct fm_sample){ thread, elsewhere, 500, 30, 0, FM_CLASS_NATIVE });
	stack = fm_writer_stack(w, stack, fm_writer_frame(w, FM_FRAME_NATIVE, image, 16));
	fm_writer_sample(w, &(struct fm_sample){ thread, stack, 1000, 700, 0, FM_CLASS_NATIVE });
	uint32_t twin = fm_writer_stack(w, stack, python_frame(w, "twin", "m.py"));
	fm_writer_sample(w, &(struct fm_sample){ thread, twin, 2000, 200, 0, FM_CLASS_PYTHON });
	twin = fm_writer_stack(w, twin, python_frame(w, "twin", "m.py"));
	fm_writer_sample(w, &(struct fm_sample){ thread, twin, 3000, 50, 0, FM_CLASS_PYTHON });
	fm_writer_sample(w, &(struct fm_sample){ thread, twin, 4000, 9, 0, FM_CLASS_WAIT });
	close_writer(w);
	struct fm_analysis *a;
	struct fm_diag diag;
	CHECK_EQ(open_analysis(scratch_path(), &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	return a;
}

static bool is_text(const struct fm_dict *d, uint32_t id, const char *text)
{
	return fm_str_eq(fm_intern_get(&d->strings, id), fm_str_of(text));
}

TEST(a_location_is_a_frame_with_all_that_is_inlined_into_it)
{
	struct fm_analysis *a = open_inlined();
	struct fm_dict d;
	struct fm_dict_ids ids = { 0 };
	fm_dict_init(&d, a);
	uint32_t deepest = 0;
	for (uint32_t i = 1; i < a->view.nodes.n; i++)
		deepest = a->view.nodes.items[i].depth > a->view.nodes.items[deepest].depth ? i : deepest;
	fm_dict_stack(&d, deepest, 1, &ids);
	CHECK_EQ(ids.n, 4); // twin, twin, outer, main
	CHECK_EQ(ids.items[0], ids.items[1]);
	CHECK_EQ(d.locations.strings.n, 3);
	struct fm_dict_location native = fm_dict_location(&d, (uint32_t)ids.items[2] - 1);
	CHECK_EQ(native.n_lines, 3);
	CHECK_EQ(native.kind, FM_FRAME_NATIVE);
	const char *names[] = { "inner", "middle", "outer" };
	const uint32_t lines[] = { 31, 21, 10 };
	for (unsigned i = 0; i < 3; i++) {
		CHECK(is_text(&d, fm_dict_function(&d, native.lines[i].function).name, names[i]));
		CHECK_EQ(native.lines[i].line, lines[i]);
	}
	struct fm_dict_image image = fm_dict_image(&d, native.image1 - 1);
	CHECK(is_text(&d, image.path, "/nonexistent/liba.so"));
	CHECK(fm_str_eq(fm_intern_get(&d.build_ids, image.build_id1 - 1), FM_STR_LIT("01ab")));
	CHECK_EQ(fm_dict_location(&d, (uint32_t)ids.items[3] - 1).image1, 0);
	fm_vec_deinit(&ids);
	fm_dict_deinit(&d);
	fm_analysis_close(a);
}

TEST(functions_of_one_name_file_and_line_are_one_and_recursion_counts_once)
{
	struct fm_analysis *a = open_inlined();
	struct fm_sampled_calls c;
	fm_sampled_calls_build(&c, a);
	CHECK_EQ(c.functions.n, 5);
	uint64_t own_ns = 0;
	for (size_t i = 0; i < c.functions.n; i++) {
		const struct fm_sampled_function *f = &c.functions.items[i];
		own_ns += f->sum.own_ns;
		if (fm_str_eq(f->name, FM_STR_LIT("twin"))) {
			CHECK_EQ(f->sum.n, 2);
			CHECK_EQ(f->sum.own_ns, 250);
			CHECK_EQ(f->sum.total_ns, 250);
		} else {
			CHECK_EQ(f->sum.total_ns, 980);
			CHECK_EQ(f->sum.own_ns, fm_str_eq(f->name, FM_STR_LIT("inner")) ? 730 : 0);
		}
	}
	CHECK_EQ(own_ns, 980);  // waiting is not asked for
	CHECK_EQ(c.edges.n, 5); // main-outer-middle-inner-twin-twin
	fm_sampled_calls_deinit(&c);
	fm_analysis_close(a);
}

TEST(sums_are_by_process_thread_place_and_class)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	struct fm_sums s;
	fm_sums_build(&s, a);
	CHECK_EQ(s.rows.n, 8); // A Python and GIL, B, C Python and GC, D; E; F
	CHECK(s.has[FM_SUM_CPU] && s.has[FM_SUM_WAIT] && !s.has[FM_SUM_ALLOC_SPACE]);
	uint64_t cpu_ns = 0, n = 0, wait_ns = 0;
	for (size_t i = 0; i < s.rows.n; i++) {
		cpu_ns += s.rows.items[i].values[FM_SUM_CPU];
		wait_ns += s.rows.items[i].values[FM_SUM_WAIT];
		n += s.rows.items[i].values[FM_SUM_SAMPLES];
		CHECK(!i || s.rows.items[i - 1].process_id <= s.rows.items[i].process_id);
	}
	CHECK_EQ(cpu_ns, 10000000000u);
	CHECK_EQ(wait_ns, 300000000);
	CHECK_EQ(n, 10300);
	CHECK_EQ(fm_sums_started_ns(a), 1767323045000000000u); // 2026-01-02T03:04:05Z
	fm_sums_deinit(&s);
	fm_analysis_close(a);
}

TEST(the_busiest_thread_comes_first_and_runs_can_be_of_one_thread)
{
	struct fm_analysis *a = open_known(&FM_VIEW_OPTIONS_DEFAULT);
	size_t n;
	struct fm_busy *threads = fm_runs_busiest(a, &n);
	CHECK_EQ(n, 3);
	CHECK_EQ(threads[0].weight_ns, 8500000000u);
	CHECK_EQ(threads[1].weight_ns, 1000000000);
	struct fm_spool spool = { 0 };
	struct fm_diag diag;
	struct fm_runs_wanted wanted = { .thread_id = threads[1].thread_id, .max_runs = 5 };
	CHECK_EQ(fm_runs_fill(&spool, a, &wanted, &diag), FM_OK);
	CHECK_EQ(spool.n_runs, 1); // all in one place
	fm_spool_deinit(&spool);
	wanted.each = true;
	CHECK_EQ(fm_runs_fill(&spool, a, &wanted, &diag), FM_E_END);
	fm_spool_deinit(&spool);
	wanted = (struct fm_runs_wanted){ FM_NO_ID, 20000, true, true };
	CHECK_EQ(fm_runs_fill(&spool, a, &wanted, &diag), FM_OK);
	CHECK_EQ(spool.n_runs, 10000);
	fm_spool_deinit(&spool);
	free(threads);
	fm_analysis_close(a);
}

TEST(packed_numbers_have_their_length_in_bytes)
{
	struct fm_buf b = { 0 };
	const uint64_t values[] = { 1, 127, 128, UINT64_MAX };
	fm_proto_uints(&b, 2, values, 0);
	CHECK_EQ(b.len, 0);
	fm_proto_uints(&b, 2, values, 4);
	const uint8_t expected[] = { 0x12, 14, 1, 127, 0x80, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1 };
	CHECK_EQ(b.len, sizeof(expected));
	CHECK(!memcmp(b.data, expected, sizeof(expected)));
	fm_buf_deinit(&b);
}

TEST_MAIN()
