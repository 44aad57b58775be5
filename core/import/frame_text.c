// SPDX-License-Identifier: Apache-2.0
#include "import/frame_text.h"

#include <string.h>

#include "base/hex.h"

#define INLINED " (inlined)" // fathom export
#define MAX_LINE 0x7fffffffu

static bool cut_end(struct fm_str *text, const char *end)
{
	size_t n = strlen(end);
	if (text->len <= n || memcmp(text->p + text->len - n, end, n) != 0)
		return false;
	text->len -= (uint32_t)n;
	return true;
}

bool fm_text_take_number(struct fm_str *text, char before, uint32_t *ret)
{
	uint32_t at = text->len;
	uint64_t value = 0;
	while (at && text->p[at - 1] >= '0' && text->p[at - 1] <= '9')
		at--;
	if (at == text->len || !at || text->p[at - 1] != before || text->len - at > 10)
		return false;
	for (uint32_t i = at; i < text->len; i++)
		value = value * 10 + (uint64_t)(text->p[i] - '0');
	if (value > MAX_LINE)
		return false;
	*ret = (uint32_t)value;
	text->len = at - 1;
	return true;
}

// "name (inside)": the parenthesis that ends the text and the one that it closes.
static bool take_parentheses(struct fm_str *text, struct fm_str *ret)
{
	unsigned depth = 0;
	if (!text->len || text->p[text->len - 1] != ')')
		return false;
	for (uint32_t i = text->len; i-- > 2;) {
		depth += text->p[i] == ')';
		depth -= text->p[i] == '(';
		if (depth)
			continue;
		if (text->p[i - 1] != ' ' || i + 2 == text->len)
			return false;
		*ret = (struct fm_str){ text->p + i + 1, text->len - i - 2 };
		text->len = i - 1;
		return true;
	}
	return false;
}

// Without a line, only its ending tells a source from a library.
static bool is_c_source(struct fm_str file)
{
	static const char *const ends[] = { ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".rs", ".go", ".S" };
	for (size_t i = 0; i < FM_ARRAY_LEN(ends); i++)
		if (cut_end(&file, ends[i]))
			return true;
	return false;
}

// Names that only Python gives.
static bool is_python_name(struct fm_str name)
{
	static const char *const names[] = { "<module>",   "<lambda>",  "<listcomp>",
					     "<dictcomp>", "<setcomp>", "<genexpr>" };
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i]);
		if (name.len >= n && !memcmp(name.p + name.len - n, names[i], n))
			return true;
	}
	return false;
}

static bool error_of(struct fm_str text, uint64_t *ret)
{
	static const struct {
		const char *text;
		uint64_t number;
	} errors[] = {
#define X(name, number, text) { "[" text "]", number },
		FM_STACK_ERRORS(X)
#undef X
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(errors); i++)
		if (fm_str_eq(text, fm_str_of(errors[i].text))) {
			*ret = errors[i].number;
			return true;
		}
	return false;
}

bool fm_text_perf_name(struct fm_str text, struct fm_str *ret_name, struct fm_str *ret_file)
{
	if (!fm_str_starts_with(text, "py::"))
		return false;
	const char *colon = memchr(text.p + 4, ':', text.len - 4);
	if (!colon)
		return false;
	*ret_name = (struct fm_str){ text.p + 4, (uint32_t)(colon - text.p - 4) };
	*ret_file = (struct fm_str){ colon + 1, (uint32_t)(text.p + text.len - colon - 1) };
	return true;
}

// "file.py:func:12", as austin writes it.
static bool take_austin_name(struct fm_str text, struct fm_str *ret_name, struct fm_str *ret_file, uint32_t *ret_line)
{
	uint32_t line;
	if (!fm_text_take_number(&text, ':', &line))
		return false;
	const char *colon = text.len ? memrchr(text.p, ':', text.len) : NULL;
	if (!colon)
		return false;
	*ret_file = (struct fm_str){ text.p, (uint32_t)(colon - text.p) };
	*ret_name = (struct fm_str){ colon + 1, (uint32_t)(text.p + text.len - colon - 1) };
	*ret_line = line;
	return fm_import_is_python_file(*ret_file);
}

