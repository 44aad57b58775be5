// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "collect/remote/parts.h"
#include "pyabi/dict_object.h"
#include "pyabi/locals.h"
#include "pyabi/type_object.h"

// More than anybody reads of one frame, and frames of one stack.
#define MAX_LOCALS 64u
#define MAX_FRAMES 200u
#define MAX_TYPE_CHARS 64u
#define TAG_BITS 3u
#define TAGGED_INT 3u // 3.15: a small number instead of a reference

struct values {
	struct fm_remote *r;
	const struct fm_py_type_layout *types;
	struct fm_py_locals at;
	struct fm_buf text;
};

void fm_locals_init(struct fm_locals *l)
{
	*l = (struct fm_locals){ 0 };
	fm_arena_init(&l->arena);
}

void fm_locals_deinit(struct fm_locals *l)
{
	fm_vec_deinit(&l->items);
	fm_arena_deinit(&l->arena);
}

// "" when it cannot be read.
static void read_type(const struct values *v, uint64_t object, char ret[static MAX_TYPE_CHARS])
{
	uint64_t type, name;
	memset(ret, 0, MAX_TYPE_CHARS);
	if (!fm_remote_u64(v->r->memory, object + v->types->ob_type, &type) ||
	    !fm_remote_u64(v->r->memory, type + v->types->tp_name, &name))
		return;
	for (uint32_t i = 0; i + 1 < MAX_TYPE_CHARS; i++) {
		uint8_t c;
		if (!fm_remote_u8(v->r->memory, name + i, &c) || !c)
			return;
		ret[i] = c < ' ' || c >= 0x7f ? '?' : (char)c;
	}
}

static void put_string(struct values *v, uint64_t object)
{
	uint8_t utf8[FM_LOCAL_MAX_CHARS * 4];
	uint64_t length = 0;
	fm_remote_u64(v->r->memory, object + v->r->python.row.str_length, &length);
	uint32_t len = fm_remote_text(v->r, object, FM_LOCAL_MAX_CHARS, utf8);
	fm_buf_u8(&v->text, '\'');
	for (uint32_t i = 0; i < len; i++) {
		if (utf8[i] == '\n')
			fm_buf_str(&v->text, "\\n");
		else if (utf8[i] == '\'' || utf8[i] == '\\')
			fm_buf_printf(&v->text, "\\%c", utf8[i]);
		else
			fm_buf_u8(&v->text, utf8[i] < ' ' || utf8[i] == 0x7f ? '?' : utf8[i]);
	}
	fm_buf_str(&v->text, length > FM_LOCAL_MAX_CHARS ? "'..." : "'");
}

// Digits of 30 bits; of more than two only how large it is would be known.
static bool put_int(struct values *v, uint64_t object)
{
	uint64_t body = object + v->types->head_bytes, size;
	uint32_t digits[2] = { 0 };
	if (!fm_remote_u64(v->r->memory, body, &size))
		return false;
	bool is_new = v->r->python.row.minor >= 12; // the sign is in the low bits: 0 positive, 1 zero, 2 negative
	bool is_negative = is_new ? (size & 3) == 2 : (int64_t)size < 0;
	uint64_t n = is_new ? size >> FM_PY_LONG_312_SHIFT : is_negative ? -size : size;
	if (n > 2)
		return fm_buf_printf(&v->text, "%sabout 2**%llu", is_negative ? "-" : "",
				     (unsigned long long)(30 * n - 15)),
		       true;
	if (n && !fm_remote_read(v->r->memory, body + FM_PY_LONG_DIGIT, digits, n * sizeof(*digits)))
		return false;
	uint64_t value = digits[0] | (uint64_t)digits[1] << 30;
	fm_buf_printf(&v->text, "%s%llu", is_negative ? "-" : "", (unsigned long long)value);
	return true;
}

