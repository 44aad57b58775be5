// SPDX-License-Identifier: Apache-2.0
#include "render/query/tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "render/shared/label.h"
#include "render/shared/source_line.h"

const char *const fm_column_types[] = { "INTEGER", "REAL", "TEXT" };

const struct fm_query_table *fm_query_table_at(unsigned i)
{
	static const struct fm_query_table *const topics[] = { fm_query_time_tables, fm_query_stack_tables,
							       fm_query_memory_tables, fm_query_trace_tables,
							       fm_query_about_tables };
	for (size_t k = 0; k < FM_ARRAY_LEN(topics); k++)
		for (const struct fm_query_table *t = topics[k]; t->name; t++)
			if (!i--)
				return t;
	return NULL;
}

unsigned fm_query_n_tables(void)
{
	unsigned n = 0;
	while (fm_query_table_at(n))
		n++;
	return n;
}

const struct fm_query_table *fm_query_table_find(const char *name)
{
	const struct fm_query_table *t;
	for (unsigned i = 0; (t = fm_query_table_at(i)); i++)
		if (!strcasecmp(t->name, name)) // as SQL compares names
			return t;
	return NULL;
}

static void put_stack(struct fm_buf *b, const struct fm_query_data *d, uint32_t node)
{
	const struct fm_node *nodes = d->a->view.nodes.items;
	FM_VEC(uint32_t) path = { 0 }; // innermost first
	for (; node; node = nodes[node].parent)
		fm_vec_push(&path, node);
	struct fm_buf label = { 0 };
	while (path.n-- > 0) {
		label.len = 0;
		fm_label_frame(&label, d->a, &nodes[path.items[path.n]]);
		fm_label_collapsed(b, (struct fm_str){ (const char *)label.data, (uint32_t)label.len });
	}
	fm_buf_deinit(&label);
	fm_vec_deinit(&path);
	if (!b->len)
		fm_buf_str(b, "[no frames]");
}

// Most text is ASCII, and stays where it is.
static bool is_plain(struct fm_str s)
{
	for (uint32_t i = 0; i < s.len; i++)
		if (!s.p[i] || (uint8_t)s.p[i] >= 0x80)
			return false;
	return true;
}

static void put_sound(struct fm_buf *b, struct fm_str s)
{
	for (const char *p = s.p, *end = s.p + s.len; p < end;) {
		uint32_t c = fm_utf8_next(&p, end);
		fm_utf8_put(b, c ? c : FM_UTF8_BAD); // SQL's own functions take NUL for the end
	}
}

static struct fm_str text_of(struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

struct fm_str fm_query_text(const struct fm_query_data *d, const struct fm_value *value, struct fm_buf *b)
{
	struct fm_str s = value->text;
	b->len = 0;
	switch (value->kind) {
	case FM_VALUE_STACK:
		put_stack(b, d, value->node);
		return text_of(b);
	case FM_VALUE_HEX:
		fm_buf_hex(b, s.p, s.len);
		return text_of(b);
	case FM_VALUE_SOURCE:
		s = fm_source_line_text(d->a->profile, fm_analysis_function(d->a, value->function_id)->file,
					value->line);
		break;
	case FM_VALUE_COMMAND: {
		struct fm_buf joined = { 0 };
		fm_label_command(&joined, s);
		put_sound(b, text_of(&joined));
		fm_buf_deinit(&joined);
		return text_of(b);
	}
	default:
		break;
	}
	if (is_plain(s))
		return s.p ? s : FM_STR_LIT("");
	put_sound(b, s);
	return text_of(b);
}
