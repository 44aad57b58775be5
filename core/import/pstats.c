// SPDX-License-Identifier: Apache-2.0
// pstats, as cProfile, profile and yappi write it: {(file, line, name): (calls, calls, own, total,
// {caller: (calls, calls, own, total)})} in Python's marshal format, times in seconds.
//
// Of the two numbers of calls one leaves out recursive ones; tools differ in which comes first, so
// the smaller is taken for it. profile has only a number in place of a caller's tuple.
//
// Bound: what is distinct. Marshal refers back to earlier objects by their number, so texts, numbers
// and functions are kept, each as a few bytes.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "import/formats.h"
#include "import/summed.h"

#define FLAG_REF 0x80
#define MAX_TEXT ((uint32_t)1 << 20) // names are short; sources are not in there
#define MAX_NS ((double)((uint64_t)1 << 60))
#define N_FIGURES 4 // calls, calls, own, total

enum value_kind { NOTHING, NUMBER, TEXT, FUNCTION, FIGURES };

struct value {
	enum value_kind kind;
	uint32_t id;               // of a text or a function
	double figures[N_FIGURES]; // [0] of a number
};

struct function {
	uint32_t file, name; // texts
	uint32_t line;
	struct fm_summed summed;
};

struct pstats {
	struct fm_import *in;
	enum fm_err err; // sticky
	struct fm_intern texts, keys;
	FM_VEC(struct function) functions;
	FM_VEC(struct value) refs;
	uint32_t thread_id;
	uint64_t n_odd;         // times below zero, or none
	bool has_plain_callers; // numbers without times
};

static void fail(struct pstats *p, const char *what)
{
	if (!p->err)
		p->err = fm_import_bad_byte(p->in, "%s", what);
}

// n bytes, borrowed until the next call; NULL after a failure.
static const uint8_t *take(struct pstats *p, size_t n)
{
	static const uint8_t none[1];
	size_t there;
	if (p->err)
		return NULL;
	if (!n)
		return none;
	const uint8_t *bytes = fm_input_peek(p->in->input, n, &there);
	if (there < n) {
		fail(p, "the file ends within an object");
		return NULL;
	}
	fm_input_skip(p->in->input, n);
	return bytes;
}

static uint8_t take_u8(struct pstats *p)
{
	const uint8_t *bytes = take(p, 1);
	return bytes ? *bytes : 0;
}

static uint64_t take_uint(struct pstats *p, size_t n)
{
	const uint8_t *bytes = take(p, n);
	uint64_t v = 0;
	for (size_t i = 0; bytes && i < n; i++)
		v |= (uint64_t)bytes[i] << 8 * i;
	return v;
}

static double take_long(struct pstats *p)
{
	int32_t n = (int32_t)take_uint(p, 4);
	double v = 0, scale = 1;
	if (n > 64 || n < -64) {
		fail(p, "a number is too large");
		return 0;
	}
	for (int32_t i = 0; i < abs(n); i++, scale *= 32768)
		v += scale * (double)(take_uint(p, 2) & 0x7fff);
	return n < 0 ? -v : v;
}