// By the type's name: a program may have another type of the same name, whose bytes then make a
// strange number, and nothing worse.
static void put_value(struct values *v, uint64_t object, const char *type)
{
	static const struct {
		const char *type;
		uint16_t size; // behind the head
		const char *unit;
	} containers[] = { { "list", 0, "items" },     { "tuple", 0, "items" }, { "dict", 0, "items" },
			   { "set", 8, "items" },      { "bytes", 0, "bytes" }, { "bytearray", 0, "bytes" },
			   { "frozenset", 8, "items" } };
	uint64_t n, body = object + v->types->head_bytes;
	double real;
	if (!strcmp(type, "str")) {
		put_string(v, object);
	} else if (!strcmp(type, "NoneType")) {
		fm_buf_str(&v->text, "None");
	} else if (!strcmp(type, "bool")) {
		size_t from = v->text.len;
		if (put_int(v, object))
			v->text.len = from, fm_buf_str(&v->text, v->text.data[from] == '1' ? "True" : "False");
	} else if (!strcmp(type, "int") && put_int(v, object)) {
		return;
	} else if (!strcmp(type, "float") && fm_remote_read(v->r->memory, body, &real, sizeof(real))) {
		fm_buf_printf(&v->text, "%.12g", real);
	} else {
		for (size_t i = 0; i < FM_ARRAY_LEN(containers); i++)
			if (!strcmp(type, containers[i].type) &&
			    fm_remote_u64(v->r->memory, body + containers[i].size, &n)) {
				fm_buf_printf(&v->text, "<%s, %llu %s>", type, (unsigned long long)n,
					      containers[i].unit);
				return;
			}
		fm_buf_printf(&v->text, "<%s>", *type ? type : "?");
	}
}

static void take_local(struct values *v, uint64_t name, uint64_t reference, struct fm_local *local,
		       struct fm_locals *to)
{
	uint8_t utf8[FM_LOCAL_MAX_CHARS * 4];
	char type[MAX_TYPE_CHARS];
	uint32_t len = fm_remote_text(v->r, name, FM_LOCAL_MAX_CHARS, utf8);
	if (!len || utf8[0] == '.') // .0 of a comprehension
		return;
	v->text.len = 0;
	fm_buf_bytes(&v->text, utf8, len);
	fm_buf_u8(&v->text, '=');
	if (v->at.is_tagged && (reference & TAG_BITS) == TAGGED_INT) {
		snprintf(type, sizeof(type), "int");
		fm_buf_printf(&v->text, "%lld", (long long)reference >> 2);
	} else {
		uint64_t object = v->at.is_tagged ? reference & ~(uint64_t)TAG_BITS : reference;
		if (!object)
			return; // not set yet, or deleted
		read_type(v, object, type);
		if (!strcmp(type, "cell")) { // shared with a function inside
			if (!fm_remote_u64(v->r->memory, object + v->types->head_bytes, &object) || !object)
				return;
			read_type(v, object, type);
		}
		put_value(v, object, type);
	}
	local->text = fm_arena_strdup(&to->arena, (const char *)v->text.data, v->text.len);
	local->type = fm_arena_strdup(&to->arena, type, strlen(type));
	fm_vec_push(&to->items, *local);
}

static void take_frame(struct values *v, uint64_t frame, struct fm_local *local, struct fm_locals *to)
{
	const struct fm_py_row *row = &v->r->python.row;
	uint64_t code, names, n, name, value;
	if (!fm_remote_u64(v->r->memory, frame + row->frame_code, &code))
		return;
	code &= ~(uint64_t)row->executable_tag_mask;
	if (!fm_remote_u64(v->r->memory, code + v->at.code_names, &names) ||
	    !fm_remote_u64(v->r->memory, names + v->at.size, &n))
		return;
	for (uint64_t i = 0; i < FM_MIN(n, (uint64_t)MAX_LOCALS); i++)
		if (fm_remote_u64(v->r->memory, names + v->at.tuple_items + 8 * i, &name) &&
		    fm_remote_u64(v->r->memory, frame + v->at.frame_values + 8 * i, &value))
			take_local(v, name, value, local, to);
}

void fm_remote_read_locals(struct fm_remote *r, uint32_t tid, struct fm_locals *to)
{
	size_t kept = 0;
	for (size_t i = 0; i < to->items.n; i++)
		if (to->items.items[i].tid != tid)
			to->items.items[kept++] = to->items.items[i];
	to->items.n = kept;
	struct values v = { .r = r,
			    .types = &fm_py_type_layouts[r->python.row.is_free_threaded],
			    .at = fm_py_locals_of(&r->python.row) };
	for (uint32_t i = 0; i < r->frame_addrs.n && i < MAX_FRAMES; i++)
		take_frame(&v, r->frame_addrs.items[i], &(struct fm_local){ .tid = tid, .frame = i }, to);
	fm_buf_deinit(&v.text);
}
