// SPDX-License-Identifier: Apache-2.0
// Scalene's JSON: for each line its shares of the time in Python, in C and waiting for the system,
// and what it allocated; for some lines the stacks that led there.
//
// Shares are of elapsed_time_sec. What a line has is told to its stacks by their own shares, so that
// lines come out as they are in the file; a line that has no stack stands alone.
//
// Members stand in any order. Bound: lines and stacks, which are a profile's own number of them.
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"
#include "import/frame_text.h"
#include "import/scalene.h"

#define MAX_SECONDS 1e9
#define MAX_MB 1e12
#define MAX_STACK_FRAMES 10000u

static uint32_t text_id(struct fm_scalene *s, struct fm_str text)
{
	bool is_new;
	return fm_intern_id(&s->texts, text, &is_new);
}

static bool is_key(struct fm_str key, const char *name)
{
	return fm_str_eq(key, fm_str_of(name));
}

static uint32_t take_line_number(struct fm_scalene *s)
{
	int64_t v = fm_json_in_int(&s->j);
	return v > 0 && v < INT32_MAX ? (uint32_t)v : 0;
}

static double take_real(struct fm_scalene *s, double max)
{
	double v = fm_json_in_real(&s->j);
	return v > 0 && v <= max ? v : 0;
}

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

static void set(struct fm_buf *b, struct fm_str text)
{
	b->len = 0;
	fm_buf_bytes(b, text.p, text.len);
}

// ---- files ----

static bool take_figure(struct fm_scalene *s, struct fm_str key, struct fm_scalene_line *line)
{
	const struct {
		const char *key;
		double *to;
		double max;
	} figures[] = {
		{ "n_cpu_percent_python", &line->python, 100 },  { "n_cpu_percent_c", &line->c, 100 },
		{ "n_sys_percent", &line->system, 100 },         { "n_malloc_mb", &line->alloc_mb, MAX_MB },
		{ "n_peak_mb", &line->peak_mb, MAX_MB },         { "n_copy_mb_s", &line->copy_mb_s, MAX_MB },
		{ "n_python_fraction", &line->python_share, 1 }, { "n_mallocs", &line->n_allocs, MAX_MB },
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(figures); i++)
		if (is_key(key, figures[i].key)) {
			*figures[i].to = take_real(s, figures[i].max);
			return true;
		}
	return false;
}

static void keep_source(struct fm_scalene *s, uint32_t number, struct fm_str text)
{
	if (!number || number != s->last_source_line + 1) {
		s->last_source_line = UINT32_MAX - 1; // a gap: nothing comes after it
		return;
	}
	s->last_source_line = number;
	fm_buf_bytes(&s->source, text.p, text.len);
	if (!text.len || text.p[text.len - 1] != '\n')
		fm_buf_u8(&s->source, '\n');
}

static void take_line(struct fm_scalene *s, uint32_t file)
{
	struct fm_scalene_line line = { .file = file };
	struct fm_str key;
	bool is_new;
	s->name.len = 0;
	if (!fm_json_in_object(&s->j))
		return;
	while (fm_json_in_key(&s->j, &key)) {
		if (take_figure(s, key, &line))
			continue;
		if (is_key(key, "lineno"))
			line.number = take_line_number(s);
		else if (is_key(key, "start_function_line"))
			line.function_line = take_line_number(s);
		else if (is_key(key, "line"))
			set(&s->name, fm_json_in_str(&s->j));
		else if (is_key(key, "n_gpu_percent"))
			s->has_gpu = s->has_gpu || fm_json_in_real(&s->j) > 0;
		else if (is_key(key, "n_async_await_percent"))
			s->has_await = s->has_await || fm_json_in_real(&s->j) > 0;
		else
			fm_json_in_skip(&s->j);
	}
	keep_source(s, line.number, str_of(&s->name));
	if (!line.number)
		return;
	uint64_t *idx = fm_map_at(&s->line_index, fm_scalene_place(file, line.number), &is_new);
	if (!is_new)
		return;
	*idx = s->lines.n;
	fm_vec_push(&s->lines, line);
}

