// SPDX-License-Identifier: Apache-2.0
// The binary format of CPython's profiling.sampling (3.15: --binary), as its
// InternalDocs/profiling_binary_format.md has it: a head, samples (packed by zstd or not), and at the
// end of the file the strings and frames that they refer to.
//
// Each sample stands for the interval that was asked for. A stack is told by what it shares with the
// one before of its thread.
//
// Bound: the two tables, and a window of the samples.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/cursor.h"
#include "import/formats.h"
#include "import/sink.h"

#define HEAD_BYTES 64u
#define FOOTER_BYTES 32u
#define STATISTICS_BYTES 56u
#define MAX_TABLE_BYTES ((uint64_t)1 << 30) // what one process cannot have in names
#define MAX_DEPTH 100000u
#define WINDOW_BYTES ((size_t)128 << 10)
#define MAX_US ((uint64_t)1 << 50)

enum status { HAS_GIL = 1, ON_CPU = 2, CPU_UNKNOWN = 4, WANTS_GIL = 8 };
enum encoding { REPEAT, FULL, SUFFIX, POP_PUSH };

struct frame {
	uint32_t id; // of the capture
	uint8_t class;
};

struct level {
	uint32_t frame, stack_id; // frame: of the file
};

struct thread {
	uint32_t thread_id;
	uint64_t time_us;           // of the last sample
	FM_VEC(struct level) stack; // outermost first
};

struct tachyon {
	struct fm_import *in;
	bool is_swapped;
	uint8_t python[3];
	uint64_t interval_us, tables_at, frames_at, file_bytes;
	uint32_t compression, n_strings, n_frames;
	FM_VEC(struct fm_str) strings;
	FM_VEC(struct frame) frames;
	struct fm_buf tables; // from tables_at to the end of the file
	struct fm_map thread_ids;
	FM_VEC(struct thread) threads;

	ZSTD_DStream *zstd;
	uint64_t packed_left;                  // bytes of samples in the file that were not taken yet
	uint64_t packed_bytes, unpacked_bytes; // so far
	uint8_t *window;
	size_t pos, len;
	const char *error; // of the samples
	bool has_unknown_state;
};

static uint64_t fixed(const struct tachyon *t, const uint8_t *p, unsigned n)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[t->is_swapped ? i : n - 1 - i];
	return v;
}

// ---- the head and the tables ----

static bool is_magic(const uint8_t *head, bool *ret_is_swapped)
{
	*ret_is_swapped = !memcmp(head, "TACH", 4); // written by a machine of the other byte order
	return *ret_is_swapped || !memcmp(head, "HCAT", 4);
}

bool fm_tachyon_recognise(const uint8_t *head, size_t n)
{
	bool is_swapped;
	return n >= 8 && is_magic(head, &is_swapped);
}

