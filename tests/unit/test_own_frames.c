// SPDX-License-Identifier: Apache-2.0
// Fathom's own Python code in stacks: left out where it calls the program, one frame "[fathom]"
// where it works itself, never a line that pays.
#include "test.h"

#include "aggregate/analysis/analysis.h"
#include "support/known.h"
#include "support/open.h"

#define APP "/home/user/app.py"
#define SITE "/usr/lib/python3.9/site.py"
#define HOOKS "/opt/src/python/fathom/_startup/_fathom_hooks.py"

// What is sampled, a millisecond each:
//   run     _trace_main:10; main:10; loop:11        100
//   hook    _trace_main:10; main:10; hook:10         20
//   write   _trace_main:10; main:10; hook:10; write   5 (native)
//   start   site:10; hook:10                          3
//   alone   hook:10                                   2
static struct fm_analysis *open_capture(const struct fm_view_options *options)
{
	char path[] = "/tmp/fathom-test-XXXXXX";
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	close(fd);
	struct fm_writer *w;
	struct fm_diag diag;
	CHECK_EQ(fm_writer_open(path, &w, &diag), FM_OK);
	uint32_t thread = fm_writer_thread(w, fm_writer_process(w, &(struct fm_process_info){ .pid = 1 }), 1, 0);
	uint32_t python = fm_writer_image(w, FM_STR_LIT("/nonexistent/python3.9"), FM_STR_LIT(""), FM_IMAGE_IS_PYTHON);
	uint32_t libc = fm_writer_image(w, FM_STR_LIT("/nonexistent/libc.so"), FM_STR_LIT(""), 0);
	uint32_t runner = known_code(w, "main", "main", "/opt/src/python/fathom/_trace_main.py", 10);
	uint32_t app = known_code(w, "main", "main", APP, 10), hook = known_code(w, "hook", "hook", HOOKS, 10);
	uint32_t site = known_code(w, "main", "main", SITE, 10);
	uint32_t f_runner = fm_writer_frame(w, FM_FRAME_PYTHON, runner, 1),
		 f_main = fm_writer_frame(w, FM_FRAME_PYTHON, app, 1),
		 f_loop = fm_writer_frame(w, FM_FRAME_PYTHON, app, 11),
		 f_hook = fm_writer_frame(w, FM_FRAME_PYTHON, hook, 1),
		 f_site = fm_writer_frame(w, FM_FRAME_PYTHON, site, 1),
		 f_eval = fm_writer_frame(w, FM_FRAME_NATIVE, python, 0x100),
		 f_write = fm_writer_frame(w, FM_FRAME_NATIVE, libc, 0x200);
	uint64_t time_ns = 0;
	const struct {
		uint32_t frames[5], n_frames;
		uint8_t class;
		unsigned n;
	} stacks[] = {
		{ { f_runner, f_eval, f_main, f_loop }, 4, FM_CLASS_PYTHON, 100 },
		{ { f_runner, f_eval, f_main, f_hook, f_eval }, 5, FM_CLASS_PYTHON, 20 },
		{ { f_runner, f_main, f_hook, f_eval, f_write }, 5, FM_CLASS_NATIVE, 5 },
		{ { f_site, f_hook }, 2, FM_CLASS_PYTHON, 3 },
		{ { f_hook }, 1, FM_CLASS_PYTHON, 2 },
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(stacks); i++)
		known_samples(w, &time_ns, thread, known_stack(w, stacks[i].frames, stacks[i].n_frames),
			      stacks[i].class, stacks[i].n);
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
	struct fm_analysis *a;
	CHECK_EQ(open_analysis(path, options, FM_ANALYSIS_STACKS, &a, &diag), FM_OK);
	unlink(path);
	return a;
}

// The names on a cell's stack as it is shown, outermost first.
static const char *shown(const struct fm_analysis *a, size_t cell)
{
	static char text[256];
	uint32_t path[16], n = 0;
	text[0] = 0;
	for (uint32_t at = fm_view_node(&a->view, a->tally.cells.items[cell].stack_id); at;
	     at = a->view.nodes.items[at].parent)
		path[n++] = at;
	while (n--) {
		const struct fm_node *node = &a->view.nodes.items[path[n]];
		struct fm_str name = fm_analysis_function(a, node->function_id)->name;
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%.*s:%u", *text ? ";" : "", (int)name.len,
			 name.p, node->line);
	}
	return text;
}

TEST(our_frames_are_left_out_and_what_they_do_is_one)
{
	struct fm_analysis *a = open_capture(&FM_VIEW_OPTIONS_DEFAULT);
	static const char *const expected[] = { "main:10;main:11", "main:10;[fathom]:0", "main:10;[fathom]:0;0x200:0",
						"main:10;[fathom]:0", "[fathom]:0" };
	CHECK_EQ(a->tally.cells.n, FM_ARRAY_LEN(expected));
	for (size_t i = 0; i < FM_ARRAY_LEN(expected); i++)
		CHECK_STR(fm_str_of(shown(a, i)), expected[i]);
	// None that is not asked for: the root; main, loop, [fathom], write; site, [fathom];
	// [fathom].
	CHECK_EQ(a->view.nodes.n, 1 + 4 + 2 + 1);
	fm_analysis_close(a);

	struct fm_view_options all = FM_VIEW_OPTIONS_DEFAULT;
	all.native_all = true;
	a = open_capture(&all);
	CHECK_STR(fm_str_of(shown(a, 3)), "main:10;hook:10");
	fm_analysis_close(a);
}

TEST(our_lines_are_nobodys)
{
	for (int is_detailed = 0; is_detailed < 2; is_detailed++)
		for (int is_all = 0; is_all < 2; is_all++) {
			struct fm_view_options o = FM_VIEW_OPTIONS_DEFAULT;
			o.detailed = is_detailed;
			o.native_all = is_all;
			struct fm_analysis *a = open_capture(&o);
			struct fm_summary t;
			fm_summary_build(&t, a->profile, &a->tally, &a->view, a->symbolizer, &a->options);
			uint64_t app_ns = 0, site_ns = 0, n_others = 0;
			for (size_t i = 0; i < t.lines.n; i++) {
				const struct fm_line_row *line = &t.lines.items[i];
				struct fm_str file = fm_analysis_function(a, line->function_id)->file;
				uint64_t ns = fm_weight_cpu_ns(&line->weight);
				if (fm_str_eq(file, FM_STR_LIT(APP)))
					app_ns += ns;
				else if (fm_str_eq(file, FM_STR_LIT(SITE)))
					site_ns += ns;
				else
					n_others++;
			}
			CHECK_EQ(n_others, 0);
			CHECK_EQ(app_ns, 125000000);
			CHECK_EQ(site_ns, 3000000);
			CHECK_EQ(fm_weight_cpu_ns(&t.total), 130000000);
			fm_summary_deinit(&t);
			fm_analysis_close(a);
		}
}

TEST_MAIN()