static void take_function(struct fm_scalene *s, uint32_t file)
{
	struct fm_str key;
	uint32_t line = 0;
	bool is_new;
	s->name.len = 0;
	if (!fm_json_in_object(&s->j))
		return;
	while (fm_json_in_key(&s->j, &key)) {
		if (is_key(key, "lineno"))
			line = take_line_number(s);
		else if (is_key(key, "line"))
			set(&s->name, fm_json_in_str(&s->j));
		else
			fm_json_in_skip(&s->j);
	}
	if (line && s->name.len)
		*fm_map_at(&s->function_index, fm_scalene_place(file, line), &is_new) = text_id(s, str_of(&s->name));
}

static void take_file(struct fm_scalene *s, struct fm_str name)
{
	uint32_t file = text_id(s, name);
	struct fm_str key;
	s->source.len = 0;
	s->last_source_line = 0;
	if (!fm_json_in_object(&s->j))
		return;
	while (fm_json_in_key(&s->j, &key)) {
		bool is_lines = is_key(key, "lines"), is_functions = is_key(key, "functions");
		if (is_key(key, "leaks")) {
			if (fm_json_in_object(&s->j))
				for (; fm_json_in_key(&s->j, &key); s->has_leaks = true)
					fm_json_in_skip(&s->j);
		} else if ((is_lines || is_functions) && fm_json_in_array(&s->j)) {
			while (fm_json_in_item(&s->j))
				is_lines ? take_line(s, file) : take_function(s, file);
		} else if (!is_lines && !is_functions) {
			fm_json_in_skip(&s->j);
		}
	}
	if (s->last_source_line < UINT32_MAX - 1 && s->source.len)
		fm_writer_source(s->in->w, fm_intern_get(&s->texts, file), str_of(&s->source));
}

// ---- stacks ----

static uint32_t end_path(struct fm_scalene *s)
{
	uint32_t stack_id = FM_ROOT_STACK;
	for (size_t i = 0; i < s->path.n; i++)
		stack_id = fm_writer_stack(s->in->w, stack_id, s->path.items[i]);
	return stack_id;
}

static void push_frame(struct fm_scalene *s, struct fm_scalene_stack *stack, struct fm_str name, struct fm_str file,
		       uint32_t line)
{
	if (s->path.n == MAX_STACK_FRAMES)
		return;
	fm_vec_push(&s->path, fm_import_python_frame(s->in, name, file, 0, line));
	stack->file = text_id(s, file);
	stack->line = line;
}

// "/path/file.py name:12;"
static void push_text(struct fm_scalene *s, struct fm_scalene_stack *stack, struct fm_str text)
{
	uint32_t line;
	text.len -= text.len && text.p[text.len - 1] == ';';
	if (!fm_text_take_number(&text, ':', &line))
		return;
	const char *space = memrchr(text.p, ' ', text.len);
	if (!space)
		return;
	struct fm_str name = { space + 1, (uint32_t)(text.p + text.len - space - 1) };
	push_frame(s, stack, name, (struct fm_str){ text.p, (uint32_t)(space - text.p) }, line);
}

static void push_object(struct fm_scalene *s, struct fm_scalene_stack *stack)
{
	struct fm_str key;
	uint32_t line = 0;
	bool is_python = false;
	s->name.len = s->file.len = 0;
	while (fm_json_in_key(&s->j, &key)) {
		if (is_key(key, "display_name"))
			set(&s->name, fm_json_in_str(&s->j));
		else if (is_key(key, "filename_or_module"))
			set(&s->file, fm_json_in_str(&s->j));
		else if (is_key(key, "kind"))
			is_python = is_key(fm_json_in_str(&s->j), "py");
		else if (is_key(key, "line"))
			line = take_line_number(s);
		else
			fm_json_in_skip(&s->j);
	}
	if (is_python)
		push_frame(s, stack, str_of(&s->name), str_of(&s->file), line);
}

// What follows the frames: {"cpu_samples": share}, or MB.
static double take_share(struct fm_scalene *s)
{
	struct fm_str key;
	double share = 0;
	if (fm_json_in_kind(&s->j) == '0')
		return take_real(s, MAX_MB);
	if (!fm_json_in_object(&s->j))
		return 0;
	while (fm_json_in_key(&s->j, &key))
		if (is_key(key, "cpu_samples"))
			share = take_real(s, MAX_SECONDS);
		else
			fm_json_in_skip(&s->j);
	return share;
}