static bool read_at(struct fm_import *in, void *to, size_t n, uint64_t offset)
{
	uint8_t *p = to;
	while (n) {
		ssize_t got = pread(fm_input_fd(in->input), p, n, (off_t)offset);
		if (got <= 0)
			return false;
		p += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return true;
}

static enum fm_err read_head(struct tachyon *t)
{
	uint8_t head[HEAD_BYTES], footer[FOOTER_BYTES];
	struct fm_import *in = t->in;
	t->file_bytes = fm_input_file_size(in->input);
	if (fm_input_is_packed(in->input))
		return fm_diag_set(in->diag, FM_E_UNSUPPORTED,
				   "%s is packed; unpack it first: its tables are at its end", in->path);
	if (t->file_bytes < HEAD_BYTES + FOOTER_BYTES || !read_at(in, head, sizeof(head), 0) ||
	    !read_at(in, footer, sizeof(footer), t->file_bytes - FOOTER_BYTES))
		return fm_import_bad_byte(in, "the file ends in its head");
	is_magic(head, &t->is_swapped);
	memcpy(t->python, head + 8, sizeof(t->python));
	if (fixed(t, head + 4, 4) != 1)
		return fm_diag_set(in->diag, FM_E_UNSUPPORTED,
				   "%s has version %" PRIu64 " of the format (Python %u.%u); Fathom knows version 1",
				   in->path, fixed(t, head + 4, 4), t->python[0], t->python[1]);
	t->interval_us = fixed(t, head + 20, 8);
	t->tables_at = fixed(t, head + 40, 8);
	t->frames_at = fixed(t, head + 48, 8);
	t->compression = (uint32_t)fixed(t, head + 56, 4);
	t->n_strings = (uint32_t)fixed(t, footer, 4);
	t->n_frames = (uint32_t)fixed(t, footer + 4, 4);
	if (t->tables_at < HEAD_BYTES || t->frames_at < t->tables_at || t->frames_at > t->file_bytes - FOOTER_BYTES ||
	    fixed(t, footer + 8, 8) != t->file_bytes)
		return fm_import_bad_byte(in, "the head or the end of the file is damaged, or it was made by a Python "
					      "before 3.15.0");
	if (t->compression > 1)
		return fm_diag_set(in->diag, FM_E_UNSUPPORTED, "%s is packed with a method that Fathom does not know",
				   in->path);
	return FM_OK;
}

static struct frame no_frame(struct fm_import *in)
{
	return (struct frame){ fm_writer_frame(in->w, FM_FRAME_ERROR, 0, FM_STACK_LOST), FM_CLASS_PYTHON };
}

// "<GC>" and "<native>" stand for what is no Python code.
static struct frame make_frame(struct fm_import *in, struct fm_str file, struct fm_str name, int64_t line)
{
	const struct fm_str none = FM_STR_LIT("");
	bool is_gc = fm_str_eq(name, FM_STR_LIT("<GC>"));
	if (fm_str_eq(file, FM_STR_LIT("~")))
		return (struct frame){ fm_import_native_frame(in, none, name, none, 0),
				       is_gc ? FM_CLASS_GC : FM_CLASS_NATIVE };
	uint32_t known_line = line > 0 && line < INT32_MAX ? (uint32_t)line : 0;
	return (struct frame){ fm_import_python_frame(in, name, file, 0, known_line), FM_CLASS_PYTHON };
}

static enum fm_err read_tables(struct tachyon *t)
{
	struct fm_import *in = t->in;
	uint64_t n = t->file_bytes - FOOTER_BYTES - t->tables_at;
	if (n > MAX_TABLE_BYTES)
		return fm_import_bad_byte(in, "its tables are larger than 1 GiB");
	fm_buf_reserve(&t->tables, n + 1);
	if (!read_at(in, t->tables.data, n, t->tables_at))
		return fm_import_bad_byte(in, "its tables cannot be read");
	t->tables.len = n;
	struct fm_cursor c = fm_cursor_over(t->tables.data, n);
	for (uint32_t i = 0; i < t->n_strings && !c.err; i++)
		fm_vec_push(&t->strings, fm_cursor_str(&c));
	struct fm_cursor f =
		fm_cursor_over(t->tables.data + (t->frames_at - t->tables_at), n - (t->frames_at - t->tables_at));
	for (uint32_t i = 0; i < t->n_frames && !c.err && !f.err && !fm_input_error(in->input); i++) {
		uint64_t file = fm_cursor_varint(&f), name = fm_cursor_varint(&f);
		int64_t line = fm_cursor_svarint(&f);
		for (int k = 0; k < 3; k++) // the line's end, columns
			fm_cursor_svarint(&f);
		fm_cursor_u8(&f); // opcode
		bool is_known = !f.err && file < t->strings.n && name < t->strings.n;
		fm_vec_push(&t->frames, is_known ? make_frame(in, t->strings.items[file], t->strings.items[name], line)
						 : no_frame(in));
	}
	return c.err || f.err ? fm_import_bad_byte(in, "its tables end early") : FM_OK;
}

// ---- samples, as bytes ----

static bool fill(struct tachyon *t)
{
	size_t there;
	memmove(t->window, t->window + t->pos, t->len - t->pos);
	t->len -= t->pos;
	t->pos = 0;
	while (t->len < WINDOW_BYTES) {
		const uint8_t *p = fm_input_peek(t->in->input, 1, &there);
		there = (size_t)FM_MIN((uint64_t)there, t->packed_left);
		size_t before = t->len, taken = FM_MIN(there, WINDOW_BYTES - t->len);
		if (t->zstd) {
			ZSTD_inBuffer from = { p, there, 0 };
			ZSTD_outBuffer to = { t->window, WINDOW_BYTES, t->len };
			if (ZSTD_isError(ZSTD_decompressStream(t->zstd, &to, &from))) {
				t->error = "the packed samples are damaged";
				return false;
			}
			t->len = to.pos;
			taken = from.pos;
			t->unpacked_bytes += to.pos - before;
			t->packed_bytes += taken;
			if (fm_input_is_bomb(t->unpacked_bytes, t->packed_bytes)) {
				t->error = "the samples unpack to more than any profile holds";
				return false;
			}
		} else {
			memcpy(t->window + t->len, p, taken);
			t->len += taken;
		}
		fm_input_skip(t->in->input, taken);
		t->packed_left -= taken;
		if (!taken && t->len == before)
			break;
	}
	return t->len > 0;
}

static uint8_t take_u8(struct tachyon *t)
{
	if (FM_UNLIKELY(t->pos == t->len) && (t->error || !fill(t))) {
		t->error = t->error ? t->error : "the samples end within a sample";
		return 0;
	}
	return t->window[t->pos++];
}

static uint64_t take_fixed(struct tachyon *t, unsigned n)
{
	uint8_t bytes[8];
	for (unsigned i = 0; i < n; i++)
		bytes[i] = take_u8(t);
	return fixed(t, bytes, n);
}

static uint64_t take_varint(struct tachyon *t)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = take_u8(t);
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	t->error = t->error ? t->error : "a number has more than 64 bits";
	return 0;
}

