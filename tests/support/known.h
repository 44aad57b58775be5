// SPDX-License-Identifier: Apache-2.0
// A small profile whose every number is known: 10,000 CPU samples of 1 ms each, written by hand.
// Used by unit tests and, through tools/known_profile, by the end-to-end tests. The expected
// answers are in tests/unit/test_aggregate.c.
//
//   thread 0 (pid 100 "MainThread")
//     A  _start, main [interpreter]; main:11; eval [interpreter]; work:21                     4000 Python, 300 waiting
//     for the GIL B  _start, main [interpreter]; main:11; eval [interpreter]; work:22; known_kernel       3000 native
//     C  _start, main [interpreter]; main:12; dumps:5 [library]                                800 Python, 200 GC
//     D  _start, main [interpreter]; main:11; work:21; work:21; work:23                        500 Python
//   thread 1 (pid 100 "worker")
//     E  known_start; known_kernel                                                            1000 native
//   thread 2 (pid 200)
//     F  [no unwind information]; main:12                                                      500 system
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "format/writer.h"
#include "pyabi/row.h"

struct known_images {
	const char *native_path; // of the image with known_kernel and known_start
	struct fm_str native_build_id;
	uint64_t kernel_addr, start_addr;
};

static inline uint32_t known_stack(struct fm_writer *w, const uint32_t *frames, size_t n)
{
	uint32_t stack = FM_ROOT_STACK;
	for (size_t i = 0; i < n; i++)
		stack = fm_writer_stack(w, stack, frames[i]);
	return stack;
}

static inline void known_samples(struct fm_writer *w, uint64_t *time_ns, uint32_t thread, uint32_t stack, uint8_t class,
				 unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		*time_ns += 1000000;
		fm_writer_sample(w, &(struct fm_sample){ thread, stack, *time_ns, 1000000, 0, class });
	}
}

// Ten bytes of instructions per line: offset 10 k is line first + k.
static const uint8_t known_lnotab[] = { 10, 1, 10, 1, 10, 1, 10, 1 };

static inline uint32_t known_code(struct fm_writer *w, const char *name, const char *qualname, const char *file,
				  uint32_t first_line)
{
	return fm_writer_code(w, &(struct fm_code_info){ fm_str_of(name),
							 fm_str_of(qualname),
							 fm_str_of(file),
							 first_line,
							 FM_PY_LINES_LNOTAB,
							 { (const char *)known_lnotab, sizeof(known_lnotab) } });
}

