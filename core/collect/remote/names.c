// SPDX-License-Identifier: Apache-2.0
// What Python calls its threads: threading._active has a Thread for each, which knows its name and
// the kernel's id.
//
// The dictionaries are read while the program may change them: what does not make sense is passed
// over, and looked at again later.
#include <string.h>

#include "base/clock.h"
#include "collect/remote/parts.h"
#include "pyabi/dict_object.h"
#include "pyabi/type_object.h"

// Names change seldom. A thread that came since the last look is worth another one, but not for
// each of a thousand.
#define KEEP_NS 1000000000u
#define REST_NS 20000000u
// More modules, or threads, than a program has.
#define MAX_ENTRIES 65536u
#define MAX_NAME_CHARS 64u

struct dict {
	uint64_t entries, values; // values 0: they are in the entries
	uint32_t entry_bytes, key_at;
	uint64_t n;
};

static const struct fm_py_type_layout *layout_of(const struct fm_remote *r)
{
	return &fm_py_type_layouts[r->python.row.is_free_threaded];
}

static bool open_keys(struct fm_remote *r, uint64_t keys, uint64_t values, struct dict *ret)
{
	uint64_t size, n;
	uint8_t log2_bytes, kind;
	*ret = (struct dict){ .values = values, .entry_bytes = 24, .key_at = 8 };
	if (r->python.row.minor <= 10) {
		if (!fm_remote_u64(r->memory, keys + FM_PY_KEYS_38_SIZE, &size) ||
		    !fm_remote_u64(r->memory, keys + FM_PY_KEYS_38_N, &n) || size > 2 * MAX_ENTRIES)
			return false;
		ret->entries = keys + FM_PY_KEYS_38_INDICES + size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
	} else {
		if (!fm_remote_u8(r->memory, keys + FM_PY_KEYS_311_LOG2_INDEX_BYTES, &log2_bytes) ||
		    !fm_remote_u8(r->memory, keys + FM_PY_KEYS_311_KIND, &kind) ||
		    !fm_remote_u64(r->memory, keys + FM_PY_KEYS_311_N, &n) || log2_bytes > 24)
			return false;
		ret->entries = keys + FM_PY_KEYS_311_INDICES + (1ull << log2_bytes);
		if (kind != FM_PY_KEYS_GENERAL) {
			ret->entry_bytes = 16;
			ret->key_at = 0;
		}
	}
	ret->n = n;
	return n <= MAX_ENTRIES;
}

static bool open_dict(struct fm_remote *r, uint64_t object, struct dict *ret)
{
	uint64_t keys, values, body = object + layout_of(r)->head_bytes;
	if (!object || !fm_remote_u64(r->memory, body + FM_PY_DICT_KEYS, &keys) ||
	    !fm_remote_u64(r->memory, body + FM_PY_DICT_VALUES, &values))
		return false;
	if (values && r->python.row.minor >= 13)
		values += FM_PY_VALUES_HEAD_BYTES;
	return open_keys(r, keys, values, ret);
}

// The i-th key and value; false for a place that is empty.
static bool entry_at(struct fm_remote *r, const struct dict *d, uint64_t i, uint64_t *ret_key, uint64_t *ret_value)
{
	uint64_t at = d->entries + i * d->entry_bytes + d->key_at, value_at = d->values ? d->values + 8 * i : at + 8;
	return fm_remote_u64(r->memory, at, ret_key) && fm_remote_u64(r->memory, value_at, ret_value) && *ret_key &&
	       *ret_value;
}

static bool is_text(struct fm_remote *r, uint64_t object, const char *text)
{
	const struct fm_py_row *row = &r->python.row;
	char bytes[32];
	uint64_t length, expected = strlen(text);
	uint32_t state;
	return fm_remote_u64(r->memory, object + row->str_length, &length) && length == expected &&
	       fm_remote_u32(r->memory, object + row->str_state, &state) && (state & row->str_ascii_mask) &&
	       fm_remote_read(r->memory, object + row->str_ascii_data, bytes, expected) &&
	       !memcmp(bytes, text, expected);
}

