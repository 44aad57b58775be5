// SPDX-License-Identifier: Apache-2.0
#include "render/shared/source_line.h"

#include <string.h>

#include "base/compiler.h"

bool fm_source_is_template(struct fm_str filename)
{
	static const char *const ends[] = {
		".html",  ".htm",    ".xhtml", ".xml",  ".svg",      ".txt",  ".md",  ".j2",
		".jinja", ".jinja2", ".tpl",   ".tmpl", ".template", ".mako", ".css", ".js"
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(ends); i++)
		if (filename.len > strlen(ends[i]) && fm_str_ends_with(filename, ends[i]))
			return true;
	return false;
}

struct fm_source_walk fm_source_open(const struct fm_profile *p, struct fm_str filename)
{
	if (fm_source_is_template(filename))
		return (struct fm_source_walk){ "", "", 1 };
	for (size_t i = 0; i < p->sources.n; i++)
		if (fm_str_eq(p->sources.items[i].filename, filename))
			return (struct fm_source_walk){ p->sources.items[i].text.p,
							p->sources.items[i].text.p + p->sources.items[i].text.len, 1 };
	return (struct fm_source_walk){ "", "", 1 };
}

struct fm_str fm_source_line(struct fm_source_walk *s, uint32_t line)
{
	while (s->line < line && s->p < s->end) {
		const char *newline = memchr(s->p, '\n', (size_t)(s->end - s->p));
		s->p = newline ? newline + 1 : s->end;
		s->line++;
	}
	if (s->line != line || s->p >= s->end)
		return (struct fm_str){ "", 0 };
	const char *newline = memchr(s->p, '\n', (size_t)(s->end - s->p));
	uint32_t len = (uint32_t)((newline ? newline : s->end) - s->p);
	return (struct fm_str){ s->p, len && s->p[len - 1] == '\r' ? len - 1 : len };
}

struct fm_str fm_source_line_find(const struct fm_profile *p, struct fm_str filename, uint32_t line)
{
	struct fm_source_walk source = fm_source_open(p, filename);
	return fm_source_line(&source, line);
}

struct fm_str fm_source_line_text(const struct fm_profile *p, struct fm_str filename, uint32_t line)
{
	struct fm_str text = fm_source_line_find(p, filename, line);
	while (text.len && (text.p[0] == ' ' || text.p[0] == '\t'))
		text = (struct fm_str){ text.p + 1, text.len - 1 };
	return text;
}

bool fm_source_line_imports(const struct fm_profile *p, struct fm_str filename, uint32_t line)
{
	struct fm_str text = fm_source_line_text(p, filename, line);
	return fm_str_starts_with(text, "import ") || fm_str_starts_with(text, "from ");
}