// [[frames], share], outermost first
static void take_stack(struct fm_scalene *s, bool is_memory)
{
	struct fm_scalene_stack stack = { .is_memory = is_memory };
	if (!fm_json_in_array(&s->j))
		return;
	s->path.n = 0;
	if (fm_json_in_item(&s->j) && fm_json_in_array(&s->j))
		while (fm_json_in_item(&s->j)) {
			if (fm_json_in_kind(&s->j) == '"')
				push_text(s, &stack, fm_json_in_str(&s->j));
			else if (fm_json_in_object(&s->j))
				push_object(s, &stack);
		}
	if (fm_json_in_item(&s->j))
		stack.share = take_share(s);
	fm_json_in_leave(&s->j);
	stack.stack_id = end_path(s);
	if (s->path.n && stack.share > 0)
		fm_vec_push(&s->stacks, stack);
}

static void take_stacks(struct fm_scalene *s, bool is_memory)
{
	if (!fm_json_in_array(&s->j))
		return;
	while (fm_json_in_item(&s->j))
		take_stack(s, is_memory);
}

// ---- the file ----

static void take_args(struct fm_scalene *s)
{
	struct fm_buf command = { 0 };
	if (!fm_json_in_array(&s->j))
		return;
	while (fm_json_in_item(&s->j)) {
		struct fm_str arg = fm_json_in_str(&s->j);
		if (command.len)
			fm_buf_u8(&command, 0);
		fm_buf_bytes(&command, arg.p, arg.len);
	}
	fm_writer_meta(s->in->w, "command", str_of(&command));
	fm_import_process_command(s->in, fm_import_process(s->in, 0), str_of(&command));
	fm_buf_deinit(&command);
}

static void take_started(struct fm_scalene *s)
{
	int64_t at = fm_json_in_int(&s->j);
	if (at > 0 && at < UINT32_MAX)
		fm_import_started(s->in, (uint64_t)at * 1000000000);
}

static void take_all(struct fm_scalene *s)
{
	struct fm_str key;
	if (!fm_json_in_object(&s->j))
		return;
	while (fm_json_in_key(&s->j, &key)) {
		if (is_key(key, "elapsed_time_sec")) {
			s->elapsed_s = take_real(s, MAX_SECONDS);
		} else if (is_key(key, "files")) {
			if (fm_json_in_object(&s->j))
				while (fm_json_in_key(&s->j, &key))
					take_file(s, key);
		} else if (is_key(key, "stacks")) {
			take_stacks(s, false);
		} else if (is_key(key, "memory_stacks")) {
			take_stacks(s, true);
		} else if (is_key(key, "args")) {
			take_args(s);
		} else if (is_key(key, "start_time_absolute")) {
			take_started(s);
		} else {
			s->has_native_stacks = s->has_native_stacks || is_key(key, "combined_stacks");
			fm_json_in_skip(&s->j);
		}
	}
}

bool fm_scalene_recognise(const uint8_t *head, size_t n)
{
	size_t i = 0;
	while (i < n && head[i] && strchr(" \t\r\n", head[i]))
		i++;
	if (i == n || head[i] != '{')
		return false;
	return memmem(head, FM_MIN(n, (size_t)4096), "\"alloc_samples\"", 15) ||
	       (memmem(head, n, "\"elapsed_time_sec\"", 18) && memmem(head, n, "\"n_cpu_percent_python\"", 22));
}

enum fm_err fm_scalene_import(struct fm_import *in)
{
	struct fm_scalene s = { .in = in };
	fm_json_in_init(&s.j, in->input);
	s.thread_id = fm_import_thread(in, fm_import_process(in, 0), 0, FM_STR_LIT(""));
	take_all(&s);
	fm_scalene_put(&s);
	enum fm_err err = fm_json_in_end(&s.j, in);
	fm_json_in_deinit(&s.j);
	fm_intern_deinit(&s.texts);
	fm_map_deinit(&s.line_index);
	fm_map_deinit(&s.function_index);
	fm_vec_deinit(&s.lines);
	fm_vec_deinit(&s.stacks);
	fm_vec_deinit(&s.path);
	struct fm_buf *const bufs[] = { &s.source, &s.name, &s.file };
	for (size_t i = 0; i < FM_ARRAY_LEN(bufs); i++)
		fm_buf_deinit(bufs[i]);
	return err;
}
