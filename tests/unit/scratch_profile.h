// SPDX-License-Identifier: Apache-2.0
// A profile in a scratch file of the test's own: written, read back, changed byte by byte.
#pragma once

#include "scratch.h"

#include <fcntl.h>

#include "format/chunk.h"
#include "format/writer.h"
#include "read/reader.h"

static inline const char *scratch_path(void)
{
	static const char *path;
	return path ? path : (path = scratch_file());
}

static inline void write_file(const void *p, size_t len)
{
	int fd = open(scratch_path(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, p, len), len);
	close(fd);
}

static inline size_t read_file(uint8_t *ret, size_t cap)
{
	int fd = open(scratch_path(), O_RDONLY);
	CHECK(fd >= 0);
	ssize_t n = read(fd, ret, cap);
	CHECK(n >= 0 && (size_t)n < cap);
	close(fd);
	return (size_t)n;
}

static inline struct fm_writer *open_writer(void)
{
	struct fm_writer *w;
	struct fm_diag diag;
	CHECK_EQ(fm_writer_open(scratch_path(), &w, &diag), FM_OK);
	return w;
}

static inline void close_writer(struct fm_writer *w)
{
	struct fm_diag diag;
	CHECK_EQ(fm_writer_close(w, &diag), FM_OK);
}

// Reads to the end, checking on the way that nothing refers out of its table.
static inline struct fm_reader *read_all(struct fm_sample *ret, size_t cap, size_t *ret_n)
{
	struct fm_reader *r;
	struct fm_diag diag;
	if (fm_reader_open(scratch_path(), &r, &diag)) {
		CHECK(diag.text[0] && !strchr(diag.text, '\n'));
		return NULL;
	}
	const struct fm_profile *p = fm_reader_profile(r);
	size_t n = 0;
	for (struct fm_event ev; fm_reader_next(r, &ev) == FM_OK; n++) {
		CHECK_EQ(ev.type, FM_EVENT_SAMPLE);
		CHECK(ev.sample.thread_id < p->threads.n);
		CHECK(ev.sample.stack_id < p->stacks.n);
		CHECK(ev.sample.class < FM_N_CLASSES);
		if (n < cap)
			ret[n] = ev.sample;
	}
	for (size_t i = 1; i < p->stacks.n; i++) {
		CHECK(p->stacks.items[i].parent < i);
		CHECK(p->stacks.items[i].frame_id < p->frames.n);
	}
	for (size_t i = 0; i < p->threads.n; i++)
		CHECK(p->threads.items[i].process_id < p->processes.n);
	if (ret_n)
		*ret_n = n;
	return r;
}

static const struct fm_process_info some_process = {
	.pid = 40,
	.parent_pid = 4,
	.start_ns = 123,
	.exe = FM_STR_LIT("/usr/bin/python3"),
	.command = FM_STR_LIT("python3\0x.py"),
	.python_version = FM_STR_LIT("3.11.7"),
	.engine = FM_STR_LIT("perf"),
};

static const struct fm_code_info some_code = {
	.name = FM_STR_LIT("inner"),
	.qualname = FM_STR_LIT("outer.<locals>.inner"),
	.filename = FM_STR_LIT("/home/u/x.py"),
	.first_line = 17,
	.line_table_kind = 3,
	.line_table = FM_STR_LIT("\x80\0\xff|"),
};

// Three chunks of samples (4, 4 and 4) and an end mark; every chunk defines something that later
// ones use.
static inline void write_small_profile(void)
{
	struct fm_writer *w = open_writer();
	uint32_t process = fm_writer_process(w, &some_process);
	uint32_t threads[2] = { fm_writer_thread(w, process, 40, 124), fm_writer_thread(w, process, 41, 125) };
	uint32_t stack = FM_ROOT_STACK;
	for (uint32_t i = 0; i < 12; i++) {
		uint32_t frame =
			i % 2 ? fm_writer_frame(w, FM_FRAME_PYTHON, fm_writer_code(w, &some_code), i)
			      : fm_writer_frame(w, FM_FRAME_NATIVE,
						fm_writer_image(w, FM_STR_LIT("/lib/a.so"), FM_STR_LIT("\1\2"), 0), i);
		stack = fm_writer_stack(w, stack, frame);
		struct fm_sample s = { threads[i % 2], stack, 1000 + i * 100, 90, 3, FM_CLASS_NATIVE };
		fm_writer_sample(w, &s);
		if (i % 4 == 3)
			CHECK_EQ(fm_writer_flush(w), FM_OK);
	}
	close_writer(w);
}
