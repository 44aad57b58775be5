// SPDX-License-Identifier: Apache-2.0
#include "symbolize/python_scopes.h"

#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"
#include "base/hash.h"

// The interpreter's own limits (Parser/tokenizer.c: MAXINDENT, MAXLEVEL); lambdas need no bracket.
#define MAX_INDENTS 100
#define MAX_OPEN 1000
#define MAX_BRACKETS 200
// Fields of f-strings inside fields of f-strings: two were possible before 3.12.
#define MAX_FIELDS 4
#define TAB_COLUMNS 8
// Bounds what one name may cost: scopes of a line to choose from, and bytes.
#define MAX_SCOPES_OF_LINE 64
#define MAX_QUALNAME_BYTES 4096

enum clause {
	BEFORE_FOR,
	IN_TARGETS,
	IN_FIRST_ITERABLE, // is evaluated outside of the comprehension
	BEHIND,
};

// What is open inside a statement: a bracket (or a field of an f-string), or a lambda.
struct open {
	char bracket; // '(', '[', '{'; 'f' = a field; 0 = a lambda
	uint8_t clause;
	bool has_colon;       // of braces: pairs, not elements
	bool is_in_params;    // of a lambda
	uint32_t line;        // of the bracket
	uint32_t first_scope; // the first that can be inside
	uint32_t outer;       // the scope around it
	uint32_t scope;       // the one that comes next is in
	uint32_t own;         // of a comprehension or a lambda's body
};

struct block {
	uint32_t column, scope;
};

struct scan {
	struct fm_python_scopes *out;
	const char *at, *end;
	uint32_t line;
	struct block blocks[MAX_INDENTS];
	uint32_t n_blocks;
	struct open open[MAX_OPEN];
	uint32_t n_open, n_brackets, n_fields;
	struct fm_map globals; // hashes of (scope, name) that are declared `global`
	bool is_over;          // deeper than any Python goes, or brackets that do not match

	// Of the statement:
	uint32_t scope;                        // what its code belongs to
	uint32_t decorated_at;                 // line of the first decorator so far; 0 = none
	bool is_at_start;                      // no word has come
	bool is_definition;                    // a header whose colon has not come
	bool is_global;                        // `global`: names follow
	uint32_t async_at;                     // line of the `async` that it begins with; 0 = none
	uint32_t defines;                      // the scope whose block comes next; FM_NO_SCOPE = none
	enum fm_python_scope_kind awaits_name; // with is_awaiting_name
	bool is_awaiting_name;
};

static void scan_code(struct scan *s);

static bool is_word(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c & 0x80);
}

static uint32_t scope_now(const struct scan *s)
{
	return s->n_open ? s->open[s->n_open - 1].scope : s->scope;
}

static uint32_t add(struct scan *s, enum fm_python_scope_kind kind, uint32_t line, uint32_t parent, struct fm_str name)
{
	uint32_t idx = (uint32_t)s->out->items.n;
	fm_vec_push(&s->out->items, (struct fm_python_scope){ (uint8_t)kind, line, parent, false, name });
	return idx;
}

static void push(struct scan *s, struct open what)
{
	if (s->n_open >= MAX_OPEN || (what.bracket && s->n_brackets >= MAX_BRACKETS)) {
		s->is_over = true;
		return;
	}
	what.line = s->line;
	what.outer = scope_now(s);
	what.first_scope = (uint32_t)s->out->items.n;
	what.scope = what.outer;
	s->n_brackets += what.bracket != 0;
	s->open[s->n_open++] = what;
}

static void end_lambdas(struct scan *s)
{
	while (s->n_open && !s->open[s->n_open - 1].bracket)
		s->n_open--;
}

static void close_bracket(struct scan *s, char opening)
{
	end_lambdas(s);
	if (!s->n_open || s->open[s->n_open - 1].bracket != opening) {
		s->is_over = true;
		return;
	}
	s->n_open--;
	s->n_brackets--;
}

// ---- words ----