static uint64_t find(struct fm_remote *r, const struct dict *d, const char *name)
{
	uint64_t key, value;
	for (uint64_t i = 0; i < d->n; i++)
		if (entry_at(r, d, i, &key, &value) && is_text(r, key, name))
			return value;
	return 0;
}

static uint64_t cached_keys_at(const struct fm_py_row *row)
{
	uint64_t at = row->minor >= 15   ? FM_PY_CACHED_KEYS_315
		      : row->minor >= 12 ? FM_PY_CACHED_KEYS_312
					 : FM_PY_CACHED_KEYS_311;
	return at + (row->is_free_threaded ? FM_PY_CACHED_KEYS_NO_GIL_MORE : 0);
}

// The attributes of an object whose type Python code made, as a dictionary.
static bool open_attributes(struct fm_remote *r, uint64_t object, struct dict *ret)
{
	const struct fm_py_row *row = &r->python.row;
	const struct fm_py_type_layout *l = layout_of(r);
	uint64_t type, flags, basic, offset, keys = 0, dict = 0, values = 0;
	uint8_t is_valid = 0;
	if (!fm_remote_u64(r->memory, object + l->ob_type, &type) ||
	    !fm_remote_u64(r->memory, type + l->tp_flags, &flags) ||
	    !fm_remote_u64(r->memory, type + l->tp_basicsize, &basic) || basic > 4096)
		return false;
	bool is_managed = row->minor >= 11 && (flags & FM_PY_TPFLAGS_MANAGED_DICT);
	if (!is_managed) {
		if (!fm_remote_u64(r->memory, type + l->tp_flags + FM_PY_TP_DICTOFFSET_BEHIND_FLAGS, &offset) ||
		    offset == 0 || offset > 4096 || !fm_remote_u64(r->memory, object + offset, &dict))
			return false;
		return open_dict(r, dict, ret);
	}
	if (!fm_remote_u64(r->memory, type + cached_keys_at(row), &keys))
		return false;
	unsigned before = row->is_free_threaded ? FM_PY_DICT_BEFORE_NO_GIL : FM_PY_DICT_BEFORE;
	if (row->minor == 11 && !fm_remote_u64(r->memory, object - FM_PY_VALUES_BEFORE, &values))
		return false;
	if (row->minor >= 13 && (flags & FM_PY_TPFLAGS_INLINE_VALUES)) {
		if (!fm_remote_u8(r->memory, object + basic + FM_PY_VALUES_VALID, &is_valid))
			return false;
		values = is_valid ? object + basic + FM_PY_VALUES_HEAD_BYTES : 0;
	}
	if (!values && !fm_remote_u64(r->memory, object - before, &dict))
		return false;
	if (row->minor == 12 && (dict & 1))
		values = dict + 1;
	return values ? keys && open_keys(r, keys, values, ret) : open_dict(r, dict, ret);
}

// A small number; 0 = it is none.
static uint32_t number_at(struct fm_remote *r, uint64_t object)
{
	uint64_t body = object + layout_of(r)->head_bytes, size;
	uint32_t digit;
	if (!object || !fm_remote_u64(r->memory, body, &size) ||
	    !fm_remote_u32(r->memory, body + FM_PY_LONG_DIGIT, &digit))
		return 0;
	return size == (r->python.row.minor >= 12 ? 1u << FM_PY_LONG_312_SHIFT : 1u) ? digit : 0;
}

static bool is_string(struct fm_remote *r, uint64_t object)
{
	const struct fm_py_type_layout *l = layout_of(r);
	uint64_t type, flags;
	return object && fm_remote_u64(r->memory, object + l->ob_type, &type) &&
	       fm_remote_u64(r->memory, type + l->tp_flags, &flags) && (flags & FM_PY_TPFLAGS_UNICODE_SUBCLASS);
}