static inline enum fm_err known_write(const char *path, const struct known_images *images, struct fm_diag *diag)
{
	struct fm_writer *w;
	enum fm_err err = fm_writer_open(path, &w, diag);
	if (err)
		return err;
	static const char command[] = "fathom\0run\0app.py\0--size=3";
	fm_writer_meta(w, "command", (struct fm_str){ command, sizeof(command) - 1 });
	fm_writer_meta(w, "rate_hz", FM_STR_LIT("1000"));
	fm_writer_meta(w, "engine", FM_STR_LIT("ticker"));
	fm_writer_meta(w, "started", FM_STR_LIT("2026-01-02T03:04:05Z"));
	fm_writer_meta(w, "max_rss_bytes", FM_STR_LIT("150601000"));
	fm_writer_meta(w, "overhead_ns", FM_STR_LIT("120000000"));
	fm_writer_meta(w, "logs_path", FM_STR_LIT(".fathom/app/20260102_030405/logs.log"));
	fm_writer_meta(w, "logs_count_error", FM_STR_LIT("2"));
	fm_writer_meta(w, "logs_count_warning", FM_STR_LIT("1"));
	fm_writer_meta(w, "logs_count_info", FM_STR_LIT("0"));
	fm_writer_coverage(w, FM_STR_LIT("process 300 (/bin/true)"),
			   FM_STR_LIT("it is statically linked; nothing can be preloaded into it"));

	static const char root_command[] = "python3\0app.py\0--size=3", child_command[] = "python3\0-c\0a b";
	const uint64_t start = 1000000000;
	uint32_t root = fm_writer_process(w, &(struct fm_process_info){ 100,
									1,
									start,
									FM_STR_LIT("/opt/python3"),
									{ root_command, sizeof(root_command) - 1 },
									FM_STR_LIT("3.9.1"),
									FM_STR_LIT("ticker") });
	uint32_t child = fm_writer_process(w, &(struct fm_process_info){ 200,
									 100,
									 start,
									 FM_STR_LIT("/opt/python3"),
									 { child_command, sizeof(child_command) - 1 },
									 FM_STR_LIT("3.9.1"),
									 FM_STR_LIT("ticker") });
	uint32_t main_thread = fm_writer_thread(w, root, 100, start), worker = fm_writer_thread(w, root, 101, start),
		 child_thread = fm_writer_thread(w, child, 200, start);
	fm_writer_thread_name(w, main_thread, FM_STR_LIT("MainThread"));
	fm_writer_thread_name(w, worker, FM_STR_LIT("worker"));

	uint32_t python = fm_writer_image(w, FM_STR_LIT("/nonexistent/python3.9"), FM_STR_LIT(""),
					  FM_IMAGE_IS_PYTHON | FM_IMAGE_IS_MAIN);
	uint32_t native = fm_writer_image(w, fm_str_of(images->native_path), images->native_build_id, 0);
	uint32_t code_main = known_code(w, "main", "", "/home/user/app.py", 10);
	uint32_t code_work = known_code(w, "work", "App.work", "/home/user/app.py", 20);
	uint32_t code_dumps = known_code(w, "dumps", "dumps", "/usr/lib/python3.9/json/__init__.py", 5);

	uint32_t py_start = fm_writer_frame(w, FM_FRAME_NATIVE, python, 0x100),
		 py_main = fm_writer_frame(w, FM_FRAME_NATIVE, python, 0x200),
		 py_eval = fm_writer_frame(w, FM_FRAME_NATIVE, python, 0x300);
	uint32_t main_11 = fm_writer_frame(w, FM_FRAME_PYTHON, code_main, 10 + 1),
		 main_12 = fm_writer_frame(w, FM_FRAME_PYTHON, code_main, 20 + 1);
	uint32_t work_21 = fm_writer_frame(w, FM_FRAME_PYTHON, code_work, 10 + 1),
		 work_22 = fm_writer_frame(w, FM_FRAME_PYTHON, code_work, 20 + 1),
		 work_23 = fm_writer_frame(w, FM_FRAME_PYTHON, code_work, 30 + 1);
	uint32_t dumps = fm_writer_frame(w, FM_FRAME_PYTHON, code_dumps, 0); // not started yet: line 5
	uint32_t kernel = fm_writer_frame(w, FM_FRAME_NATIVE, native, images->kernel_addr + 1),
		 thread_start = fm_writer_frame(w, FM_FRAME_NATIVE, native, images->start_addr);
	uint32_t torn = fm_writer_frame(w, FM_FRAME_ERROR, 0, FM_STACK_NO_UNWIND_INFO);

#define KNOWN_STACK(...) \
	known_stack(w, (uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))
	uint32_t a = KNOWN_STACK(py_start, py_main, main_11, py_eval, work_21);
	uint32_t b = KNOWN_STACK(py_start, py_main, main_11, py_eval, work_22, kernel);
	uint32_t c = KNOWN_STACK(py_start, py_main, main_12, dumps);
	uint32_t d = KNOWN_STACK(py_start, py_main, main_11, work_21, work_21, work_23);
	uint32_t e = KNOWN_STACK(thread_start, kernel);
	uint32_t f = KNOWN_STACK(torn, main_12);
#undef KNOWN_STACK
	uint64_t t0 = start, t1 = start, t2 = start;
	known_samples(w, &t0, main_thread, a, FM_CLASS_PYTHON, 4000);
	known_samples(w, &t0, main_thread, b, FM_CLASS_NATIVE, 3000);
	known_samples(w, &t1, worker, e, FM_CLASS_NATIVE, 1000);
	known_samples(w, &t0, main_thread, c, FM_CLASS_PYTHON, 800);
	known_samples(w, &t0, main_thread, c, FM_CLASS_GC, 200);
	known_samples(w, &t0, main_thread, a, FM_CLASS_GIL_WAIT, 300);
	known_samples(w, &t0, main_thread, d, FM_CLASS_PYTHON, 500);
	known_samples(w, &t2, child_thread, f, FM_CLASS_SYSTEM, 500);
	fm_writer_thread_end(w, main_thread, &(struct fm_thread_totals){ start + 10000000000, 8600000000, 7 });
	fm_writer_thread_end(w, worker, &(struct fm_thread_totals){ start + 1000000000, 1000000000, 0 });
	fm_writer_process_end(w, child, start + 500000000, -1, 9);
	fm_writer_process_end(w, root, start + 11847000000, 0, 0);
	fm_writer_source(
		w, FM_STR_LIT("/home/user/app.py"),
		FM_STR_LIT("\n\n\n\n\n\n\n\n\ndef main():\n    app.work(3)\n    json.dumps(data)\n\n\n\n\n\n\n\n"
			   "    def work(self, n):\n        if n: self.work(n - 1)\n        kernel(self.data)\n        "
			   "return [x * x for x in self.data]\n"));
	return fm_writer_close(w, diag);
}