// ---- samples ----

static struct thread *thread_of(struct tachyon *t, uint64_t tid, uint32_t interpreter)
{
	bool is_new;
	uint64_t key = fm_hash_u64(tid) ^ interpreter;
	uint64_t *idx = fm_map_at(&t->thread_ids, key, &is_new);
	if (is_new) {
		char name[48] = "";
		if (interpreter)
			snprintf(name, sizeof(name), "interpreter %u", interpreter);
		uint32_t process = fm_import_process(t->in, 0);
		uint32_t id = fm_import_thread(t->in, process, (uint32_t)(tid ^ tid >> 32), fm_str_of(name));
		*idx = t->threads.n;
		fm_vec_push(&t->threads, (struct thread){ .thread_id = id });
	}
	return &t->threads.items[*idx];
}

static uint8_t class_of(struct tachyon *t, const struct thread *thread, uint8_t status)
{
	uint8_t leaf = thread->stack.n ? t->frames.items[thread->stack.items[thread->stack.n - 1].frame].class
				       : FM_CLASS_NATIVE;
	if (status & (HAS_GIL | ON_CPU))
		return leaf;
	if (status & WANTS_GIL)
		return FM_CLASS_GIL_WAIT;
	t->has_unknown_state = t->has_unknown_state || status & CPU_UNKNOWN;
	return FM_CLASS_WAIT;
}

static void put_sample(struct tachyon *t, struct thread *thread, uint64_t step_us, uint8_t status)
{
	size_t n = thread->stack.n;
	if (!t->error && (step_us > MAX_US || thread->time_us + step_us > MAX_US))
		t->error = "a time is impossible";
	if (t->error)
		return;
	thread->time_us += step_us;
	fm_import_sample_at(t->in,
			    &(struct fm_sample){ .thread_id = thread->thread_id,
						 .stack_id = n ? thread->stack.items[n - 1].stack_id : FM_ROOT_STACK,
						 .time_ns = FM_IMPORT_START_NS + thread->time_us * 1000,
						 .weight_ns = t->interval_us * 1000,
						 .class = class_of(t, thread, status) });
}

// The innermost come first; a stack of the capture is made from outside.
static void push_frames(struct tachyon *t, struct thread *thread, uint64_t n)
{
	size_t from = thread->stack.n;
	if (n > MAX_DEPTH || from + n > MAX_DEPTH) {
		t->error = "a stack is deeper than 100,000";
		return;
	}
	fm_vec_grow_to(&thread->stack, from + (size_t)n);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t frame = take_varint(t);
		if (!t->error && frame >= t->frames.n)
			t->error = "a stack has a frame that is not in the table";
		thread->stack.items[from + n - 1 - i].frame = t->error ? 0 : (uint32_t)frame;
	}
	for (size_t i = from; i < thread->stack.n && !t->error; i++) {
		struct level *level = &thread->stack.items[i];
		level->stack_id = fm_writer_stack(t->in->w, i ? level[-1].stack_id : FM_ROOT_STACK,
						  t->frames.items[level->frame].id);
	}
}

// The time and status of a sample stand before its stack.
static void take_stack(struct tachyon *t, struct thread *thread, uint8_t encoding)
{
	uint64_t step_us = take_varint(t);
	uint8_t status = take_u8(t);
	uint64_t n = encoding == FULL ? 0 : take_varint(t), n_before = thread->stack.n;
	if (n > n_before)
		t->error = t->error ? t->error : "a stack shares more than the one before has";
	else
		thread->stack.n = encoding == POP_PUSH ? n_before - n : n;
	n = take_varint(t);
	if (!t->error)
		push_frames(t, thread, n);
	put_sample(t, thread, step_us, status);
}