// A string for people, in one line. Returns its bytes; 0: it is none.
static uint32_t take_text(struct fm_remote *r, uint64_t object, char *to, uint32_t cap)
{
	uint8_t utf8[MAX_NAME_CHARS * 4];
	if (!is_string(r, object))
		return 0;
	uint32_t len = fm_remote_text(r, object, MAX_NAME_CHARS, utf8);
	if (len >= cap)
		for (len = cap - 1; len && (utf8[len] & 0xc0) == 0x80;)
			len--; // whole characters
	for (uint32_t i = 0; i < len; i++)
		to[i] = utf8[i] < ' ' || utf8[i] == 0x7f ? '?' : (char)utf8[i];
	to[len] = 0;
	return len;
}

static void take_thread(struct fm_remote *r, uint64_t thread)
{
	struct dict attributes;
	struct fm_remote_name name = { 0 };
	if (!open_attributes(r, thread, &attributes))
		return;
	name.tid = number_at(r, find(r, &attributes, "_native_id"));
	if (name.tid && take_text(r, find(r, &attributes, "_name"), name.text, sizeof(name.text)))
		fm_vec_push(&r->names, name);
}

// The variables of a module. It stays where it is: a search through all modules is for once
// (*known; 0 = not found yet).
static bool open_module(struct fm_remote *r, const char *name, uint64_t *known, struct dict *ret)
{
	uint64_t modules, dict, interp = fm_remote_main_interpreter(r);
	if (!*known && (!interp || !fm_remote_u64(r->memory, interp + r->python.row.interp_modules, &modules) ||
			!open_dict(r, modules, ret) || !(*known = find(r, ret, name))))
		return false;
	return fm_remote_u64(r->memory, *known + layout_of(r)->head_bytes + FM_PY_MODULE_DICT, &dict) &&
	       open_dict(r, dict, ret);
}

static uint64_t find_active(struct fm_remote *r)
{
	struct dict d;
	return open_module(r, "threading", &r->threading, &d) ? find(r, &d, "_active") : 0;
}

static void read_names(struct fm_remote *r)
{
	struct dict active;
	uint64_t key, thread;
	r->names.n = 0;
	fm_remote_memory_begin(r->memory, r->pid);
	fm_remote_images_refresh(r->images, fm_now_ns());
	if (!fm_remote_find_interpreter(r) || !open_dict(r, find_active(r), &active))
		return;
	for (uint64_t i = 0; i < active.n; i++)
		if (entry_at(r, &active, i, &key, &thread))
			take_thread(r, thread);
}

const char *fm_remote_thread_name(struct fm_remote *r, uint32_t tid, uint64_t since_ns)
{
	uint64_t now_ns = fm_now_ns();
	bool is_old = r->names_ns <= since_ns || now_ns - r->names_ns > KEEP_NS;
	if (is_old && now_ns - r->names_ns > REST_NS) {
		read_names(r);
		r->names_ns = now_ns;
	}
	// An older one may be of a thread that had the id before.
	for (size_t i = 0; i < r->names.n && r->names_ns > since_ns; i++)
		if (r->names.items[i].tid == tid)
			return r->names.items[i].text;
	return NULL;
}

const char *fm_remote_process_name(struct fm_remote *r)
{
	struct dict d;
	fm_remote_memory_begin(r->memory, r->pid);
	fm_remote_images_refresh(r->images, fm_now_ns());
	if (!fm_remote_find_interpreter(r) || !open_module(r, "multiprocessing.process", &r->multiprocessing, &d))
		return NULL;
	uint64_t process = find(r, &d, "_current_process");
	if (!process || !open_attributes(r, process, &d) ||
	    !take_text(r, find(r, &d, "_name"), r->process_name, sizeof(r->process_name)))
		return NULL;
	return r->process_name;
}
