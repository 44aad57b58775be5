// SPDX-License-Identifier: Apache-2.0
// What cProfile would have written: {(file, line, name): (primitive calls, calls, own, total,
// callers)}, marshalled. Callers are {(file, line, name): (calls, primitive calls, own, total)} of
// this function when called by that one.
//
// Where nothing was traced the times are those of samples, and what it takes for calls is in how many
// of them a function was. A function of C is ("~", 0, "<built-in method NAME>") there, and a zone ("~", 0, "<zone
// NAME>").
#include <stdlib.h>
#include <string.h>

#include "aggregate/trace/trace.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "base/log.h"
#include "render/export/sampled_calls.h"
#include "render/shared/formats.h"

static void put_u32(FILE *out, uint32_t v)
{
	uint8_t bytes[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
	fwrite(bytes, 1, sizeof(bytes), out);
}

// Integers beyond 31 bits are lists of 15-bit digits.
static void put_int(FILE *out, uint64_t v)
{
	if (v <= INT32_MAX) {
		fputc('i', out);
		put_u32(out, (uint32_t)v);
		return;
	}
	uint32_t n = 0;
	for (uint64_t rest = v; rest; rest >>= 15)
		n++;
	fputc('l', out);
	put_u32(out, n);
	for (; n; n--, v >>= 15) {
		fputc((int)(v & 0xff), out);
		fputc((int)(v >> 8 & 0x7f), out);
	}
}

static void put_seconds(FILE *out, uint64_t ns)
{
	double s = (double)ns * 1e-9;
	uint64_t bits;
	memcpy(&bits, &s, sizeof(bits));
	fputc('g', out);
	put_u32(out, (uint32_t)bits);
	put_u32(out, (uint32_t)(bits >> 32));
}

static void put_tuple(FILE *out, uint32_t n)
{
	fputc('(', out);
	put_u32(out, n);
}

static void put_text(FILE *out, const char *before, struct fm_str text, const char *after)
{
	struct fm_buf whole = { 0 }; // whoever prints these prints them as they are, and marshal wants UTF-8
	fm_buf_str(&whole, before);
	fm_utf8_clean(&whole, text);
	fm_buf_str(&whole, after);
	fputc('u', out);
	put_u32(out, (uint32_t)whole.len);
	if (whole.len)
		fwrite(whole.data, 1, whole.len, out);
	fm_buf_deinit(&whole);
}

static void put_function(FILE *out, const struct fm_traced_function *f)
{
	put_tuple(out, 3);
	if (f->kind == FM_TRACE_PYTHON) {
		put_text(out, "", f->file, "");
		put_int(out, f->line);
		put_text(out, "", f->plain_name, "");
		return;
	}
	put_text(out, "", FM_STR_LIT("~"), "");
	put_int(out, 0);
	if (f->kind == FM_TRACE_UNKNOWN)
		put_text(out, "", f->name, "");
	else if (f->kind == FM_TRACE_NATIVE && f->name.len && f->name.p[0] == '<') // was imported as it is
		put_text(out, "", f->name, "");
	else
		put_text(out, f->kind == FM_TRACE_NATIVE ? "<built-in method " : "<zone ", f->name, ">");
}

// The edges of one callee are chained: each says which one is the next, + 1.
static void put_callers(FILE *out, const struct fm_trace_stats *s, const uint32_t *next, uint32_t at)
{
	for (; at; at = next[at - 1]) {
		const struct fm_trace_edge *e = &s->edges.items[at - 1];
		if (e->caller == FM_NO_ID || !e->n_calls)
			continue;
		put_function(out, &s->functions.items[e->caller]);
		put_tuple(out, 4);
		put_int(out, e->n_calls);
		put_int(out, e->n_calls - e->n_recursive);
		put_seconds(out, e->own_ns);
		put_seconds(out, e->total_ns);
	}
}

static void write_traced(FILE *out, const struct fm_trace_stats *s)
{
	_cleanup_free_ uint32_t *next = fm_alloc((s->edges.n + 1) * sizeof(*next));
	_cleanup_free_ uint32_t *first = fm_alloc((s->functions.n + 1) * sizeof(*first));
	for (uint32_t i = 0; i < s->edges.n; i++) {
		next[i] = first[s->edges.items[i].callee];
		first[s->edges.items[i].callee] = i + 1;
	}
	fputc('{', out);
	for (uint32_t i = 0; i < s->functions.n; i++) {
		const struct fm_traced_function *f = &s->functions.items[i];
		put_function(out, f);
		put_tuple(out, 5);
		put_int(out, f->n_calls - f->n_recursive);
		put_int(out, f->n_calls);
		put_seconds(out, f->own_ns);
		put_seconds(out, f->total_ns);
		fputc('{', out);
		put_callers(out, s, next, first[i]);
		fputc('0', out);
	}
	fputc('0', out);
}

static void put_sampled_function(FILE *out, const struct fm_sampled_function *f)
{
	put_tuple(out, 3);
	put_text(out, "", f->file, "");
	put_int(out, f->line);
	put_text(out, "", f->name, "");
}

static void put_sampled_sum(FILE *out, const struct fm_sampled_sum *sum)
{
	put_int(out, sum->n);
	put_int(out, sum->n);
	put_seconds(out, sum->own_ns);
	put_seconds(out, sum->total_ns);
}

static void write_sampled(FILE *out, const struct fm_sampled_calls *c)
{
	_cleanup_free_ uint32_t *next = fm_alloc((c->edges.n + 1) * sizeof(*next)); // + 1, as in put_callers()
	_cleanup_free_ uint32_t *first = fm_alloc((c->functions.n + 1) * sizeof(*first));
	for (uint32_t i = 0; i < c->edges.n; i++) {
		next[i] = first[c->edges.items[i].callee];
		first[c->edges.items[i].callee] = i + 1;
	}
	fputc('{', out);
	for (uint32_t i = 0; i < c->functions.n; i++) {
		put_sampled_function(out, &c->functions.items[i]);
		put_tuple(out, 5);
		put_sampled_sum(out, &c->functions.items[i].sum);
		fputc('{', out);
		for (uint32_t at = first[i]; at; at = next[at - 1]) {
			put_sampled_function(out, &c->functions.items[c->edges.items[at - 1].caller]);
			put_tuple(out, 4);
			put_sampled_sum(out, &c->edges.items[at - 1].sum);
		}
		fputc('0', out);
	}
	fputc('0', out);
}

enum fm_err fm_write_pstats(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	const struct fm_trace_stats *calls = a->calls;
	if (calls->unit.len)
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "%s counts %.*s, but pstats holds seconds; use 'fathom export -f callgrind'",
				   a->path, (int)calls->unit.len, calls->unit.p);
	if (calls->n_events || calls->functions.n) {
		write_traced(out, calls);
		return FM_OK;
	}
	enum fm_err err = fm_analysis_add_stacks(a, diag);
	if (err)
		return err;
	struct fm_sampled_calls c;
	fm_sampled_calls_build(&c, a);
	if (c.functions.n)
		write_sampled(out, &c);
	else // pstats refuses an empty table
		err = fm_diag_set(diag, FM_E_NOT_FOUND, "%s holds neither calls nor samples", a->path);
	fm_sampled_calls_deinit(&c);
	if (!err)
		fm_say("%s has no trace: the calls in the pstats file are numbers of samples", a->path);
	return err;
}
