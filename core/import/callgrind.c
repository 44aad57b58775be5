// SPDX-License-Identifier: Apache-2.0
// The Callgrind profile format: own costs of functions by line, and calls with what they cost
// inclusively. valgrind's documentation of the format is what this follows.
//
// Costs are in one event of the file's, most often instructions (Ir), which are no time: the capture
// says which. What a function cost with all it called is not in the file: it is its own cost and that
// of its calls of others, which in recursion through others is too much, and is cut at the whole.
//
// Bound: distinct functions, lines and pairs, which are summed up and written at the end.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/callgrind.h"
#include "import/formats.h"

#define MAX_EVENTS 64
#define MAX_COST ((uint64_t)1 << 60) // of the whole file

// ---- names ----

static uint32_t text_id(struct fm_callgrind *c, struct fm_str s)
{
	bool is_new;
	return fm_intern_id(&c->texts, fm_import_name(c->in, s), &is_new);
}

bool fm_callgrind_number(struct fm_str *s, uint64_t *ret)
{
	bool is_hex = s->len > 2 && s->p[0] == '0' && (s->p[1] == 'x' || s->p[1] == 'X');
	uint64_t v = 0;
	uint32_t i = is_hex ? 2 : 0, begin = i;
	for (; i < s->len; i++) {
		char ch = (char)(s->p[i] | (is_hex ? 0x20 : 0));
		unsigned digit = ch >= '0' && ch <= '9'             ? (unsigned)(ch - '0')
				 : is_hex && ch >= 'a' && ch <= 'f' ? (unsigned)(ch - 'a' + 10)
								    : 99;
		if (digit == 99)
			break;
		if (v > (UINT64_MAX - digit) / (is_hex ? 16 : 10))
			return false;
		v = v * (is_hex ? 16 : 10) + digit;
	}
	*s = (struct fm_str){ s->p + i, s->len - i };
	*ret = v;
	return i > begin;
}

static void skip_blanks(struct fm_str *s)
{
	while (s->len && (*s->p == ' ' || *s->p == '\t'))
		*s = (struct fm_str){ s->p + 1, s->len - 1 };
}

// "(3) name" gives a name a number, "(3)" is that name; others are names themselves.
static bool take_name(struct fm_callgrind *c, enum fm_callgrind_space space, struct fm_str s, uint32_t *ret)
{
	struct fm_str rest = { s.p + 1, s.len - 1 };
	uint64_t number;
	if (s.len < 3 || s.p[0] != '(' || !fm_callgrind_number(&rest, &number) || !rest.len || rest.p[0] != ')') {
		*ret = text_id(c, s);
		return true;
	}
	rest = (struct fm_str){ rest.p + 1, rest.len - 1 };
	skip_blanks(&rest);
	bool is_new;
	if (!rest.len) {
		const uint64_t *known = fm_map_find(&c->numbers[space], number);
		*ret = known ? (uint32_t)*known : 0;
		return known;
	}
	*ret = text_id(c, rest);
	*fm_map_at(&c->numbers[space], number, &is_new) = *ret;
	return true;
}

static uint32_t function_of(struct fm_callgrind *c, uint32_t object, uint32_t file, uint32_t name)
{
	const uint32_t key[] = { object, file, name };
	bool is_new;
	uint32_t id = fm_intern_id(&c->function_keys, (struct fm_str){ (const char *)key, sizeof(key) }, &is_new);
	if (is_new)
		fm_vec_push(&c->functions,
			    (struct fm_callgrind_function){ object, file, name, FM_NO_LINE, 0, 0, 0, 0 });
	return id;
}

// ---- costs ----

static void meet_line(struct fm_callgrind_function *f, uint64_t line)
{
	if (line && line < FM_NO_LINE)
		f->first_line = FM_MIN(f->first_line, (uint32_t)line);
}

static void add_own(struct fm_callgrind *c, uint64_t cost)
{
	struct fm_callgrind_function *f = &c->functions.items[c->function];
	uint32_t line = c->has_line && c->line < FM_NO_LINE ? (uint32_t)c->line : 0;
	// What was inlined from other files has no name there: it is the function's, without a line.
	line = c->file == f->file ? line : 0;
	c->has_inlined = c->has_inlined || c->file != f->file;
	const uint32_t key[] = { c->function, line };
	bool is_new;
	uint32_t id = fm_intern_id(&c->line_keys, (struct fm_str){ (const char *)key, sizeof(key) }, &is_new);
	if (is_new)
		fm_vec_push(&c->lines, (struct fm_callgrind_line){ c->function, line, 0 });
	meet_line(f, line);
	c->lines.items[id].own += cost;
	f->own += cost;
}

