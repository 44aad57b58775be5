// SPDX-License-Identifier: Apache-2.0
// Chrome's trace events, as viztracer and many others write them: {"traceEvents": [...]} or the bare
// array, which may lack its end. Slices (X, or B and E), marks (i), counters (C) and names (M); times
// are microseconds.
//
// A slice is a call where its category or a Python file in its name says so, else a zone.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"
#include "import/frame_text.h"
#include "import/json_in.h"
#include "import/slices.h"

#define MAX_US 1e15
#define CPUS_PID (1 << 30) // fathom export: lanes of CPUs, which are no process

struct event {
	char phase;
	bool has_time, has_value;
	int64_t pid, tid;
	double ts_us, dur_us, value;
	int64_t line;                                                // of the arguments: the one that ran
	struct fm_buf name, category, place, thread, file, argument; // argument: "name" of the arguments
};

struct chrome {
	struct fm_import *in;
	struct fm_json_in j;
	struct fm_slices slices;
	struct event e;
	struct fm_map threads; // pid and tid -> index of slices + 1
	struct fm_intern whats;
	FM_VEC(uint32_t) what_ids; // by these
	uint64_t n_others, n_odd;
	bool has_overflow;
};

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->data ? (const char *)b->data : "", (uint32_t)b->len };
}

static void set(struct fm_buf *b, struct fm_str s)
{
	b->len = 0;
	fm_buf_bytes(b, s.p, s.len);
}

// Numbers of processes and threads are whatever their writer likes, texts too.
static int64_t take_id(struct chrome *c, struct fm_buf *name)
{
	if (fm_json_in_kind(&c->j) != '"')
		return fm_json_in_int(&c->j);
	struct fm_str text = fm_json_in_str(&c->j);
	if (name)
		set(name, text);
	return (int64_t)(fm_hash_bytes(text.p, text.len) >> 33);
}

static void take_args(struct chrome *c)
{
	struct event *e = &c->e;
	struct fm_str key;
	if (!fm_json_in_object(&c->j))
		return;
	while (fm_json_in_key(&c->j, &key)) {
		bool is_name = fm_str_eq(key, FM_STR_LIT("name")), is_file = fm_str_eq(key, FM_STR_LIT("filename"));
		bool is_line = fm_str_eq(key, FM_STR_LIT("line"));
		if (is_name || is_file) {
			set(is_name ? &e->argument : &e->file, fm_json_in_str(&c->j));
		} else if (fm_json_in_kind(&c->j) == '0') {
			double v = fm_json_in_real(&c->j);
			e->line = is_line && v > 0 && v < INT32_MAX ? (int64_t)v : e->line;
			e->value = e->has_value ? e->value : v; // of several series the first
			e->has_value = true;
		} else {
			fm_json_in_skip(&c->j);
		}
	}
}

static void take_event(struct chrome *c)
{
	struct event *e = &c->e;
	struct fm_str key;
	struct fm_buf *const texts[] = { &e->name, &e->category, &e->place, &e->thread, &e->file, &e->argument };
	for (size_t i = 0; i < FM_ARRAY_LEN(texts); i++)
		texts[i]->len = 0;
	e->phase = 0;
	e->has_time = e->has_value = false;
	e->pid = e->tid = e->line = 0;
	e->ts_us = e->dur_us = 0;
	if (!fm_json_in_object(&c->j))
		return;
	while (fm_json_in_key(&c->j, &key)) {
		if (fm_str_eq(key, FM_STR_LIT("ph"))) {
			struct fm_str phase = fm_json_in_str(&c->j);
			e->phase = phase.len == 1 ? *phase.p : '?';
		} else if (fm_str_eq(key, FM_STR_LIT("ts"))) {
			e->has_time = fm_json_in_kind(&c->j) == '0';
			e->ts_us = fm_json_in_real(&c->j);
		} else if (fm_str_eq(key, FM_STR_LIT("dur"))) {
			e->dur_us = fm_json_in_real(&c->j);
		} else if (fm_str_eq(key, FM_STR_LIT("pid"))) {
			e->pid = take_id(c, NULL);
		} else if (fm_str_eq(key, FM_STR_LIT("tid"))) {
			e->tid = take_id(c, &e->thread);
		} else if (fm_str_eq(key, FM_STR_LIT("name"))) {
			set(&e->name, fm_json_in_str(&c->j));
		} else if (fm_str_eq(key, FM_STR_LIT("cat"))) {
			set(&e->category, fm_json_in_str(&c->j));
		} else if (fm_str_eq(key, FM_STR_LIT("loc"))) {
			set(&e->place, fm_json_in_str(&c->j));
		} else if (fm_str_eq(key, FM_STR_LIT("args"))) {
			take_args(c);
		} else {
			fm_json_in_skip(&c->j);
		}
	}
}

// ---- what events are of ----

static uint32_t thread_of(struct chrome *c)
{
	const struct event *e = &c->e;
	bool is_new;
	uint32_t process = fm_import_process(c->in, (uint32_t)e->pid);
	uint32_t id = fm_import_thread(c->in, process, (uint32_t)e->tid, str_of(&e->thread));
	uint64_t *at = fm_map_at(&c->threads, id, &is_new);
	if (is_new)
		*at = fm_slices_thread(&c->slices, id);
	return (uint32_t)*at;
}

