// SPDX-License-Identifier: Apache-2.0
#include "import/callgrind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// yappi writes "name FILE:LINE".
static struct fm_str plain_name(struct fm_str name, struct fm_str file, uint32_t *line)
{
	const char *colon = memrchr(name.p, ':', name.len);
	uint64_t v;
	if (!colon || !file.len || colon - name.p < (ptrdiff_t)file.len + 2)
		return name;
	struct fm_str rest = { colon + 1, (uint32_t)(name.p + name.len - colon - 1) };
	if (!fm_callgrind_number(&rest, &v) || rest.len || v >= FM_NO_LINE ||
	    memcmp(colon - file.len, file.p, file.len) || colon[-(ptrdiff_t)file.len - 1] != ' ')
		return name;
	*line = (uint32_t)v;
	return (struct fm_str){ name.p, (uint32_t)(colon - name.p) - file.len - 1 };
}

static struct fm_str known(struct fm_str s)
{
	return fm_str_eq(s, FM_STR_LIT("???")) || fm_str_eq(s, FM_STR_LIT("~")) ? FM_STR_LIT("") : s;
}

static fm_zone_ref ref_of(struct fm_callgrind *c, struct fm_callgrind_function *f)
{
	struct fm_str file = known(fm_callgrind_text(c, f->file)), name;
	f->first_line = f->first_line == FM_NO_LINE ? 0 : f->first_line;
	name = plain_name(fm_callgrind_text(c, f->name), file, &f->first_line);
	if (fm_import_is_python_file(file))
		return fm_summed_python(c->in, name, file, f->first_line).ref;
	if (!file.len) // nothing else tells functions of one address in two libraries apart
		file = known(fm_callgrind_text(c, f->object));
	return fm_zone_ref_of(FM_ZONE_BEGIN,
			      fm_writer_trace_place(c->in->w, FM_NAME_FUNCTION, name, file, f->first_line));
}

static uint32_t frame_of(struct fm_callgrind *c, const struct fm_callgrind_function *f, uint32_t line)
{
	struct fm_str file = known(fm_callgrind_text(c, f->file));
	uint32_t first_line = f->first_line;
	struct fm_str name = plain_name(fm_callgrind_text(c, f->name), file, &first_line);
	if (fm_import_is_python_file(file))
		return fm_import_python_frame(c->in, name, file, first_line, line);
	return fm_import_native_frames(c->in, known(fm_callgrind_text(c, f->object)),
				       &(struct fm_symbol_link){ name, file, first_line, line, false }, 1);
}

static void put_lines(struct fm_callgrind *c)
{
	for (size_t i = 0; i < c->lines.n && !fm_input_error(c->in->input); i++) {
		const struct fm_callgrind_line *l = &c->lines.items[i];
		uint32_t frame = frame_of(c, &c->functions.items[l->function], l->line);
		fm_summed_own(c->in, c->thread_id, fm_writer_stack(c->in->w, FM_ROOT_STACK, frame),
			      fm_import_class_of(c->in, frame), l->own);
	}
}

static void put_sums(struct fm_callgrind *c)
{
	fm_zone_ref *refs = fm_alloc((c->functions.n + 1) * sizeof(*refs));
	for (size_t i = 0; i < c->functions.n; i++) {
		struct fm_callgrind_function *f = &c->functions.items[i];
		refs[i] = ref_of(c, f);
		fm_summed_put(c->in, &(struct fm_call_sum){ .callee = refs[i],
							    .n_calls = f->n_calls,
							    .n_recursive = f->n_self_calls,
							    .own_ns = f->own,
							    .total_ns = FM_MIN(f->own + f->of_others, c->whole) });
	}
	for (size_t i = 0; i < c->pairs.n; i++) {
		const struct fm_callgrind_pair *p = &c->pairs.items[i];
		fm_summed_put(c->in, &(struct fm_call_sum){ .is_pair = true,
							    .caller = refs[p->caller],
							    .callee = refs[p->callee],
							    .n_calls = p->n_calls,
							    .total_ns = p->inclusive });
	}
	free(refs);
}

static void tell(struct fm_callgrind *c)
{
	char text[256];
	fm_summed_missing(c->in);
	fm_import_missing(c->in, "totals of functions",
			  "they are own cost plus the cost of calls of others, which is too large if a function calls "
			  "itself through others");
	if (c->has_inlined)
		fm_import_missing(c->in, "lines of inlined code",
				  "the file does not name functions that were inlined from other files; their cost "
				  "counts for the function around them, without a line");
	if (c->other_events.len) {
		snprintf(text, sizeof(text), "the capture holds one of the file's events; not: %s",
			 (char *)c->other_events.data);
		fm_import_missing(c->in, "other costs", text);
	}
	if (!c->unit.len)
		return;
	fm_writer_meta(c->in->w, "calls_unit", (struct fm_str){ (char *)c->unit.data, (uint32_t)c->unit.len });
	snprintf(text, sizeof(text), "the file counts %.40s, not time; 1 s in the report stands for 1e9 of them",
		 (char *)c->unit.data);
	fm_import_missing(c->in, "time", text);
}

void fm_callgrind_put(struct fm_callgrind *c)
{
	put_sums(c);
	put_lines(c);
	tell(c);
}