// The first `for` inside a bracket makes it a comprehension. What came before it is inside, too.
static void begin_comprehension(struct scan *s, struct open *o)
{
	struct fm_str name = o->bracket == '['                   ? FM_STR_LIT("<listcomp>")
			     : o->bracket == '{' && o->has_colon ? FM_STR_LIT("<dictcomp>")
			     : o->bracket == '{'                 ? FM_STR_LIT("<setcomp>")
								 : FM_STR_LIT("<genexpr>");
	uint32_t comprehension = add(s, FM_SCOPE_COMPREHENSION, o->line, o->outer, name);
	for (uint32_t i = o->first_scope; i < comprehension; i++)
		if (s->out->items.items[i].parent == o->outer)
			s->out->items.items[i].parent = comprehension;
	o->own = comprehension;
}

// `for`, `async`, `in` and `if` inside a bracket.
static void take_clause(struct scan *s, char first)
{
	if (first == 'f' || first == 'a') // they cannot be in a lambda's body
		end_lambdas(s);
	struct open *o = s->n_open ? &s->open[s->n_open - 1] : NULL;
	if (!o || !o->bracket)
		return;
	if (first == 'f' && o->clause == BEFORE_FOR) {
		begin_comprehension(s, o);
		o->clause = IN_TARGETS;
	} else if (first == 'i' && o->clause == IN_TARGETS) { // in
		o->clause = IN_FIRST_ITERABLE;
	} else if (first != 'i' && o->clause == IN_FIRST_ITERABLE) {
		o->clause = BEHIND;
	}
	o->scope = o->clause == BEFORE_FOR || o->clause == IN_FIRST_ITERABLE ? o->outer : o->own;
}

static uint64_t global_key(uint32_t scope, struct fm_str name)
{
	return fm_hash_bytes(name.p, name.len) + scope * 0x9e3779b97f4a7c15u;
}

static void define(struct scan *s, struct fm_str name)
{
	uint32_t line = s->decorated_at ? s->decorated_at : s->async_at ? s->async_at : s->line;
	s->defines = add(s, s->awaits_name, line, s->scope, name);
	s->decorated_at = 0;
	s->is_awaiting_name = false;
	s->is_definition = true;
}

static void take_word(struct scan *s, struct fm_str word)
{
#define IS(text) (word.len == sizeof(text) - 1 && memcmp(word.p, text, sizeof(text) - 1) == 0)
	bool is_at_start = s->is_at_start;
	s->is_at_start = false;
	if (s->is_awaiting_name) {
		define(s, word);
	} else if (s->is_global) {
		fm_map_at(&s->globals, global_key(s->scope, word), NULL);
	} else if (IS("lambda")) {
		push(s, (struct open){ .is_in_params = true });
	} else if (s->n_open) {
		if (IS("for") || IS("async") || IS("in"))
			take_clause(s, word.p[0]);
		else if (IS("if"))
			take_clause(s, '?');
	} else if (is_at_start && IS("async")) {
		s->async_at = s->line;
		s->is_at_start = true;
	} else if (is_at_start && (IS("def") || IS("class"))) {
		s->awaits_name = word.p[0] == 'd' ? FM_SCOPE_FUNCTION : FM_SCOPE_CLASS;
		s->is_awaiting_name = true;
	} else if (is_at_start && IS("global")) {
		s->is_global = true;
	}
#undef IS
}

static void take_colon(struct scan *s)
{
	// A second colon is not the lambda's own.
	while (s->n_open && !s->open[s->n_open - 1].bracket && !s->open[s->n_open - 1].is_in_params)
		s->n_open--;
	struct open *o = s->n_open ? &s->open[s->n_open - 1] : NULL;
	if (o && !o->bracket) {
		o->is_in_params = false;
		o->scope = add(s, FM_SCOPE_LAMBDA, o->line, o->outer, FM_STR_LIT("<lambda>"));
	} else if (o) {
		o->has_colon |= o->clause == BEFORE_FOR;
	} else {
		if (s->is_definition)
			s->scope = s->defines; // what follows in this line is its body
		s->is_definition = false;
		s->is_at_start = true;
	}
}

static void take_comma(struct scan *s)
{
	while (s->n_open && !s->open[s->n_open - 1].bracket && !s->open[s->n_open - 1].is_in_params)
		s->n_open--;
}

// ---- strings ----

