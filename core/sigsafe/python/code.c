// SPDX-License-Identifier: Apache-2.0
// Code objects are told of at first sight: the frame that is being walked keeps them alive at that
// moment.
#include "sigsafe/python/python.h"

#include "base/utf8_encode.h"
#include "pyabi/objects.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/ring.h"

#include "sigsafe/base/sigsafe.h"

// Of places that a code object may have in the table.
#define MAX_TRIES 16

static FM_SIGSAFE void open_string(uint64_t object, uint32_t max_chars, struct fm_py_string *ret)
{
	fm_py_open_string(fm_sig_py_read, NULL, &fm_sig.python.row, object, max_chars, ret);
}

static FM_SIGSAFE uint32_t utf8_bytes_at_most(const struct fm_py_string *s)
{
	return s->is_ascii ? s->n_chars : s->n_chars * (s->kind == 1 ? 2 : s->kind == 2 ? 3 : 4);
}

static FM_SIGSAFE bool read_char(const struct fm_py_string *s, uint32_t i, uint32_t *ret)
{
	uint8_t narrow = 0;
	uint16_t wide = 0;
	if (s->kind == 4)
		return fm_sig_read_u32(s->data + 4ull * i, ret);
	if (s->kind == 2 ? !fm_sig_read_u16(s->data + 2ull * i, &wide) : !fm_sig_read_u8(s->data + i, &narrow))
		return false;
	*ret = s->kind == 2 ? wide : narrow;
	return true;
}

// Returns how many bytes that were; what cannot be read ends it.
static FM_SIGSAFE uint32_t put_utf8(uint8_t *to, const struct fm_py_string *s)
{
	if (s->is_ascii)
		return fm_sig_read(s->data, to, s->n_chars) ? s->n_chars : 0;
	uint8_t *p = to;
	for (uint32_t i = 0; i < s->n_chars; i++) {
		uint32_t c;
		if (!read_char(s, i, &c))
			break;
		p += fm_utf8_encode(p, c);
	}
	return (uint32_t)(p - to);
}

static FM_SIGSAFE bool publish_code(struct fm_sig_thread *t, uintptr_t addr, uint32_t id, const struct fm_py_code *code)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	struct fm_py_string name, qualname, filename;
	open_string(code->name, FM_PY_MAX_NAME_CHARS, &name);
	open_string(code->filename, FM_PY_MAX_FILENAME_CHARS, &filename);
	uint64_t qualname_object = 0;
	qualname.n_chars = 0;
	qualname.is_ascii = true;
	if (row->code_qualname && fm_sig_read_u64(addr + row->code_qualname, &qualname_object))
		open_string(qualname_object, FM_PY_MAX_NAME_CHARS, &qualname);
	uint64_t table_len = 0;
	uintptr_t table = code->line_table + row->bytes_data;
	if (!fm_sig_read_u64(code->line_table + row->bytes_size, &table_len))
		table_len = 0;
	if (table_len > FM_PY_MAX_LINE_TABLE_BYTES)
		table_len = FM_PY_MAX_LINE_TABLE_BYTES;
	struct fm_wire_code *rec =
		fm_sig_ring_reserve(t, FM_WIRE_CODE,
				    sizeof(*rec) + utf8_bytes_at_most(&name) + utf8_bytes_at_most(&qualname) +
					    utf8_bytes_at_most(&filename) + table_len);
	if (!rec)
		return false;
	uint8_t *p = rec->bytes;
	rec->id = id;
	rec->first_line = code->first_line;
	rec->line_table_kind = row->line_table;
	rec->reserved[0] = rec->reserved[1] = rec->reserved[2] = 0;
	rec->reserved2 = 0;
	p += rec->name_len = put_utf8(p, &name);
	p += rec->qualname_len = put_utf8(p, &qualname);
	p += rec->filename_len = put_utf8(p, &filename);
	if (!fm_sig_read(table, p, table_len))
		table_len = 0;
	p += rec->line_table_len = (uint32_t)table_len;
	rec->rec.size =
		(uint32_t)((p - (uint8_t *)rec + 7) & ~7l); // less than reserved when names are not ASCII, or gone
	fm_sig_ring_commit(t, &rec->rec);
	return true;
}

FM_SIGSAFE uint32_t fm_sig_code_id(struct fm_sig_thread *t, uintptr_t code)
{
	struct fm_py_code parts;
	if (!fm_py_read_code(fm_sig_py_read, NULL, &fm_sig.python.row, fm_sig.python.code_type, code, &parts))
		return 0;
	if (fm_py_is_helper_code(&parts))
		return FM_SIG_NOT_A_FUNCTION;
	uint32_t print = fm_py_fingerprint(&parts);
	struct fm_sig_code *free_entry = NULL;
	for (uint32_t i = 0; i < MAX_TRIES; i++) {
		struct fm_sig_code *entry = fm_sig_code_place(code, i);
		uint64_t addr = atomic_load_explicit(&entry->addr, memory_order_acquire);
		if (addr == code) {
			uint64_t id_fingerprint = atomic_load_explicit(&entry->id_fingerprint, memory_order_acquire);
			if (FM_LIKELY(id_fingerprint && (uint32_t)id_fingerprint == print))
				return (uint32_t)(id_fingerprint >> 32);
			free_entry =
				entry; // reused address, or another thread is just writing it: tell it under a new id
			break;
		}
		if (addr == 0) {
			free_entry = entry;
			break;
		}
	}
	uint32_t id = atomic_fetch_add_explicit(&fm_sig.next_code_id, 1, memory_order_relaxed) + 1;
	if (id >= FM_WIRE_NO_CODE || !publish_code(t, code, id, &parts))
		return FM_WIRE_NO_CODE;
	if (free_entry) {
		uint64_t empty = 0;
		if (atomic_compare_exchange_strong(&free_entry->addr, &empty, code) || empty == code)
			// Release: whoever sees the id finds its record in a ring.
			atomic_store_explicit(&free_entry->id_fingerprint, (uint64_t)id << 32 | print,
					      memory_order_release);
	}
	return id;
}

FM_SIGSAFE void fm_sig_code_forget(uintptr_t code)
{
	for (uint32_t i = 0; i < MAX_TRIES; i++) {
		struct fm_sig_code *entry = fm_sig_code_place(code, i);
		uint64_t addr = atomic_load_explicit(&entry->addr, memory_order_acquire);
		if (addr == code)
			atomic_store_explicit(&entry->id_fingerprint, 0, memory_order_release);
		if (addr == code || !addr)
			return;
	}
}
