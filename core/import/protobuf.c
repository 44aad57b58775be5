// SPDX-License-Identifier: Apache-2.0
#include "import/protobuf.h"

#define MAX_HEAD 20 // a tag and a length or number, ten bytes each

// Tag, and the number or the length of the bytes. The cursor stands behind it.
static bool take_head(struct fm_cursor *c, struct fm_pb_field *ret, uint64_t *ret_len)
{
	uint64_t tag = fm_cursor_varint(c);
	*ret = (struct fm_pb_field){ .number = (uint32_t)(tag >> 3), .wire = tag & 7 };
	*ret_len = 0;
	if (ret->wire == FM_PB_VARINT)
		ret->value = fm_cursor_varint(c);
	else if (ret->wire == FM_PB_64)
		ret->value = fm_cursor_u64(c);
	else if (ret->wire == FM_PB_32)
		ret->value = fm_cursor_u32(c);
	else if (ret->wire == FM_PB_BYTES)
		*ret_len = fm_cursor_varint(c);
	else
		fm_cursor_fail(c, FM_E_CORRUPT); // groups are in no format of ours
	if (!ret->number || tag >> 32)
		fm_cursor_fail(c, FM_E_CORRUPT);
	return !c->err;
}

bool fm_pb_next_of_input(struct fm_input *in, struct fm_pb_field *ret, const char **ret_error)
{
	size_t n;
	uint64_t len;
	const uint8_t *p = fm_input_peek(in, MAX_HEAD, &n);
	struct fm_cursor c = fm_cursor_over(p, FM_MIN(n, (size_t)MAX_HEAD));
	if (!n)
		return false;
	if (!take_head(&c, ret, &len)) {
		*ret_error = n < MAX_HEAD ? "the message is cut off here" : "there should be a field of a message here";
		return false;
	}
	size_t head = (size_t)(c.pos - p);
	if (ret->wire == FM_PB_BYTES) {
		if (len > FM_INPUT_MAX_PEEK - MAX_HEAD) {
			*ret_error = "a field is longer than any profile's";
			return false;
		}
		p = fm_input_peek(in, head + len, &n);
		if (n < head + len) {
			*ret_error = "the message is cut off in the field that begins here";
			return false;
		}
		ret->body = fm_cursor_over(p + head, len);
	}
	fm_input_skip(in, head + len);
	return true;
}

bool fm_pb_next(struct fm_cursor *message, struct fm_pb_field *ret)
{
	uint64_t len;
	if (message->err || !fm_cursor_left(message) || !take_head(message, ret, &len))
		return false;
	const uint8_t *body = fm_cursor_bytes(message, len);
	ret->body = fm_cursor_over(body ? body : (const uint8_t *)"", body ? len : 0);
	return !message->err;
}

bool fm_pb_number(struct fm_pb_field *f, uint64_t *ret)
{
	if (f->wire == FM_PB_BYTES) {
		if (!fm_cursor_left(&f->body))
			return false;
		*ret = fm_cursor_varint(&f->body);
		return !f->body.err;
	}
	if (!f->number)
		return false;
	*ret = f->value;
	f->number = 0; // there is only this one
	return true;
}