// The end of what is between the quotes; s->at is behind them then. Lines are not counted.
static const char *end_of_string(struct scan *s, char quote, bool is_triple)
{
	for (; s->at < s->end; s->at++) {
		if (*s->at == '\\' && s->at + 1 < s->end) {
			bool is_crlf = s->at[1] == '\r' && s->at + 2 < s->end && s->at[2] == '\n';
			s->at += is_crlf ? 2 : 1;
		} else if (!is_triple && (*s->at == '\n' || *s->at == '\r')) {
			return s->at; // it should have ended
		} else if (*s->at == quote && !is_triple) {
			return s->at++;
		} else if (*s->at == quote && s->end - s->at >= 3 && s->at[1] == quote && s->at[2] == quote) {
			s->at += 3;
			return s->at - 3;
		}
	}
	return s->end;
}

static void count_line(struct scan *s, const char *at)
{
	s->line += *at == '\n' || (*at == '\r' && (at + 1 == s->end || at[1] != '\n'));
}

// A replacement field, from its brace on: its expression is code. Ends behind the brace that closes
// it, or at the end.
static void take_field(struct scan *s)
{
	uint32_t depth = s->n_open;
	s->at++;
	s->n_fields++;
	push(s, (struct open){ .bracket = 'f' });
	while (!s->is_over && s->n_open > depth && s->at < s->end)
		scan_code(s);
	s->n_fields--;
	if (s->n_open > depth) { // it was cut off
		s->n_open = depth;
		s->n_brackets--;
	}
}

// What is between the quotes of an f-string, or behind the colon of a field.
static void take_format(struct scan *s, bool is_raw)
{
	while (s->at < s->end && !s->is_over) {
		char c = *s->at;
		if (c == '{' && s->at + 1 < s->end && s->at[1] == '{') {
			s->at += 2;
		} else if (c == '\\' && !is_raw && s->end - s->at > 2 && s->at[1] == 'N' && s->at[2] == '{') {
			s->at += 3; // a character by its name
		} else if (c == '{') {
			take_field(s);
		} else {
			count_line(s, s->at++);
		}
	}
}

// From the first quote on.
static void take_string(struct scan *s, bool is_format, bool is_raw)
{
	char quote = *s->at;
	bool is_triple = s->end - s->at >= 3 && s->at[1] == quote && s->at[2] == quote;
	s->at += is_triple ? 3 : 1;
	const char *begin = s->at, *stop = end_of_string(s, quote, is_triple), *behind = s->at, *end = s->end;
	s->is_at_start = false;
	if (is_format && s->n_fields < MAX_FIELDS) {
		uint32_t n_open = s->n_open, n_brackets = s->n_brackets;
		bool was_over = s->is_over;
		s->at = begin;
		s->end = stop;
		take_format(s, is_raw);
		s->end = end;
		s->n_open = n_open; // whatever was wrong in it ends with it
		s->n_brackets = n_brackets;
		s->is_over = was_over;
		for (; s->at < stop; s->at++)
			count_line(s, s->at);
	} else {
		for (const char *at = begin; at < stop; at++)
			count_line(s, at);
	}
	s->at = behind;
}

// The letters before a quote, or a word.
static void take_word_or_string(struct scan *s)
{
	const char *from = s->at;
	while (s->at < s->end && is_word(*s->at))
		s->at++;
	struct fm_str word = { from, (uint32_t)(s->at - from) };
	bool is_quote = s->at < s->end && (*s->at == '"' || *s->at == '\'');
	bool is_prefix = is_quote && word.len <= 2, is_format = false, is_raw = false;
	for (uint32_t i = 0; is_prefix && i < word.len; i++) {
		char c = (char)(word.p[i] | 0x20);
		is_prefix = c == 'r' || c == 'b' || c == 'u' || c == 'f';
		is_format |= c == 'f';
		is_raw |= c == 'r';
	}
	if (is_prefix)
		take_string(s, is_format, is_raw);
	else
		take_word(s, word);
}

// ---- lines ----

static void end_statement(struct scan *s)
{
	s->n_open = s->n_brackets = 0;
	s->is_definition = s->is_global = s->is_awaiting_name = false;
	s->async_at = 0;
}