static uint32_t native(struct fm_import *in, struct fm_str name, struct fm_str inside, uint32_t line)
{
	const struct fm_str none = FM_STR_LIT("");
	bool is_inlined = cut_end(&name, INLINED) || cut_end(&name, "_[i]"), is_file = line || is_c_source(inside);
	if (cut_end(&name, "_[k]"))
		inside = FM_STR_LIT("[kernel]");
	else
		cut_end(&name, "_[j]");
	struct fm_symbol_link link = { name, is_file ? inside : none, 0, line, is_inlined };
	return fm_import_native_frames(in, is_file ? none : inside, &link, 1);
}

uint32_t fm_frame_of_parts(struct fm_import *in, struct fm_str name, struct fm_str inside, uint32_t line)
{
	if (fm_import_is_python_file(inside) || (inside.len && is_python_name(name)))
		return fm_import_python_frame(in, name, inside, 0, line);
	return native(in, name, inside, line);
}

uint32_t fm_frame_of_text(struct fm_import *in, struct fm_str text)
{
	struct fm_str name = text, inside = FM_STR_LIT("");
	uint32_t line = 0;
	uint64_t error;
	if (error_of(text, &error))
		return fm_writer_frame(in->w, FM_FRAME_ERROR, 0, error);
	if (fm_text_perf_name(text, &name, &inside) || take_austin_name(text, &name, &inside, &line))
		return fm_import_python_frame(in, name, inside, 0, line);
	if (take_parentheses(&name, &inside))
		fm_text_take_number(&inside, ':', &line);
	return fm_frame_of_parts(in, name, inside, line);
}

// ---- Processes and threads ----

// Decimal or, with 0x, hexadecimal. *ret_end is behind it: `from` when there is none.
static uint64_t number_in(struct fm_str s, uint32_t from, uint32_t *ret_end)
{
	bool is_hex = s.len >= from + 2 && s.p[from] == '0' && s.p[from + 1] == 'x';
	uint64_t value = 0;
	uint32_t i = from + (is_hex ? 2 : 0);
	for (; i < s.len; i++) {
		unsigned digit = fm_hex_digit(s.p[i]);
		if (digit == FM_NO_DIGIT || (digit > 9 && !is_hex))
			break;
		value = value * (is_hex ? 16 : 10) + digit;
	}
	*ret_end = i;
	return value;
}

bool fm_process_of_text(struct fm_import *in, struct fm_str text, uint32_t *ret_id)
{
	static const char begin[] = "process ";
	uint32_t from = sizeof(begin) - 1, end;
	if (!fm_str_starts_with(text, begin))
		return false;
	uint64_t pid = number_in(text, from, &end);
	struct fm_str command = { text.p + end, text.len - end };
	if (end == from || !fm_str_starts_with(command, ":\"") || command.len < 3 || command.p[command.len - 1] != '"')
		return false;
	*ret_id = fm_import_process(in, (uint32_t)pid);
	fm_import_process_command(in, *ret_id, (struct fm_str){ command.p + 2, command.len - 3 });
	return true;
}

// "Thread 34 "name"", as py-spy's speedscope files have it.
static bool take_py_spy_thread(struct fm_str text, uint64_t *ret_tid, struct fm_str *ret_name)
{
	static const char begin[] = "Thread ";
	uint32_t from = sizeof(begin) - 1, end;
	if (!fm_str_starts_with(text, begin))
		return false;
	*ret_tid = number_in(text, from, &end);
	struct fm_str name = { text.p + end, text.len - end };
	if (end == from || name.len < 3 || memcmp(name.p, " \"", 2) != 0 || name.p[name.len - 1] != '"')
		return false;
	*ret_name = (struct fm_str){ name.p + 2, name.len - 3 };
	return true;
}

bool fm_thread_of_text(struct fm_import *in, uint32_t process_id, struct fm_str text, uint32_t *ret_id)
{
	static const char begin[] = "thread (";
	uint32_t from = sizeof(begin) - 1, end = from;
	uint64_t tid = 0;
	struct fm_str name;
	if (!take_py_spy_thread(text, &tid, &name)) {
		if (fm_str_starts_with(text, begin))
			tid = number_in(text, from, &end);
		if (end == from || end >= text.len || text.p[end] != ')')
			return false;
		name = (struct fm_str){ text.p + end + 1, text.len - end - 1 };
		if (fm_str_starts_with(name, ": "))
			name = (struct fm_str){ name.p + 2, name.len - 2 };
	}
	*ret_id = fm_import_thread(in, process_id, (uint32_t)(tid ^ tid >> 32), name);
	return true;
}
