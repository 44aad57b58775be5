// SPDX-License-Identifier: Apache-2.0
// MOJO, the format of austin, versions 1 to 4: a stream of events. Frames and texts are defined once
// for a process and referred to by number. https://p403n1x87.github.io/austin, "The MOJO File Format".
//
// A sample is a stack event with what comes after it up to the next one: frames from outside in, its
// time in microseconds, bytes by which resident memory grew.
//
// Bound: what is distinct, and the last stack of each thread.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"
#include "import/sink.h"

#define NEWEST_VERSION 4
#define MAX_TEXT ((size_t)1 << 20)
#define MAX_DEPTH 100000u
#define MAX_US ((int64_t)1 << 50)

enum event {
	METADATA = 1,
	STACK,
	FRAME,
	FRAME_INVALID,
	FRAME_REF,
	FRAME_KERNEL,
	GC,
	IDLE,
	METRIC_TIME,
	METRIC_MEMORY,
	STRING,
	STRING_REF,
	STACK_REPEAT,
	TASK_STACK,
	TASK_WAITER,
	TASK_RUNNING,
};

struct frame {
	uint32_t id; // of the capture
	bool is_native;
};

// A stack without the native frames at its inner end, which a sample may say that it has as well.
struct outer {
	uint32_t stack_id, frame_id; // frame_id: the innermost
	size_t depth;
};

struct thread {
	uint32_t thread_id, process_id;
	struct outer outer; // of the last sample
};

struct mojo {
	struct fm_import *in;
	const uint8_t *base, *p, *end; // of the input's window
	const char *error;
	uint64_t version;
	struct fm_buf first, second; // texts of an event
	struct fm_intern texts;
	struct fm_map strings;   // process and number -> text
	struct fm_map frame_ids; // process and number -> frame
	struct fm_intern thread_keys;
	FM_VEC(struct frame) known; // frames
	FM_VEC(struct thread) threads;

	bool has_sample, is_gc, is_idle;
	bool is_repeat;  // its frames are inside of what the thread's last sample had
	uint32_t thread; // of the sample
	FM_VEC(struct frame) frames;
	int64_t time_us, memory_bytes;
	int64_t n_of_task; // frames that come next and are a task's

	char mode[16];
	bool has_memory, has_shrunk, has_tasks;
};

// ---- numbers and texts ----

static bool more(struct mojo *m)
{
	size_t n;
	fm_input_skip(m->in->input, (uint64_t)(m->p - m->base));
	m->p = m->base = fm_input_peek(m->in->input, 1, &n);
	m->end = m->base + n;
	return n > 0;
}

static uint8_t take_u8(struct mojo *m)
{
	if (FM_UNLIKELY(m->p == m->end) && (m->error || !more(m))) {
		m->error = m->error ? m->error : "the file ends within an event";
		return 0;
	}
	return *m->p++;
}

// Six bits and a sign in the first byte, seven in each that follows.
static int64_t take_int(struct mojo *m)
{
	uint8_t byte = take_u8(m);
	bool is_negative = byte & 0x40;
	uint64_t v = byte & 0x3f;
	for (unsigned shift = 6; byte & 0x80; shift += 7) {
		if (shift > 55) {
			m->error = m->error ? m->error : "a number has more than 62 bits";
			return 0;
		}
		byte = take_u8(m);
		v |= (uint64_t)(byte & 0x7f) << shift;
	}
	return is_negative ? -(int64_t)v : (int64_t)v;
}

