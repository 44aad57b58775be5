// SPDX-License-Identifier: Apache-2.0
#include "render/shared/nb_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "read/reader.h"

// Cuts what stands before the separator off *rest.
static struct fm_str cut(struct fm_str *rest, char separator)
{
	const char *end = memchr(rest->p, separator, rest->len);
	uint32_t len = end ? (uint32_t)(end - rest->p) : rest->len;
	struct fm_str piece = { rest->p, len };
	uint32_t taken = len + (end != NULL);
	*rest = (struct fm_str){ rest->p + taken, rest->len - taken };
	return piece;
}

// False when the field is not a number and nothing else.
static bool number(struct fm_str field, double *ret)
{
	char text[32], *end;
	if (field.len == 0 || field.len >= sizeof(text))
		return false;
	memcpy(text, field.p, field.len);
	text[field.len] = 0;
	*ret = strtod(text, &end);
	return !*end && *ret >= 0 && *ret < 1e9;
}

bool fm_nb_cells_next(struct fm_str *rest, struct fm_nb_cell *ret)
{
	while (rest->len) {
		struct fm_str line = cut(rest, '\n');
		double n;
		bool is_good = number(cut(&line, '\t'), &n);
		ret->number = is_good ? (unsigned)n : 0;
		ret->status = cut(&line, '\t');
		is_good = is_good && number(cut(&line, '\t'), &ret->wall_s) && number(cut(&line, '\t'), &ret->cpu_s);
		ret->first_line = line;
		if (is_good)
			return true;
	}
	return false;
}

void fm_json_cells(struct fm_json *j, const struct fm_profile *profile)
{
	struct fm_str rest = fm_profile_meta(profile, "notebook_cells", FM_STR_LIT(""));
	struct fm_nb_cell cell;
	if (!rest.len)
		return;
	fm_json_array(j, "cells");
	while (fm_nb_cells_next(&rest, &cell)) {
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_u64(j, "cell", cell.number);
		fm_json_str(j, "status", cell.status);
		fm_json_real(j, "wall_s", cell.wall_s);
		fm_json_real(j, "cpu_s", cell.cpu_s);
		fm_json_str(j, "first_line", cell.first_line);
		fm_json_end(j);
	}
	fm_json_end(j);
	fm_json_newline(j);
}