static bool add_call(struct fm_callgrind *c, uint64_t cost)
{
	uint32_t callee = function_of(c, c->called_object, c->called_file, c->called_function);
	struct fm_callgrind_function *f = &c->functions.items[c->function], *called = &c->functions.items[callee];
	bool is_new;
	uint64_t *idx = fm_map_at(&c->pair_keys, (uint64_t)c->function << 32 | callee, &is_new);
	if (is_new) {
		*idx = c->pairs.n;
		fm_vec_push(&c->pairs, (struct fm_callgrind_pair){ c->function, callee, 0, 0 });
	}
	c->pairs.items[*idx].n_calls += c->n_calls;
	c->pairs.items[*idx].inclusive += cost;
	called->n_calls += c->n_calls;
	meet_line(called, c->target_line);
	if (callee == c->function)
		f->n_self_calls += c->n_calls;
	else
		f->of_others += cost;
	c->has_calls_line = false;
	c->called_object = c->object;
	c->called_file = c->file;
	return c->pairs.items[*idx].inclusive <= MAX_COST && f->of_others <= MAX_COST && called->n_calls <= MAX_COST;
}

static bool take_sub_position(struct fm_str *s, uint64_t *position)
{
	uint64_t v;
	char sign = s->len ? *s->p : 0;
	if (sign == '*' || sign == '+' || sign == '-')
		*s = (struct fm_str){ s->p + 1, s->len - 1 };
	if (sign != '*') {
		if (!fm_callgrind_number(s, &v))
			return false;
		*position = sign == '+' ? *position + v : sign == '-' ? *position - v : v;
	}
	skip_blanks(s);
	return true;
}

static bool take_position(struct fm_callgrind *c, struct fm_str *s)
{
	return (!c->has_instr || take_sub_position(s, &c->instr)) && (!c->has_line || take_sub_position(s, &c->line));
}

static enum fm_err take_cost(struct fm_callgrind *c, struct fm_str s)
{
	uint64_t cost = 0, v;
	if (!take_position(c, &s))
		return fm_import_bad_line(c->in, "a cost has no position");
	for (unsigned i = 0; s.len && i < MAX_EVENTS; i++) { // missing ones at the end are 0
		if (!fm_callgrind_number(&s, &v))
			return fm_import_bad_line(c->in, "a cost is not a number");
		cost = i == c->column ? v : cost;
		skip_blanks(&s);
	}
	if (!c->has_events)
		return fm_import_bad_line(c->in, "a cost stands before the line that names the events");
	if (c->function == FM_NO_ID)
		return fm_import_bad_line(c->in, "a cost stands before the first function");
	if (cost > MAX_COST / c->scale || c->n_calls > MAX_COST)
		return fm_import_bad_line(c->in, "a cost is too large");
	if (c->has_calls_line) {
		return add_call(c, cost * c->scale) ? FM_OK : fm_import_bad_line(c->in, "the costs are too large");
	}
	c->whole += cost * c->scale;
	if (c->whole > MAX_COST)
		return fm_import_bad_line(c->in, "the costs are too large");
	add_own(c, cost * c->scale);
	return FM_OK;
}

// "calls=COUNT TARGET": the target's position is compressed as others are, but moves none.
static enum fm_err take_calls(struct fm_callgrind *c, struct fm_str s)
{
	uint64_t instr = c->instr, line = c->line;
	if (!fm_callgrind_number(&s, &c->n_calls))
		return fm_import_bad_line(c->in, "a call has no count");
	skip_blanks(&s);
	bool has_target = s.len && take_position(c, &s);
	c->target_line = has_target && c->has_line && c->line < FM_NO_LINE ? (uint32_t)c->line : 0;
	c->instr = instr;
	c->line = line;
	if (c->called_function == FM_NO_ID)
		return fm_import_bad_line(c->in, "a call does not name what it calls");
	c->has_calls_line = true;
	return FM_OK;
}

