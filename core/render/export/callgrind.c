// SPDX-License-Identifier: Apache-2.0
// The Callgrind profile format 1.0: own times per function, and per pair of caller and callee the
// calls with their inclusive time. Events are nanoseconds, or what was imported.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/trace/trace.h"
#include "base/utf8.h"
#include "render/shared/formats.h"

// Names are free text up to the line's end, but for a number in parentheses at their beginning:
// that stands for an earlier name.
static void put_line(FILE *out, struct fm_str text)
{
	if (text.len > 1 && text.p[0] == '(' && text.p[1] >= '0' && text.p[1] <= '9') {
		fputc('[', out);
		text = (struct fm_str){ text.p + 1, text.len - 1 };
	}
	fm_utf8_print(out, text);
	fputc('\n', out);
}

static void put_function(FILE *out, const char *file_key, const char *function_key, const struct fm_traced_function *f)
{
	fputs(file_key, out);
	put_line(out, f->file.len ? f->file : FM_STR_LIT("~"));
	fputs(function_key, out);
	put_line(out, f->name);
}

enum fm_err fm_write_callgrind(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	const struct fm_trace_stats *s = a->calls;
	uint64_t whole_ns = 0;
	for (size_t i = 0; i < s->functions.n; i++)
		whole_ns += s->functions.items[i].own_ns;
	fputs("# callgrind format\nversion: 1\ncreator: fathom " FM_VERSION "\npositions: line\n", out);
	fprintf(out, "events: %.*s\n", s->unit.len ? (int)s->unit.len : 2, s->unit.len ? s->unit.p : "ns");
	fprintf(out, "summary: %" PRIu64 "\n", whole_ns);
	FM_VEC(uint32_t) next = { 0 }; // edges of one caller, chained: by edge the next one + 1
	FM_VEC(uint32_t) first = { 0 };
	fm_vec_grow_to(&next, s->edges.n);
	fm_vec_grow_to(&first, s->functions.n);
	for (size_t i = s->edges.n; i-- > 0;) {
		uint32_t caller = s->edges.items[i].caller;
		if (caller == FM_NO_ID)
			continue;
		next.items[i] = first.items[caller];
		first.items[caller] = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < s->functions.n; i++) {
		const struct fm_traced_function *f = &s->functions.items[i];
		fputc('\n', out);
		put_function(out, "fl=", "fn=", f);
		fprintf(out, "%u %" PRIu64 "\n", f->line, f->own_ns);
		for (uint32_t at = first.items[i]; at; at = next.items[at - 1]) {
			const struct fm_trace_edge *e = &s->edges.items[at - 1];
			const struct fm_traced_function *callee = &s->functions.items[e->callee];
			put_function(out, "cfi=", "cfn=", callee);
			// A generator that was only resumed from here was never called from here.
			fprintf(out, "calls=%" PRIu64 " %u\n%u %" PRIu64 "\n", e->n_calls, callee->line, f->line,
				e->total_ns);
		}
	}
	fm_vec_deinit(&next);
	fm_vec_deinit(&first);
	return FM_OK;
}