static void take_record(struct tachyon *t)
{
	uint64_t tid = take_fixed(t, 8);
	uint32_t interpreter = (uint32_t)take_fixed(t, 4);
	uint8_t encoding = take_u8(t);
	if (t->error)
		return;
	struct thread *thread = thread_of(t, tid, interpreter);
	if (encoding > POP_PUSH) {
		t->error = "a sample has an unknown encoding";
	} else if (encoding == REPEAT) {
		uint64_t n = take_varint(t);
		for (uint64_t i = 0; i < n && !t->error; i++) {
			uint64_t step_us = take_varint(t);
			put_sample(t, thread, step_us, take_u8(t));
		}
	} else {
		take_stack(t, thread, encoding);
	}
}

static enum fm_err read_samples(struct tachyon *t)
{
	fm_input_skip(t->in->input, HEAD_BYTES);
	t->packed_left = t->tables_at - HEAD_BYTES;
	t->window = fm_alloc(WINDOW_BYTES);
	t->zstd = t->compression ? ZSTD_createDStream() : NULL;
	while (!t->error && (t->pos < t->len || fill(t)))
		take_record(t);
	return t->error ? fm_import_bad_byte(t->in, "%s", t->error) : fm_import_end(t->in);
}

// ---- what the file says of itself ----

static double real_at(const struct tachyon *t, const uint8_t *p)
{
	uint64_t bits = fixed(t, p, 8);
	double v;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

// The statistics stand before the footer, where a writer had them.
static void tell_losses(struct tachyon *t)
{
	static const char *const whats[] = { "samples that failed", "samples that were missed" };
	static const char *const whys[] = { "the stack could not be read while the program ran on",
					    "the profiler came too late for them" };
	size_t n = t->tables.len;
	const uint8_t *p = t->tables.data + n - STATISTICS_BYTES;
	if (n < STATISTICS_BYTES || memcmp(p + 40, "TACHSTAT", 8) || fixed(t, p + 52, 4) != STATISTICS_BYTES)
		return;
	for (unsigned i = 0; i < 2; i++) {
		double share = real_at(t, p + 16 + 8 * i);
		char text[64];
		snprintf(text, sizeof(text), "%s: %.1f %%", whats[i], share);
		if (fixed(t, p + 32, 4) >> i & 1 && share > 0 && share <= 100)
			fm_import_missing(t->in, text, whys[i]);
	}
}

static void tell(struct tachyon *t)
{
	char text[96];
	const struct fm_str none = FM_STR_LIT("");
	snprintf(text, sizeof(text), "%u.%u.%u", t->python[0], t->python[1], t->python[2]);
	struct fm_process_info info = { .start_ns = FM_IMPORT_START_NS,
					.exe = none,
					.command = none,
					.name = none,
					.python_version = fm_str_of(text),
					.engine = FM_STR_LIT("import") };
	fm_writer_process_update(t->in->w, fm_import_process(t->in, 0), &info);
	snprintf(text, sizeof(text), "%" PRIu64, 1000000 / t->interval_us);
	fm_writer_meta(t->in->w, "rate_hz", fm_str_of(text));
	tell_losses(t);
	fm_import_missing(t->in, "time between samples",
			  "each sample stands for the interval that was requested of profiling.sampling");
	fm_import_missing(t->in, "native code", "profiling.sampling reads Python frames only");
	if (t->has_unknown_state)
		fm_import_missing(
			t->in, "what threads without the GIL did",
			"the file does not say whether they ran native code or waited; they are shown as waiting");
}

enum fm_err fm_tachyon_import(struct fm_import *in)
{
	struct tachyon t = { .in = in };
	enum fm_err err = read_head(&t);
	if (!err && (!t.interval_us || t.interval_us > MAX_US))
		err = fm_import_bad_byte(in, "its interval is impossible");
	if (!err)
		err = read_tables(&t);
	if (!err)
		err = read_samples(&t);
	if (in->n_samples)
		tell(&t);
	ZSTD_freeDStream(t.zstd);
	for (size_t i = 0; i < t.threads.n; i++)
		fm_vec_deinit(&t.threads.items[i].stack);
	fm_vec_deinit(&t.threads);
	fm_map_deinit(&t.thread_ids);
	fm_vec_deinit(&t.strings);
	fm_vec_deinit(&t.frames);
	fm_buf_deinit(&t.tables);
	free(t.window);
	return err;
}
