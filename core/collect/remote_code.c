// Code objects of another process, copied at first sight.
#include <string.h>

#include "collect/remote_parts.h"
#include "wire/wire.h"

// Longer ones are cut, as in the agent.
#define MAX_NAME_CHARS 1024u
#define MAX_FILENAME_CHARS 4096u
#define MAX_LINE_TABLE_BYTES (256u << 10)
// More functions than most programs have; some kilobytes each.
#define MAX_CODES 65536u

static uint32_t put_utf8(uint8_t *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (uint8_t)(0xc0 | c >> 6);
		to[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) { // lone surrogates (undecodable file names) pass as three bytes
		to[0] = (uint8_t)(0xe0 | c >> 12);
		to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		to[2] = (uint8_t)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (uint8_t)(0xf0 | (c >> 18 & 0x07));
	to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	to[3] = (uint8_t)(0x80 | (c & 0x3f));
	return 4;
}

uint32_t fm_remote_text(struct fm_remote *r, uint64_t object, uint32_t max_chars, uint8_t *to)
{
	const struct fm_py_row *row = &r->python.row;
	static uint8_t raw[MAX_FILENAME_CHARS * 4];
	uint64_t length;
	uint32_t state;
	max_chars = FM_MIN(max_chars, MAX_FILENAME_CHARS);
	if (!fm_remote_u64(r->memory, object + row->str_length, &length) ||
	    !fm_remote_u32(r->memory, object + row->str_state, &state) || !(state & row->str_compact_mask))
		return 0;
	uint32_t kind = (state & row->str_kind_mask) >> row->str_kind_shift;
	if (kind != 1 && kind != 2 && kind != 4)
		return 0;
	uint32_t n = length < max_chars ? (uint32_t)length : max_chars, len = 0;
	bool is_ascii = state & row->str_ascii_mask;
	if (!fm_remote_read(r->memory, object + (is_ascii ? row->str_ascii_data : row->str_compact_data), raw,
			    (size_t)n * kind))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t c = 0;
		memcpy(&c, raw + (size_t)i * kind, kind);
		len += put_utf8(to + len, c);
	}
	return len;
}

static struct fm_str read_string(struct fm_remote *r, uint64_t object, uint32_t max_chars)
{
	static uint8_t text[MAX_FILENAME_CHARS * 4];
	uint32_t len = fm_remote_text(r, object, max_chars, text);
	return len ? (struct fm_str){ fm_arena_strdup(&r->arena, (char *)text, len), len } : (struct fm_str){ "", 0 };
}

static struct fm_str read_bytes(struct fm_remote *r, uint64_t object)
{
	uint64_t len;
	if (!fm_remote_u64(r->memory, object + r->python.row.bytes_size, &len) || len > INT32_MAX)
		return (struct fm_str){ "", 0 };
	len = FM_MIN(len, (uint64_t)MAX_LINE_TABLE_BYTES);
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
	uint64_t type, name, filename, table, qualname;
	uint32_t first_line;
	if ((addr & 7) || !fm_remote_u64(r->memory, addr + row->object_type, &type) || type != r->python.code_type ||
	    !fm_remote_u64(r->memory, addr + row->code_name, &name) ||
	    !fm_remote_u64(r->memory, addr + row->code_filename, &filename) ||
	    !fm_remote_u64(r->memory, addr + row->code_line_table, &table) ||
	    !fm_remote_u32(r->memory, addr + row->code_first_line, &first_line))
		return 0;
	if (name == filename && first_line == 0) // the interpreter's own helper code: pyabi/row.h
		return UINT32_MAX;
	// Code objects are freed and their addresses used again. The parts' addresses and the first line tell them apart.
	uint64_t print = fm_hash_u64(name ^ fm_hash_u64(filename ^ fm_hash_u64(table ^ first_line)));
	uint64_t *id = fm_map_at(&r->code_ids, addr, NULL);
	if (*id && r->codes.items[*id - 1].print == print)
		return (uint32_t)*id;
	struct remote_code_entry entry = { .print = print };
	entry.code.name = read_string(r, name, MAX_NAME_CHARS);
	entry.code.filename = read_string(r, filename, MAX_FILENAME_CHARS);
	if (row->code_qualname && fm_remote_u64(r->memory, addr + row->code_qualname, &qualname))
		entry.code.qualname = read_string(r, qualname, MAX_NAME_CHARS);
	if (!entry.code.qualname.len)
		entry.code.qualname = entry.code.name; // up to 3.10 the interpreter has no better one
	entry.code.line_table = read_bytes(r, table);
	entry.code.first_line = first_line;
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
