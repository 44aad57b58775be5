// SPDX-License-Identifier: Apache-2.0
#include "render/bundle/string_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void fm_string_table_init(struct fm_string_table *t, size_t max_bytes)
{
	*t = (struct fm_string_table){ .max_bytes = max_bytes };
	fm_intern_id(&t->ids, FM_STR_LIT(""), NULL);
}

void fm_string_table_deinit(struct fm_string_table *t)
{
	fm_intern_deinit(&t->ids);
}

static bool is_plain(struct fm_str s)
{
	for (uint32_t i = 0; i < s.len; i++)
		if ((uint8_t)s.p[i] >= 0x80)
			return false;
	return true;
}

static uint32_t intern(struct fm_string_table *t, struct fm_str s)
{
	if (t->n_bytes + s.len > t->max_bytes) {
		t->n_left_out++;
		return 0;
	}
	bool is_new;
	uint32_t id = fm_intern_id(&t->ids, s, &is_new);
	if (is_new)
		t->n_bytes += s.len;
	return id;
}

// At most max_bytes of s as valid UTF-8. What was longer ends in an ellipsis.
static uint32_t add(struct fm_string_table *t, struct fm_str s, uint32_t max_bytes)
{
	if (s.len <= max_bytes && is_plain(s))
		return intern(t, s);
	struct fm_buf b = { 0 };
	const char *p = s.p, *end = s.p + s.len;
	while (p < end && b.len + 7 <= max_bytes) // room for one character and the ellipsis
		fm_utf8_put(&b, fm_utf8_next(&p, end));
	if (p < end)
		fm_utf8_put(&b, 0x2026);
	uint32_t id = intern(t, (struct fm_str){ (const char *)b.data, (uint32_t)b.len });
	fm_buf_deinit(&b);
	return id;
}

uint32_t fm_string_table_name(struct fm_string_table *t, struct fm_str s)
{
	return s.len ? add(t, s, FM_STRING_NAME_BYTES) : 0;
}

uint32_t fm_string_table_whole(struct fm_string_table *t, struct fm_str s, size_t max_bytes)
{
	// Each undecodable byte becomes three.
	size_t longest = is_plain(s) ? s.len : (size_t)s.len * 3 + 7;
	return s.len && s.len <= max_bytes && longest < UINT32_MAX ? add(t, s, (uint32_t)longest) : 0;
}

void fm_string_table_columns(const struct fm_string_table *t, struct fm_columns *c)
{
	size_t n = t->ids.strings.n;
	uint32_t *offset = fm_columns_u32(c, "string.offset", n + 1);
	uint8_t *bytes = fm_columns_u8(c, "string.bytes", t->n_bytes);
	uint32_t at = 0;
	for (size_t i = 0; i < n; i++) {
		struct fm_str s = fm_intern_get(&t->ids, (uint32_t)i);
		offset[i] = at;
		memcpy(bytes + at, s.p, s.len);
		at += s.len;
	}
	offset[n] = at;
}
