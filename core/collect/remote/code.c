// SPDX-License-Identifier: Apache-2.0
// Code objects of another process, copied at first sight.
#include <string.h>

#include "base/utf8_encode.h"
#include "collect/remote/parts.h"
#include "wire/wire.h"

// More functions than most programs have; some kilobytes each.
#define MAX_CODES 65536u

uint32_t fm_remote_text(struct fm_remote *r, uint64_t object, uint32_t max_chars, uint8_t *to)
{
	static uint8_t raw[FM_PY_MAX_FILENAME_CHARS * 4];
	struct fm_py_string s;
	uint32_t len = 0;
	fm_py_open_string(fm_remote_py_read, r->memory, &r->python.row, object,
			  FM_MIN(max_chars, FM_PY_MAX_FILENAME_CHARS), &s);
	if (!s.kind || !fm_remote_read(r->memory, s.data, raw, (size_t)s.n_chars * s.kind))
		return 0;
	for (uint32_t i = 0; i < s.n_chars; i++) {
		uint32_t c = 0;
		memcpy(&c, raw + (size_t)i * s.kind, s.kind);
		len += fm_utf8_encode(to + len, c);
	}
	return len;
}

static struct fm_str read_string(struct fm_remote *r, uint64_t object, uint32_t max_chars)
{
	static uint8_t text[FM_PY_MAX_FILENAME_CHARS * 4];
	uint32_t len = fm_remote_text(r, object, max_chars, text);
	return len ? (struct fm_str){ fm_arena_strdup(&r->arena, (char *)text, len), len } : (struct fm_str){ "", 0 };
}

static struct fm_str read_bytes(struct fm_remote *r, uint64_t object)
{
	uint64_t len;
	if (!fm_remote_u64(r->memory, object + r->python.row.bytes_size, &len) || len > INT32_MAX)
		return (struct fm_str){ "", 0 };
	len = FM_MIN(len, (uint64_t)FM_PY_MAX_LINE_TABLE_BYTES);
	char *to = fm_arena_alloc(&r->arena, len + 1);
	if (!fm_remote_read(r->memory, object + r->python.row.bytes_data, to, len))
		len = 0;
	return (struct fm_str){ to, (uint32_t)len };
}

void fm_remote_limit_codes(struct fm_remote *r)
{
	if (r->codes.n < MAX_CODES)
		return;
	fm_map_deinit(&r->code_ids);
	fm_arena_deinit(&r->arena);
	fm_arena_init(&r->arena);
	r->codes.n = 0;
	r->code_generation++;
}

uint32_t fm_remote_code_generation(const struct fm_remote *r)
{
	return r->code_generation;
}

uint32_t fm_remote_code_id(struct fm_remote *r, uint64_t addr)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t qualname;
	struct fm_py_code code;
	if ((addr & 7) || !fm_py_read_code(fm_remote_py_read, r->memory, row, r->python.code_type, addr, &code))
		return 0;
	if (fm_py_is_helper_code(&code))
		return UINT32_MAX;
	uint32_t print = fm_py_fingerprint(&code);
	uint64_t *id = fm_map_at(&r->code_ids, addr, NULL);
	if (*id && r->codes.items[*id - 1].print == print)
		return (uint32_t)*id;
	struct remote_code_entry entry = { .print = print };
	entry.code.name = read_string(r, code.name, FM_PY_MAX_NAME_CHARS);
	entry.code.filename = read_string(r, code.filename, FM_PY_MAX_FILENAME_CHARS);
	if (row->code_qualname && fm_remote_u64(r->memory, addr + row->code_qualname, &qualname))
		entry.code.qualname = read_string(r, qualname, FM_PY_MAX_NAME_CHARS);
	if (!entry.code.qualname.len)
		entry.code.qualname = entry.code.name; // up to 3.10 the interpreter has no better one
	entry.code.line_table = read_bytes(r, code.line_table);
	entry.code.first_line = code.first_line;
	entry.code.line_table_kind = row->line_table;
	if (r->codes.n + 1 >= FM_WIRE_NO_CODE)
		return 0;
	fm_vec_push(&r->codes, entry);
	*id = r->codes.n;
	return (uint32_t)*id;
}

const struct fm_remote_code *fm_remote_code(const struct fm_remote *r, uint32_t id)
{
	return id && id <= r->codes.n ? &r->codes.items[id - 1].code : NULL;
}