static struct fm_str take_text(struct mojo *m, struct fm_buf *b)
{
	b->len = 0;
	for (uint8_t c = take_u8(m); c && !m->error; c = take_u8(m)) {
		fm_buf_u8(b, c);
		if (b->len > MAX_TEXT)
			m->error = "a text is longer than 1 MiB";
	}
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

static uint32_t take_number(struct mojo *m)
{
	int64_t v = take_int(m);
	if (v < 0 || v > UINT32_MAX)
		m->error = m->error ? m->error : "a number is out of range";
	return (uint32_t)v;
}

// Numbers of texts and frames are of a process.
static uint64_t key_of(const struct mojo *m, uint32_t number)
{
	return (uint64_t)m->threads.items[m->thread].process_id << 32 | number;
}

static struct fm_str text_of(struct mojo *m, uint32_t number)
{
	const uint64_t *id = fm_map_find(&m->strings, key_of(m, number));
	return id ? fm_intern_get(&m->texts, (uint32_t)*id) : number == 1 ? FM_STR_LIT("<unknown>") : FM_STR_LIT("");
}

// ---- samples ----

static uint8_t class_of(const struct mojo *m)
{
	if (m->is_idle)
		return FM_CLASS_WAIT;
	if (m->is_gc)
		return FM_CLASS_GC;
	if (m->frames.n)
		return fm_import_class_of(m->in, m->frames.items[m->frames.n - 1].id);
	const struct outer *outer = &m->threads.items[m->thread].outer;
	return m->is_repeat && outer->depth ? fm_import_class_of(m->in, outer->frame_id) : FM_CLASS_NATIVE;
}

static void put_memory(struct mojo *m, uint32_t process_id, uint32_t stack_id)
{
	m->has_memory = true;
	m->has_shrunk = m->has_shrunk || m->memory_bytes < 0;
	if (m->memory_bytes > 0)
		fm_import_add_site(m->in, &(struct fm_import_site){ .process_id = process_id,
								    .stack_id = stack_id,
								    .domain = FM_ALLOC_MMAP,
								    .alloc_bytes = (uint64_t)m->memory_bytes,
								    .n_allocs = 1 });
}

static void end_sample(struct mojo *m)
{
	if (!m->has_sample)
		return;
	struct thread *t = &m->threads.items[m->thread];
	uint8_t class = class_of(m);
	if (!m->is_repeat)
		t->outer = (struct outer){ .stack_id = FM_ROOT_STACK };
	uint32_t stack_id = t->outer.stack_id;
	size_t depth = t->outer.depth;
	for (size_t i = 0; i < m->frames.n; i++) {
		const struct frame *frame = &m->frames.items[i];
		stack_id = fm_writer_stack(m->in->w, stack_id, frame->id);
		depth++;
		if (!frame->is_native)
			t->outer = (struct outer){ stack_id, frame->id, depth };
	}
	if (m->time_us > 0)
		fm_import_sample(m->in, t->thread_id, stack_id, class, 1, (uint64_t)m->time_us * 1000);
	if (m->memory_bytes)
		put_memory(m, t->process_id, stack_id);
	m->has_sample = false;
}

// Numbers of threads are texts, most often hexadecimal.
static bool take_tid(struct fm_str text, uint32_t *ret)
{
	char digits[24], *end;
	snprintf(digits, sizeof(digits), "%.*s", (int)text.len, text.p);
	uint64_t tid = strtoull(digits, &end, 0);
	if (*end)
		tid = strtoull(digits, &end, 16);
	*ret = (uint32_t)(tid ^ tid >> 32);
	return text.len && text.len < sizeof(digits) && !*end;
}

static void begin_sample(struct mojo *m)
{
	end_sample(m);
	uint32_t pid = take_number(m);
	int64_t interpreter = m->version >= 3 ? take_int(m) : 0;
	struct fm_str name = take_text(m, &m->first);
	bool is_new;
	if (m->error)
		return;
	fm_buf_u32(&m->first, pid); // behind the name, which it may move
	fm_buf_u64(&m->first, (uint64_t)interpreter);
	name.p = (const char *)m->first.data;
	m->thread = fm_intern_id(&m->thread_keys, (struct fm_str){ name.p, (uint32_t)m->first.len }, &is_new);
	if (is_new) {
		uint32_t process = fm_import_process(m->in, pid), tid;
		bool is_number = take_tid(name, &tid);
		fm_vec_push(&m->threads, (struct thread){ .process_id = process });
		m->threads.items[m->thread].thread_id = fm_import_thread(
			m->in, process, is_number ? tid : m->thread + 1, is_number ? FM_STR_LIT("") : name);
	}
	m->has_sample = true;
	m->is_gc = m->is_idle = m->is_repeat = false;
	m->time_us = m->memory_bytes = m->n_of_task = 0;
	m->frames.n = 0;
}

static void push_frame(struct mojo *m, struct frame frame)
{
	size_t repeated = m->is_repeat ? m->threads.items[m->thread].outer.depth : 0;
	if (m->n_of_task > 0)
		m->n_of_task--;
	else if (m->frames.n + repeated < MAX_DEPTH)
		fm_vec_push(&m->frames, frame);
	else
		m->error = "a stack is deeper than 100,000";
}

// ---- frames ----

static void define_frame(struct mojo *m)
{
	uint32_t number = take_number(m), file = take_number(m), function = take_number(m);
	int64_t line = take_int(m);
	bool is_new;
	for (int i = 0; i < 3 && m->version > 1; i++) // the line's end, columns
		take_int(m);
	if (m->error)
		return;
	struct fm_str path = text_of(m, file), name = text_of(m, function);
	struct frame frame;
	frame.is_native =
		!fm_import_is_python_file(path) && !(path.len && path.p[0] == '<' && path.p[path.len - 1] == '>');
	if (frame.is_native)
		frame.id = fm_import_native_frame(m->in, path, name, FM_STR_LIT(""), 0);
	else
		frame.id =
			fm_import_python_frame(m->in, name, path, 0, line > 0 && line < INT32_MAX ? (uint32_t)line : 0);
	*fm_map_at(&m->frame_ids, key_of(m, number), &is_new) = m->known.n;
	fm_vec_push(&m->known, frame);
}

static void refer_to_frame(struct mojo *m)
{
	const uint64_t *idx = fm_map_find(&m->frame_ids, key_of(m, take_number(m)));
	if (idx)
		push_frame(m, m->known.items[*idx]);
	else
		m->error = m->error ? m->error : "a frame is not defined";
}

// The outer frames are those of the thread's last sample, but for native ones at its inner end: those
// that are here have taken their place. They are not gone through again: this is one byte.
static void repeat_stack(struct mojo *m)
{
	if (m->threads.items[m->thread].outer.depth + m->frames.n > MAX_DEPTH)
		m->error = "a stack is deeper than 100,000";
	m->is_repeat = true;
}

// ---- events ----

static void take_metadata(struct mojo *m)
{
	struct fm_str key = take_text(m, &m->first), value = take_text(m, &m->second);
	if (fm_str_eq(key, FM_STR_LIT("mode")))
		snprintf(m->mode, sizeof(m->mode), "%.*s", (int)value.len, value.p);
	else if (fm_str_eq(key, FM_STR_LIT("austin")))
		fm_writer_meta(m->in->w, "austin_version", value);
}

static void define_text(struct mojo *m)
{
	uint32_t number = take_number(m);
	struct fm_str text = take_text(m, &m->first);
	bool is_new;
	if (!m->error)
		*fm_map_at(&m->strings, key_of(m, number), &is_new) = fm_intern_id(&m->texts, text, &is_new);
}

static int64_t take_metric(struct mojo *m)
{
	int64_t v = take_int(m);
	if (v > MAX_US || v < -MAX_US)
		m->error = m->error ? m->error : "a metric is too large";
	return v;
}

static void take_task(struct mojo *m)
{
	take_int(m); // its number
	take_int(m); // its name
	m->n_of_task = take_int(m);
	m->has_tasks = true;
}

static void take_event(struct mojo *m, uint8_t event)
{
	const struct fm_str none = FM_STR_LIT("");
	if (event > STACK && !m->has_sample) {
		m->error = "an event of a sample comes before the first one";
		return;
	}
	switch (event) {
	case METADATA:
		take_metadata(m);
		break;
	case STACK:
		begin_sample(m);
		break;
	case FRAME:
		define_frame(m);
		break;
	case FRAME_INVALID:
		push_frame(m,
			   (struct frame){ fm_writer_frame(m->in->w, FM_FRAME_ERROR, 0, FM_STACK_PYTHON_TORN), false });
		break;
	case FRAME_REF:
		refer_to_frame(m);
		break;
	case FRAME_KERNEL:
		push_frame(m, (struct frame){ fm_import_native_frame(m->in, FM_STR_LIT("[kernel]"),
								     take_text(m, &m->first), none, 0),
					      true });
		break;
	case GC:
		m->is_gc = true;
		break;
	case IDLE:
		m->is_idle = true;
		break;
	case METRIC_TIME:
		m->time_us = take_metric(m);
		break;
	case METRIC_MEMORY:
		m->memory_bytes = take_metric(m);
		break;
	case STRING:
		define_text(m);
		break;
	case STACK_REPEAT:
		repeat_stack(m);
		break;
	case TASK_STACK:
		take_task(m);
		break;
	case TASK_WAITER:
		take_int(m);
		take_int(m);
		break;
	case STRING_REF:
	case TASK_RUNNING:
		take_int(m);
		break;
	default:
		m->error = "the format has no event of this kind";
	}
}

static void tell(struct mojo *m)
{
	fm_import_missing(
		m->in, "when samples were taken",
		"the file has the weight of each sample, but no times: samples of a thread follow each other");
	if (!strcmp(m->mode, "wall"))
		fm_import_missing(m->in, "waiting",
				  "austin's wall mode does not separate waiting from running: all counts as running");
	if (m->has_memory)
		fm_import_missing(
			m->in, "allocations",
			"the file has the growth of resident memory between samples; it is shown as mapped memory");
	if (m->has_shrunk)
		fm_import_missing(m->in, "memory that was returned", "the file does not say whose it was");
	if (m->has_tasks)
		fm_import_missing(m->in, "asyncio tasks that waited", "a capture cannot hold their stacks");
}

bool fm_mojo_recognise(const uint8_t *head, size_t n)
{
	return n >= 4 && !memcmp(head, "MOJ", 3) && head[3] < 0x40;
}

enum fm_err fm_mojo_import(struct fm_import *in)
{
	struct mojo m = { .in = in };
	for (int i = 0; i < 3; i++)
		take_u8(&m);
	m.version = (uint64_t)take_int(&m);
	if (m.version < 1 || m.version > NEWEST_VERSION)
		return fm_diag_set(in->diag, FM_E_UNSUPPORTED,
				   "%s has version %" PRIu64 " of MOJO; Fathom knows 1 to %d", in->path, m.version,
				   NEWEST_VERSION);
	while (!m.error && (m.p < m.end || more(&m)))
		take_event(&m, take_u8(&m));
	if (!m.error)
		end_sample(&m);
	tell(&m);
	if (!m.error)
		more(&m); // what was taken is the input's past
	fm_buf_deinit(&m.first);
	fm_buf_deinit(&m.second);
	fm_intern_deinit(&m.texts);
	fm_intern_deinit(&m.thread_keys);
	fm_map_deinit(&m.strings);
	fm_map_deinit(&m.frame_ids);
	fm_vec_deinit(&m.known);
	fm_vec_deinit(&m.threads);
	fm_vec_deinit(&m.frames);
	return m.error ? fm_import_bad_byte(in, "%s", m.error) : fm_import_end(in);
}
