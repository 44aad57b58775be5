// Code objects are told of at first sight: the frame that is being walked keeps them alive at that moment.
#include "sigsafe/python.h"

#include "sigsafe/raw.h"
#include "sigsafe/ring.h"

#include "sigsafe/sigsafe.h"

// Longer ones are cut. A line table of 256 KiB belongs to a function of some 100,000 lines.
#define MAX_NAME_CHARS 1024
#define MAX_FILENAME_CHARS 4096
#define MAX_LINE_TABLE_BYTES (256u << 10)

// Of places that a code object may have in the table.
#define MAX_TRIES 16

// A string object's characters.
struct py_string {
	uintptr_t data;
	uint32_t n_chars;
	uint8_t kind; // bytes per character; 0 = nothing there
	bool is_ascii;
};

static FM_SIGSAFE void open_string(uintptr_t object, uint32_t max_chars, struct py_string *ret)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t length;
	uint32_t state;
	ret->kind = 0;
	ret->n_chars = 0;
	ret->data = 0;
	ret->is_ascii = true;
	if (!fm_sig_read_u64(object + row->str_length, &length) || !fm_sig_read_u32(object + row->str_state, &state))
		return;
	if (!(state & row->str_compact_mask))
		return; // never so for names of code objects
	uint8_t kind = (uint8_t)((state & row->str_kind_mask) >> row->str_kind_shift);
	if (kind != 1 && kind != 2 && kind != 4)
		return;
	ret->is_ascii = state & row->str_ascii_mask;
	ret->data = object + (ret->is_ascii ? row->str_ascii_data : row->str_compact_data);
	ret->n_chars = length < max_chars ? (uint32_t)length : max_chars;
	ret->kind = kind;
}

static FM_SIGSAFE uint32_t utf8_bytes_at_most(const struct py_string *s)
{
	return s->is_ascii ? s->n_chars : s->n_chars * (s->kind == 1 ? 2 : s->kind == 2 ? 3 : 4);
}

static FM_SIGSAFE bool read_char(const struct py_string *s, uint32_t i, uint32_t *ret)
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
static FM_SIGSAFE uint32_t put_utf8(uint8_t *to, const struct py_string *s)
{
	if (s->is_ascii)
		return fm_sig_read(s->data, to, s->n_chars) ? s->n_chars : 0;
	uint8_t *p = to;
	for (uint32_t i = 0; i < s->n_chars; i++) {
		uint32_t c;
		if (!read_char(s, i, &c))
			break;
		if (c < 0x80) {
			*p++ = (uint8_t)c;
		} else if (c < 0x800) {
			*p++ = (uint8_t)(0xc0 | c >> 6);
			*p++ = (uint8_t)(0x80 | (c & 0x3f));
		} else if (c < 0x10000) { // lone surrogates (undecodable file names) pass as three bytes
			*p++ = (uint8_t)(0xe0 | c >> 12);
			*p++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
			*p++ = (uint8_t)(0x80 | (c & 0x3f));
		} else {
			*p++ = (uint8_t)(0xf0 | (c >> 18 & 0x07));
			*p++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
			*p++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
			*p++ = (uint8_t)(0x80 | (c & 0x3f));
		}
	}
	return (uint32_t)(p - to);
}

static FM_SIGSAFE bool tell_code(struct fm_sig_thread *t, uintptr_t code, uint32_t id, uint32_t first_line,
				 const uint64_t *fields)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	struct py_string name, qualname, filename;
	open_string(fields[0], MAX_NAME_CHARS, &name);
	open_string(fields[1], MAX_FILENAME_CHARS, &filename);
	uint64_t qualname_object = 0;
	qualname.n_chars = 0;
	qualname.is_ascii = true;
	if (row->code_qualname && fm_sig_read_u64(code + row->code_qualname, &qualname_object))
		open_string(qualname_object, MAX_NAME_CHARS, &qualname);
	uint64_t table_len = 0;
	uintptr_t table = fields[2] + row->bytes_data;
	if (!fm_sig_read_u64(fields[2] + row->bytes_size, &table_len))
		table_len = 0;
	if (table_len > MAX_LINE_TABLE_BYTES)
		table_len = MAX_LINE_TABLE_BYTES;
	struct fm_wire_code *rec =
		fm_sig_ring_reserve(t, FM_WIRE_CODE,
				    sizeof(*rec) + utf8_bytes_at_most(&name) + utf8_bytes_at_most(&qualname) +
					    utf8_bytes_at_most(&filename) + table_len);
	if (!rec)
		return false;
	uint8_t *p = rec->bytes;
	rec->id = id;
	rec->first_line = first_line;
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
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t type, fields[3];
	uint32_t first_line;
	if (!fm_sig_read_u64(code + row->object_type, &type) || type != fm_sig.python.code_type ||
	    !fm_sig_read_u64(code + row->code_name, &fields[0]) ||
	    !fm_sig_read_u64(code + row->code_filename, &fields[1]) ||
	    !fm_sig_read_u64(code + row->code_line_table, &fields[2]) ||
	    !fm_sig_read_u32(code + row->code_first_line, &first_line))
		return 0;
	// From 3.12 on an inlined constructor call has a frame of the interpreter's own under it, whose code has one string for
	// both its names and no first line. Tracebacks leave it out, and so do we.
	if (FM_UNLIKELY(fields[0] == fields[1] && first_line == 0))
		return FM_SIG_NOT_A_FUNCTION;
	// Code objects are freed and their addresses used again. The parts' addresses and the first line tell them apart.
	uint32_t print =
		(uint32_t)(fm_sig_hash(fields[0] ^ fm_sig_hash(fields[1] ^ fm_sig_hash(fields[2] ^ first_line))) >> 16);
	struct fm_sig_code *free_entry = NULL;
	for (uint32_t i = 0; i < MAX_TRIES; i++) {
		struct fm_sig_code *entry = fm_sig_code_place(code, i);
		uint64_t addr = atomic_load_explicit(&entry->addr, memory_order_acquire);
		if (addr == code) {
			uint64_t id_print = atomic_load_explicit(&entry->id_print, memory_order_acquire);
			if (FM_LIKELY(id_print && (uint32_t)id_print == print))
				return (uint32_t)(id_print >> 32);
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
	if (id >= FM_WIRE_NO_CODE || !tell_code(t, code, id, first_line, fields))
		return FM_WIRE_NO_CODE;
	if (free_entry) {
		uint64_t empty = 0;
		if (atomic_compare_exchange_strong(&free_entry->addr, &empty, code) || empty == code)
			// Release: whoever sees the id finds its record in a ring.
			atomic_store_explicit(&free_entry->id_print, (uint64_t)id << 32 | print, memory_order_release);
	}
	return id;
}

FM_SIGSAFE void fm_sig_code_forget(uintptr_t code)
{
	for (uint32_t i = 0; i < MAX_TRIES; i++) {
		struct fm_sig_code *entry = fm_sig_code_place(code, i);
		uint64_t addr = atomic_load_explicit(&entry->addr, memory_order_acquire);
		if (addr == code)
			atomic_store_explicit(&entry->id_print, 0, memory_order_release);
		if (addr == code || !addr)
			return;
	}
}