// Where a statement begins: blanks are counted, blocks begin and end. False when the line has no
// code.
static bool begin_line(struct scan *s)
{
	uint32_t column = 0;
	for (; s->at < s->end; s->at++) {
		if (*s->at == ' ')
			column++;
		else if (*s->at == '\t')
			column = (column / TAB_COLUMNS + 1) * TAB_COLUMNS;
		else if (*s->at == '\f')
			column = 0;
		else
			break;
	}
	if (s->at == s->end || *s->at == '#' || *s->at == '\n' || *s->at == '\r')
		return false;
	if (column > s->blocks[s->n_blocks - 1].column) {
		uint32_t around = s->blocks[s->n_blocks - 1].scope;
		if (s->n_blocks == MAX_INDENTS) {
			s->is_over = true;
			return false;
		}
		s->blocks[s->n_blocks++] = (struct block){ column, s->defines != FM_NO_SCOPE ? s->defines : around };
	}
	while (s->n_blocks > 1 && column < s->blocks[s->n_blocks - 1].column)
		s->n_blocks--;
	s->scope = s->blocks[s->n_blocks - 1].scope;
	s->defines = FM_NO_SCOPE;
	s->is_at_start = true;
	if (*s->at == '@' && !s->decorated_at)
		s->decorated_at = s->line;
	return true;
}

static void skip_comment(struct scan *s)
{
	while (s->at < s->end && *s->at != '\n' && *s->at != '\r')
		s->at++;
}

// The end of a line inside a statement or behind it; true when a statement ended with it.
static bool take_newline(struct scan *s)
{
	count_line(s, s->at++);
	if (s->at[-1] == '\r' && s->at < s->end && *s->at == '\n')
		count_line(s, s->at++);
	return !s->n_brackets;
}

// What can stand for itself: everything but words, strings and ends of lines.
static void take_sign(struct scan *s)
{
	char c = *s->at++, next = s->at < s->end ? *s->at : 0;
	s->is_at_start = s->is_at_start && (c == ' ' || c == '\t' || c == '\f');
	if (c == '(' || c == '[' || c == '{')
		push(s, (struct open){ .bracket = c });
	else if (c == ')' || c == ']')
		close_bracket(s, c == ')' ? '(' : '[');
	else if (c == ',')
		take_comma(s);
	else if (c == ':' && next == '=')
		s->at++;
	else if (c == ':')
		take_colon(s);
	else if (c == ';' && !s->n_brackets) {
		end_statement(s);
		s->is_at_start = true;
	}
}

// A brace that closes, or what ends the expression of a field.
static void take_closing_brace(struct scan *s)
{
	end_lambdas(s);
	bool is_field = s->n_open && s->open[s->n_open - 1].bracket == 'f';
	s->at++;
	close_bracket(s, is_field ? 'f' : '{');
}

static void take_format_of_field(struct scan *s)
{
	const char *from = ++s->at, *end = s->end;
	uint32_t depth = 0;
	while (s->at < s->end && (*s->at != '}' || depth)) {
		depth += *s->at == '{';
		depth -= *s->at == '}';
		s->at++;
	}
	const char *stop = s->at;
	s->at = from;
	s->end = stop;
	if (s->n_fields < MAX_FIELDS)
		take_format(s, true);
	s->end = end;
	s->at = stop;
}

static bool is_end_of_field(const struct scan *s)
{
	return *s->at == ':' && s->n_open && s->open[s->n_open - 1].bracket == 'f';
}

// One word, string or sign inside a statement.
static void scan_code(struct scan *s)
{
	char c = *s->at;
	if (is_word(c) || c == '"' || c == '\'') {
		take_word_or_string(s);
	} else if (c == '}') {
		take_closing_brace(s);
	} else if (is_end_of_field(s)) {
		take_format_of_field(s);
	} else if (c == '#') {
		skip_comment(s);
	} else if (c == '\\' && s->at + 1 < s->end && (s->at[1] == '\n' || s->at[1] == '\r')) {
		s->at++;
		take_newline(s);
	} else if (c == '\n' || c == '\r') {
		take_newline(s);
	} else {
		take_sign(s);
	}
}