// "func (/path/file.py:12)": the name becomes "func".
static bool take_place(struct fm_str *name, struct fm_str *file, uint32_t *line)
{
	const char *open = memrchr(name->p, '(', name->len);
	if (!open || open == name->p || open[-1] != ' ' || name->p[name->len - 1] != ')')
		return false;
	struct fm_str inside = { open + 1, (uint32_t)(name->p + name->len - open - 2) };
	if (!fm_text_take_number(&inside, ':', line))
		return false;
	*file = inside;
	name->len = (uint32_t)(open - name->p) - 1;
	return true;
}

static uint32_t named(struct chrome *c, enum fm_trace_name_kind kind, struct fm_str name, struct fm_str file,
		      uint32_t line)
{
	return fm_writer_trace_place(c->in->w, kind, name, file, line);
}

static struct fm_slice_what make_what(struct chrome *c)
{
	struct event *e = &c->e;
	struct fm_str name = str_of(&e->name), category = str_of(&e->category), file = str_of(&e->file);
	uint32_t line = 0;
	uint8_t kind;
	uint64_t value;
	struct fm_slice_what what = { .class = FM_CLASS_NATIVE };
	if (e->phase == 'C' || e->phase == 'i') {
		what.op = e->phase == 'C' ? FM_ZONE_COUNTER : FM_ZONE_MARK;
		what.ref = named(c, e->phase == 'C' ? FM_NAME_COUNTER : FM_NAME_MARK, name, FM_STR_LIT(""), 0);
		return what;
	}
	bool is_sampled = fm_str_eq(category, FM_STR_LIT("fathom")); // frames that samples show: no calls
	bool is_call = is_sampled || fm_str_eq(category, FM_STR_LIT("call")) ||
		       fm_str_eq(category, FM_STR_LIT("fee")) || fm_str_eq(category, FM_STR_LIT("FEE"));
	struct fm_str place = str_of(&e->place);
	if (place.len && fm_text_take_number(&place, ':', &line))
		file = place;
	else
		take_place(&name, &file, &line);
	if (fm_import_is_python_file(file)) {
		what.frame_id = fm_import_python_frame(c->in, name, file, line, e->line ? (uint32_t)e->line : line);
		what.op = is_sampled ? FM_ZONE_RESUME : FM_ZONE_ENTER;
		what.ref = FM_NO_ID;
		what.class = FM_CLASS_PYTHON;
		if (fm_writer_get_frame(c->in->w, what.frame_id, &kind, &what.ref, &value))
			what.ref = FM_NO_ID;
		return what;
	}
	what.frame_id = fm_import_native_frame(c->in, FM_STR_LIT(""), name, file, line);
	what.op = FM_ZONE_BEGIN;
	what.ref = named(c, is_call ? FM_NAME_FUNCTION : FM_NAME_ZONE, name, file, line);
	return what;
}