static double take_double(struct pstats *p)
{
	uint64_t bits = take_uint(p, 8);
	double v;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

static uint32_t take_text(struct pstats *p, uint32_t n)
{
	bool is_new;
	if (n > MAX_TEXT) {
		fail(p, "a name is longer than 1 MiB");
		return 0;
	}
	const uint8_t *bytes = take(p, n);
	return bytes ? fm_intern_id(&p->texts, (struct fm_str){ (const char *)bytes, n }, &is_new) : 0;
}

static struct fm_str text_of(const struct pstats *p, uint32_t id)
{
	return fm_intern_get(&p->texts, id);
}

// ---- functions ----

// "<built-in method NAME>" is how the table of calls is written as pstats again, so the name alone is
// kept of it; of others without a file all.
static struct fm_summed summed_of(struct pstats *p, struct fm_str file, uint32_t line, struct fm_str name)
{
	static const struct fm_str none = { "", 0 };
	const char *begin = "<built-in method ";
	size_t skip = strlen(begin);
	if (!fm_str_eq(file, FM_STR_LIT("~")) || line || !name.len || name.p[0] != '<')
		return fm_summed_python(p->in, name, file, line);
	if (fm_str_starts_with(name, begin) && name.p[name.len - 1] == '>' && name.p[skip] != '<')
		name = (struct fm_str){ name.p + skip, name.len - (uint32_t)skip - 1 };
	return fm_summed_native(p->in, name, none, name, none, 0);
}

static uint32_t function_of(struct pstats *p, uint32_t file, uint32_t line, uint32_t name)
{
	const uint32_t key[] = { file, line, name };
	bool is_new;
	uint32_t id = fm_intern_id(&p->keys, (struct fm_str){ (const char *)key, sizeof(key) }, &is_new);
	if (is_new) {
		struct fm_summed summed = summed_of(p, text_of(p, file), line, text_of(p, name));
		fm_vec_push(&p->functions, (struct function){ file, name, line, summed });
	}
	return id;
}

// ---- values ----

static struct value take_value(struct pstats *p, unsigned depth);

// A key, or the figures of a caller. Others do not occur.
static struct value take_tuple(struct pstats *p, uint32_t n, unsigned depth)
{
	struct value items[N_FIGURES] = { 0 }, v = { 0 };
	if (n != 3 && n != N_FIGURES) {
		fail(p, "a tuple has another length than in pstats");
		return v;
	}
	for (uint32_t i = 0; i < n && !p->err; i++)
		items[i] = take_value(p, depth + 1);
	bool is_key = n == 3;
	for (uint32_t i = 0; i < n; i++)
		if (items[i].kind != (is_key && i != 1 ? TEXT : NUMBER))
			fail(p, "a tuple has other contents than in pstats");
	if (p->err)
		return v;
	v.kind = is_key ? FUNCTION : FIGURES;
	if (is_key) {
		double line = items[1].figures[0];
		v.id = function_of(p, items[0].id, line > 0 && line < INT32_MAX ? (uint32_t)line : 0, items[2].id);
	}
	for (uint32_t i = 0; i < n && !is_key; i++)
		v.figures[i] = items[i].figures[0];
	return v;
}

static struct value number(double v)
{
	return (struct value){ .kind = NUMBER, .figures = { v } };
}

static struct value take_ref(struct pstats *p)
{
	uint64_t idx = take_uint(p, 4);
	if (p->err || idx >= p->refs.n || p->refs.items[idx].kind == NOTHING) {
		fail(p, "an object refers to one that is not there");
		return (struct value){ 0 };
	}
	return p->refs.items[idx];
}

static struct value take_plain(struct pstats *p, uint8_t type, unsigned depth)
{
	struct value v = { .kind = TEXT };
	if (depth > 3) {
		fail(p, "objects are nested deeper than in pstats");
		return v;
	}
	switch (type) {
	case 'i':
		return number((double)(int32_t)take_uint(p, 4));
	case 'I':
		return number((double)(int64_t)take_uint(p, 8));
	case 'l':
		return number(take_long(p));
	case 'g':
		return number(take_double(p));
	case 'N': // a line that is not known
	case 'F':
		return number(0);
	case 'T':
		return number(1);
	case 'u':
	case 't':
	case 'a':
	case 'A':
	case 's':
		v.id = take_text(p, (uint32_t)take_uint(p, 4));
		return v;
	case 'z':
	case 'Z':
		v.id = take_text(p, take_u8(p));
		return v;
	case '(':
		return take_tuple(p, (uint32_t)take_uint(p, 4), depth);
	case ')':
		return take_tuple(p, take_u8(p), depth);
	default:
		fail(p, "an object is of a kind that pstats does not have");
		return v;
	}
}

// Objects that may be referred to are numbered in the order of their beginnings.
static uint64_t reserve(struct pstats *p, uint8_t type)
{
	if (!(type & FLAG_REF))
		return UINT64_MAX;
	fm_vec_push(&p->refs, (struct value){ 0 });
	return p->refs.n - 1;
}

static struct value take_typed(struct pstats *p, uint8_t type, unsigned depth)
{
	if ((type & ~FLAG_REF) == 'r')
		return take_ref(p);
	uint64_t ref = reserve(p, type);
	struct value v = take_plain(p, type & (uint8_t)~FLAG_REF, depth);
	if (ref < p->refs.n)
		p->refs.items[ref] = v;
	return v;
}

static struct value take_value(struct pstats *p, unsigned depth)
{
	return take_typed(p, take_u8(p), depth);
}

// ---- what the file is made of ----

static uint64_t count_of(double v)
{
	return v > 0 && v < 0x1p53 ? (uint64_t)v : 0;
}

static uint64_t ns_of(struct pstats *p, double seconds)
{
	double ns = seconds * 1e9;
	if (!(ns >= 0 && ns < MAX_NS)) {
		p->n_odd++;
		return 0;
	}
	return (uint64_t)llround(ns);
}

static struct fm_call_sum sum_of(struct pstats *p, const double figures[static N_FIGURES])
{
	uint64_t a = count_of(figures[0]), b = count_of(figures[1]);
	return (struct fm_call_sum){ .n_calls = FM_MAX(a, b),
				     .n_recursive = FM_MAX(a, b) - FM_MIN(a, b),
				     .own_ns = ns_of(p, figures[2]),
				     .total_ns = ns_of(p, figures[3]) };
}

static uint32_t take_key(struct pstats *p, uint8_t type)
{
	struct value key = take_typed(p, type, 0);
	if (!p->err && key.kind != FUNCTION)
		fail(p, "a key is not (file, line, name)");
	return key.id;
}

static void take_callers(struct pstats *p, uint32_t callee)
{
	uint8_t type = take_u8(p);
	reserve(p, type);
	if ((type & ~FLAG_REF) != '{')
		fail(p, "a function's callers are not a dict");
	for (type = take_u8(p); !p->err && type != '0'; type = take_u8(p)) {
		uint32_t caller = take_key(p, type);
		struct value v = take_value(p, 0);
		if (p->err)
			return;
		if (v.kind == NUMBER) {
			v.figures[1] = v.figures[0];
			p->has_plain_callers = true;
		} else if (v.kind != FIGURES) {
			fail(p, "a caller has no figures");
			return;
		}
		struct fm_call_sum sum = sum_of(p, v.figures);
		sum.is_pair = true;
		sum.caller = p->functions.items[caller].summed.ref;
		sum.callee = p->functions.items[callee].summed.ref;
		fm_summed_put(p->in, &sum);
	}
}

// (calls, calls, own, total, callers)
static void take_entry(struct pstats *p, uint32_t id)
{
	double figures[N_FIGURES] = { 0 };
	uint8_t type = take_u8(p);
	reserve(p, type);
	type &= (uint8_t)~FLAG_REF;
	uint64_t n = type == ')' ? take_u8(p) : type == '(' ? take_uint(p, 4) : 0;
	if (n != N_FIGURES + 1)
		fail(p, "a function does not have five figures");
	for (int i = 0; i < N_FIGURES && !p->err; i++) {
		struct value v = take_value(p, 1);
		if (v.kind != NUMBER)
			fail(p, "a figure is not a number");
		figures[i] = v.figures[0];
	}
	if (p->err)
		return;
	const struct fm_summed summed = p->functions.items[id].summed;
	struct fm_call_sum sum = sum_of(p, figures);
	sum.callee = summed.ref;
	fm_summed_put(p->in, &sum);
	fm_summed_own(p->in, p->thread_id, summed.stack_id, summed.class, sum.own_ns);
	take_callers(p, id);
}

static void take_all(struct pstats *p)
{
	uint8_t type = take_u8(p);
	reserve(p, type);
	if ((type & ~FLAG_REF) != '{')
		fail(p, "this is not a dict");
	for (type = take_u8(p); !p->err && type != '0'; type = take_u8(p)) {
		uint32_t id = take_key(p, type);
		if (!p->err)
			take_entry(p, id);
	}
}

bool fm_pstats_recognise(const uint8_t *head, size_t n)
{
	if (n < 2 || (head[0] & ~FLAG_REF) != '{')
		return false;
	uint8_t next = head[1] & (uint8_t)~FLAG_REF;
	return (next == ')' && n > 2 && head[2] == 3) || (next == '(' && n > 5 && !memcmp(head + 2, "\3\0\0\0", 4)) ||
	       (head[1] == '0' && n == 2);
}

enum fm_err fm_pstats_import(struct fm_import *in)
{
	struct pstats p = { .in = in };
	p.thread_id = fm_import_thread(in, fm_import_process(in, 0), 0, FM_STR_LIT(""));
	take_all(&p);
	fm_summed_missing(in);
	if (p.has_plain_callers)
		fm_import_missing(in, "times of calls by caller", "the profile module only counts these calls");
	if (p.n_odd)
		fm_import_missing(in, "some times", "they are negative or not numbers in the file, and count as 0");
	fm_intern_deinit(&p.texts);
	fm_intern_deinit(&p.keys);
	fm_vec_deinit(&p.functions);
	fm_vec_deinit(&p.refs);
	return p.err ? p.err : fm_import_end(in);
}