// ---- lines ----

// "cfi=(3)": what costs and calls after it belong to.
static enum fm_err take_place(struct fm_callgrind *c, struct fm_str key, struct fm_str value)
{
	static const struct {
		const char *key;
		enum fm_callgrind_space space;
	} places[] = {
		{ "ob", FM_CALLGRIND_OBJECT }, { "cob", FM_CALLGRIND_OBJECT },  { "fl", FM_CALLGRIND_FILE },
		{ "fi", FM_CALLGRIND_FILE },   { "fe", FM_CALLGRIND_FILE },     { "cfi", FM_CALLGRIND_FILE },
		{ "cfl", FM_CALLGRIND_FILE },  { "fn", FM_CALLGRIND_FUNCTION }, { "cfn", FM_CALLGRIND_FUNCTION },
	};
	size_t i = 0;
	uint32_t name;
	while (i < FM_ARRAY_LEN(places) && !fm_str_eq(key, fm_str_of(places[i].key)))
		i++;
	if (i == FM_ARRAY_LEN(places))
		return FM_OK; // jumps, and what later versions add
	if (!take_name(c, places[i].space, value, &name))
		return fm_import_bad_line(c->in, "a number has no name");
	bool is_called = *key.p == 'c';
	if (places[i].space == FM_CALLGRIND_OBJECT)
		*(is_called ? &c->called_object : &c->object) = name;
	else if (places[i].space == FM_CALLGRIND_FILE)
		*(is_called ? &c->called_file : &c->file) = name;
	else if (is_called)
		c->called_function = name;
	else
		c->function = function_of(c, c->object, c->file, name);
	if (!is_called) { // what is called is in the same file unless that is said
		c->called_object = c->object;
		c->called_file = c->file;
	}
	return FM_OK;
}

static struct fm_str take_word(struct fm_str *s)
{
	skip_blanks(s);
	struct fm_str word = { s->p, 0 };
	while (word.len < s->len && s->p[word.len] != ' ' && s->p[word.len] != '\t')
		word.len++;
	*s = (struct fm_str){ s->p + word.len, s->len - word.len };
	return word;
}

// Events that are times, with their nanoseconds. yappi counts microseconds under the name of ticks.
static uint64_t ns_of_event(const struct fm_callgrind *c, struct fm_str event)
{
	static const struct {
		const char *name, *creator;
		uint64_t ns;
	} times[] = { { "ns", "", 1 }, { "us", "", 1000 }, { "Time_(10ns)", "", 10 }, { "Ticks", "yappi", 1000 } };
	struct fm_str creator = { c->creator.len ? (const char *)c->creator.data : "", (uint32_t)c->creator.len };
	for (size_t i = 0; i < FM_ARRAY_LEN(times); i++)
		if (fm_str_eq(event, fm_str_of(times[i].name)) && fm_str_starts_with(creator, times[i].creator))
			return times[i].ns;
	return 0;
}

static void take_events(struct fm_callgrind *c, struct fm_str s)
{
	struct fm_str events[MAX_EVENTS];
	unsigned n = 0, chosen = 0;
	for (struct fm_str word; n < MAX_EVENTS && (word = take_word(&s)).len; n++) {
		events[n] = word;
		if (ns_of_event(c, word) && !ns_of_event(c, events[chosen]))
			chosen = n;
	}
	if (!n || c->has_events)
		return; // parts of one file count the same
	c->has_events = true;
	c->column = chosen;
	c->scale = ns_of_event(c, events[chosen]);
	if (!c->scale) {
		fm_buf_bytes(&c->unit, events[chosen].p, events[chosen].len);
		c->scale = 1;
	}
	for (unsigned i = 0; i < n; i++)
		if (i != chosen)
			fm_buf_printf(&c->other_events, "%s%.*s", c->other_events.len ? ", " : "", (int)events[i].len,
				      events[i].p);
}