static int compare_lines(const void *a, const void *b, void *ctx)
{
	const struct fm_python_scope *items = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (items[x].line != items[y].line)
		return items[x].line < items[y].line ? -1 : 1;
	return x < y ? -1 : x > y;
}

void fm_python_scopes_read(struct fm_python_scopes *ret, struct fm_str text)
{
	struct scan *s = fm_alloc(sizeof(*s));
	*ret = (struct fm_python_scopes){ 0 };
	s->out = ret;
	s->at = text.p;
	s->end = text.p + text.len;
	s->line = 1;
	s->blocks[0] = (struct block){ 0, FM_NO_SCOPE };
	s->n_blocks = 1;
	s->scope = s->defines = FM_NO_SCOPE;
	if (text.len >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
		s->at += 3;
	while (s->at < s->end && !s->is_over) {
		bool is_over = !begin_line(s);
		if (is_over) {
			skip_comment(s);
			if (s->at < s->end)
				take_newline(s);
			continue;
		}
		while (s->at < s->end && !s->is_over && !is_over) {
			if ((*s->at == '\n' || *s->at == '\r') && !s->n_brackets)
				is_over = take_newline(s);
			else
				scan_code(s);
		}
		end_statement(s);
	}
	for (uint32_t i = 0; i < ret->items.n; i++) {
		struct fm_python_scope *scope = &ret->items.items[i];
		scope->is_global = scope->parent != FM_NO_SCOPE && scope->kind <= FM_SCOPE_CLASS &&
				   fm_map_find(&s->globals, global_key(scope->parent, scope->name));
		fm_vec_push(&ret->by_line, i);
	}
	fm_map_deinit(&s->globals);
	free(s);
	if (ret->items.n)
		qsort_r(ret->by_line.items, ret->by_line.n, sizeof(uint32_t), compare_lines, ret->items.items);
}

void fm_python_scopes_deinit(struct fm_python_scopes *s)
{
	fm_vec_deinit(&s->items);
	fm_vec_deinit(&s->by_line);
}

// ---- names ----

// As compiler_set_qualname() of CPython: functions and lambdas say that what is inside is local to
// them, classes and comprehensions do not.
static bool append_qualname(const struct fm_python_scopes *s, uint32_t idx, struct fm_buf *ret)
{
	uint32_t chain[MAX_INDENTS];
	unsigned n = 0;
	for (; idx != FM_NO_SCOPE; idx = s->items.items[idx].parent) {
		if (n == MAX_INDENTS)
			return false;
		chain[n++] = idx;
		if (s->items.items[idx].is_global)
			break;
	}
	for (size_t begin = ret->len; n--;) {
		const struct fm_python_scope *scope = &s->items.items[chain[n]];
		fm_buf_bytes(ret, scope->name.p, scope->name.len);
		if (n)
			fm_buf_str(ret, scope->kind == FM_SCOPE_FUNCTION || scope->kind == FM_SCOPE_LAMBDA
						? ".<locals>."
						: ".");
		if (ret->len - begin > MAX_QUALNAME_BYTES)
			return false;
	}
	return true;
}

bool fm_python_scopes_qualname(const struct fm_python_scopes *s, uint32_t line, struct fm_str name, struct fm_buf *ret)
{
	size_t low = fm_bisect(s->by_line.n, i, s->items.items[s->by_line.items[i]].line < line), before = ret->len;
	struct fm_buf other = { 0 };
	bool is_found = false, is_one = true;
	size_t last = low + MAX_SCOPES_OF_LINE;
	for (; is_one && low < s->by_line.n && s->items.items[s->by_line.items[low]].line == line; low++) {
		if (!fm_str_eq(s->items.items[s->by_line.items[low]].name, name))
			continue;
		if (low > last)
			is_one = false;
		struct fm_buf *to = is_found ? &other : ret;
		other.len = 0;
		is_one = is_one && append_qualname(s, s->by_line.items[low], to) &&
			 (!is_found ||
			  (other.len == ret->len - before && memcmp(other.data, ret->data + before, other.len) == 0));
		is_found = true;
	}
	fm_buf_deinit(&other);
	if (!is_found || !is_one)
		ret->len = before;
	return is_found && is_one;
}
