// SPDX-License-Identifier: Apache-2.0
// Lines of the source files that a capture keeps.
#pragma once

#include "read/reader.h"

// Walks a source text forward; lines are asked for in rising order.
struct fm_source_walk {
	const char *p, *end;
	uint32_t line; // of p
};
// Jinja makes Python code of a template and gives it the template's name: its lines are not the template's, and the
// template's text says nothing of them.
bool fm_source_is_template(struct fm_str filename);

struct fm_source_walk fm_source_open(const struct fm_profile *p, struct fm_str filename);
// Without its end; "" when the capture does not have it.
struct fm_str fm_source_line(struct fm_source_walk *s, uint32_t line);

// One line of one file.
struct fm_str fm_source_line_find(const struct fm_profile *p, struct fm_str filename, uint32_t line);
// The same without the blanks before it.
struct fm_str fm_source_line_text(const struct fm_profile *p, struct fm_str filename, uint32_t line);
// Whether the line imports something.
bool fm_source_line_imports(const struct fm_profile *p, struct fm_str filename, uint32_t line);