// "key: value" of the head.
static void take_header(struct fm_callgrind *c, struct fm_str key, struct fm_str value)
{
	uint64_t pid;
	skip_blanks(&value);
	if (fm_str_eq(key, FM_STR_LIT("events"))) {
		take_events(c, value);
	} else if (fm_str_eq(key, FM_STR_LIT("creator")) && !c->creator.len) {
		fm_buf_bytes(&c->creator, value.p, value.len);
	} else if (fm_str_eq(key, FM_STR_LIT("positions"))) {
		c->has_instr = c->has_line = false;
		for (struct fm_str word; (word = take_word(&value)).len;) {
			c->has_instr = c->has_instr || fm_str_eq(word, FM_STR_LIT("instr"));
			c->has_line = c->has_line || fm_str_eq(word, FM_STR_LIT("line"));
		}
	} else if (fm_str_eq(key, FM_STR_LIT("cmd"))) {
		fm_writer_meta(c->in->w, "command", value);
	} else if (fm_str_eq(key, FM_STR_LIT("pid")) && c->thread_id == FM_NO_ID && fm_callgrind_number(&value, &pid)) {
		c->thread_id =
			fm_import_thread(c->in, fm_import_process(c->in, (uint32_t)pid), (uint32_t)pid, FM_STR_LIT(""));
	} else if (fm_str_eq(key, FM_STR_LIT("part"))) { // positions begin anew
		c->instr = c->line = 0;
	}
}

static bool is_letter(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

static enum fm_err take_line(struct fm_callgrind *c, struct fm_str s)
{
	struct fm_str key = { s.p, 0 };
	if (!s.len || *s.p == '#')
		return FM_OK;
	if (!is_letter(*s.p))
		return take_cost(c, s);
	while (key.len < s.len && is_letter(s.p[key.len]))
		key.len++;
	if (key.len == s.len)
		return fm_import_bad_line(c->in, "this is not a line of the format");
	char after = s.p[key.len];
	struct fm_str value = { s.p + key.len + 1, s.len - key.len - 1 };
	if (after == ':')
		take_header(c, key, value);
	else if (after != '=')
		return fm_import_bad_line(c->in, "this is not a line of the format");
	else if (fm_str_eq(key, FM_STR_LIT("calls")))
		return take_calls(c, value);
	else
		return take_place(c, key, value);
	return FM_OK;
}

bool fm_callgrind_recognise(const uint8_t *head, size_t n)
{
	bool has_events = false, has_place = false;
	for (size_t i = 0; i < n; i++)
		if (head[i] < ' ' && head[i] != '\n' && head[i] != '\r' && head[i] != '\t')
			return false;
	for (const char *p = (const char *)head, *end = p + n; p < end;) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		struct fm_str line = { p, (uint32_t)((newline ? newline : end) - p) };
		has_events = has_events || fm_str_starts_with(line, "events:");
		has_place = has_place ||
			    (has_events && (fm_str_starts_with(line, "fn=") || fm_str_starts_with(line, "fl=") ||
					    fm_str_starts_with(line, "ob=")));
		p = newline ? newline + 1 : end;
	}
	return has_place;
}

enum fm_err fm_callgrind_import(struct fm_import *in)
{
	struct fm_callgrind c = { .in = in,
				  .scale = 1,
				  .has_line = true,
				  .function = FM_NO_ID,
				  .called_function = FM_NO_ID,
				  .thread_id = FM_NO_ID };
	struct fm_str line;
	enum fm_err err = FM_OK;
	text_id(&c, FM_STR_LIT("")); // 0: no object, no file
	while (!err && fm_input_line(in->input, &line))
		err = take_line(&c, line);
	if (c.thread_id == FM_NO_ID)
		c.thread_id = fm_import_thread(in, fm_import_process(in, 0), 0, FM_STR_LIT(""));
	fm_callgrind_put(&c);
	for (int i = 0; i < FM_N_CALLGRIND_SPACES; i++)
		fm_map_deinit(&c.numbers[i]);
	fm_map_deinit(&c.pair_keys);
	struct fm_intern *const keys[] = { &c.texts, &c.function_keys, &c.line_keys };
	for (size_t i = 0; i < FM_ARRAY_LEN(keys); i++)
		fm_intern_deinit(keys[i]);
	struct fm_buf *const bufs[] = { &c.creator, &c.other_events, &c.unit };
	for (size_t i = 0; i < FM_ARRAY_LEN(bufs); i++)
		fm_buf_deinit(bufs[i]);
	fm_vec_deinit(&c.functions);
	fm_vec_deinit(&c.lines);
	fm_vec_deinit(&c.pairs);
	return err ? err : fm_import_end(in);
}