static uint32_t what_of(struct chrome *c)
{
	const struct event *e = &c->e;
	const struct fm_buf *const parts[] = { &e->name, &e->category, &e->place, &e->file };
	struct fm_buf key = { 0 };
	bool is_new;
	fm_buf_u8(&key, e->phase == 'C' || e->phase == 'i' ? (uint8_t)e->phase : 'X');
	fm_buf_u64(&key, (uint64_t)e->line);
	for (size_t i = 0; i < FM_ARRAY_LEN(parts); i++) {
		fm_buf_bytes(&key, parts[i]->data, parts[i]->len);
		fm_buf_u8(&key, 0);
	}
	uint32_t id = fm_intern_id(&c->whats, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	if (is_new)
		fm_vec_push(&c->what_ids, fm_slices_what(&c->slices, make_what(c)));
	return c->what_ids.items[id];
}

// ---- events ----

static void name_thing(struct chrome *c)
{
	struct event *e = &c->e;
	struct fm_str what = str_of(&e->name), name = str_of(&e->argument);
	uint32_t process = fm_import_process(c->in, (uint32_t)e->pid);
	if (fm_str_eq(what, FM_STR_LIT("process_name")) && name.len)
		fm_import_process_command(c->in, process, name);
	else if (fm_str_eq(what, FM_STR_LIT("thread_name")))
		fm_import_thread(c->in, process, (uint32_t)e->tid, name);
}

static void put_event(struct chrome *c)
{
	struct event *e = &c->e;
	if (e->phase == 'I' || e->phase == 'R')
		e->phase = 'i';
	if (!e->phase || e->pid == CPUS_PID)
		return;
	if (e->phase == 'M') {
		name_thing(c);
		return;
	}
	if (!strchr("XBECi", e->phase)) {
		c->n_others++;
		return;
	}
	if (!e->has_time || !(fabs(e->ts_us) < MAX_US) || !(e->dur_us >= 0 && e->dur_us < MAX_US)) {
		c->n_odd++;
		return;
	}
	uint32_t thread = thread_of(c);
	int64_t ns = llround(e->ts_us * 1e3);
	if (e->phase == 'X')
		fm_slices_add(&c->slices, thread, what_of(c), ns, (uint64_t)llround(e->dur_us * 1e3));
	else if (e->phase == 'B')
		fm_slices_begin(&c->slices, thread, what_of(c), ns);
	else if (e->phase == 'E')
		fm_slices_end(&c->slices, thread, ns);
	else if (e->phase == 'i')
		fm_slices_mark(&c->slices, thread, what_of(c), ns);
	else if (e->has_value)
		fm_slices_counter(&c->slices, thread, what_of(c), ns, e->value);
}

static void take_events(struct chrome *c)
{
	if (!fm_json_in_array(&c->j))
		return;
	while (fm_json_in_item(&c->j)) {
		take_event(c);
		if (!c->j.error)
			put_event(c);
	}
}

// viztracer: {"files": {path: [text, number of lines]}}
static void take_sources(struct chrome *c)
{
	struct fm_str key;
	struct fm_buf path = { 0 };
	if (!fm_json_in_object(&c->j))
		return;
	while (fm_json_in_key(&c->j, &key)) {
		if (!fm_str_eq(key, FM_STR_LIT("files"))) {
			fm_json_in_skip(&c->j);
			continue;
		}
		if (!fm_json_in_object(&c->j))
			continue;
		while (fm_json_in_key(&c->j, &key)) {
			set(&path, key);
			if (!fm_json_in_array(&c->j))
				continue;
			if (fm_json_in_item(&c->j))
				fm_writer_source(c->in->w, str_of(&path), fm_json_in_str(&c->j));
			fm_json_in_leave(&c->j);
		}
	}
	fm_buf_deinit(&path);
}

static void take_metadata(struct chrome *c)
{
	struct fm_str key;
	if (!fm_json_in_object(&c->j))
		return;
	while (fm_json_in_key(&c->j, &key))
		if (fm_str_eq(key, FM_STR_LIT("overflow")))
			c->has_overflow = fm_json_in_bool(&c->j);
		else
			fm_json_in_skip(&c->j);
}

static void take_file(struct chrome *c)
{
	struct fm_str key;
	if (fm_json_in_kind(&c->j) == '[') {
		take_events(c);
		return;
	}
	if (!fm_json_in_object(&c->j))
		return;
	while (fm_json_in_key(&c->j, &key)) {
		if (fm_str_eq(key, FM_STR_LIT("traceEvents")))
			take_events(c);
		else if (fm_str_eq(key, FM_STR_LIT("file_info")))
			take_sources(c);
		else if (fm_str_eq(key, FM_STR_LIT("viztracer_metadata")))
			take_metadata(c);
		else
			fm_json_in_skip(&c->j);
	}
}

static void tell(struct chrome *c)
{
	char text[96];
	snprintf(text, sizeof(text), "%" PRIu64 " events of other kinds", c->n_others);
	if (c->n_others)
		fm_import_missing(c->in, text, "flows, asynchronous slices, objects: a capture cannot hold them");
	snprintf(text, sizeof(text), "%" PRIu64 " events without a time", c->n_odd);
	if (c->n_odd)
		fm_import_missing(c->in, text, "their time or duration is not a number");
	if (c->has_overflow)
		fm_import_missing(c->in, "the beginning of the run",
				  "viztracer dropped it because its buffer was full");
}

bool fm_chrome_recognise(const uint8_t *head, size_t n)
{
	size_t i = 0;
	while (i < n && head[i] && strchr(" \t\r\n", head[i]))
		i++;
	if (i == n || (head[i] != '{' && head[i] != '['))
		return false;
	if (head[i] == '{')
		return memmem(head, n, "\"traceEvents\"", 13);
	return memmem(head, n, "\"ph\"", 4) && (memmem(head, n, "\"ts\"", 4) || memmem(head, n, "\"pid\"", 5));
}

enum fm_err fm_chrome_import(struct fm_import *in)
{
	struct chrome c = { .in = in };
	struct event *e = &c.e;
	fm_json_in_init(&c.j, in->input);
	fm_slices_init(&c.slices, in);
	c.slices.inner_first = true;
	take_file(&c);
	fm_slices_put(&c.slices);
	tell(&c);
	size_t n;
	enum fm_err err = fm_json_in_end(&c.j, in);
	fm_input_peek(in->input, 1, &n);
	if (err && c.j.depth == 1 && c.j.is_array[0] & 1 && !n && !fm_input_error(in->input))
		err = FM_OK; // a writer that was killed leaves the array open, and may
	struct fm_buf *const texts[] = { &e->name, &e->category, &e->place, &e->thread, &e->file, &e->argument };
	for (size_t i = 0; i < FM_ARRAY_LEN(texts); i++)
		fm_buf_deinit(texts[i]);
	fm_json_in_deinit(&c.j);
	fm_slices_deinit(&c.slices);
	fm_map_deinit(&c.threads);
	fm_intern_deinit(&c.whats);
	fm_vec_deinit(&c.what_ids);
	return err;
}
