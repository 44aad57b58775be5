// SPDX-License-Identifier: Apache-2.0
#include "format/record.h"

void fm_record_put(struct fm_buf *out, enum fm_record_type type, const struct fm_buf *head, const void *body,
		   size_t body_len)
{
	fm_buf_varint(out, type);
	fm_buf_varint(out, head->len + body_len);
	fm_buf_bytes(out, head->data, head->len);
	fm_buf_bytes(out, body, body_len);
}

enum fm_err fm_record_next(struct fm_cursor *chunk, uint64_t *ret_type, struct fm_cursor *ret_body)
{
	if (!chunk->err && !fm_cursor_left(chunk))
		return FM_E_END;
	uint64_t type = fm_cursor_varint(chunk);
	uint64_t len = fm_cursor_varint(chunk);
	const uint8_t *body = fm_cursor_bytes(chunk, len);
	if (chunk->err)
		return chunk->err;
	*ret_type = type;
	*ret_body = fm_cursor_over(body, (size_t)len);
	return FM_OK;
}

void fm_record_put_str(struct fm_buf *out, struct fm_str s)
{
	fm_buf_varint(out, s.len);
	fm_buf_bytes(out, s.p, s.len);
}

void fm_record_put_batch(struct fm_buf *out, struct fm_record_batch batch)
{
	fm_buf_varint(out, batch.first_id);
	fm_buf_varint(out, batch.n);
}

enum fm_err fm_record_get_batch(struct fm_cursor *c, struct fm_record_batch *ret)
{
	struct fm_record_batch batch;
	batch.first_id = fm_record_get_id(c);
	batch.n = fm_record_get_id(c);
	// Every entry takes at least one byte, and FM_NO_ID is no id.
	if (!c->err && (batch.n > fm_cursor_left(c) || batch.first_id > UINT32_MAX - batch.n))
		fm_cursor_fail(c, FM_E_CORRUPT);
	if (c->err)
		return c->err;
	*ret = batch;
	return FM_OK;
}

uint32_t fm_record_get_id(struct fm_cursor *c)
{
	uint64_t id = fm_cursor_varint(c);
	if (id > UINT32_MAX) {
		fm_cursor_fail(c, FM_E_CORRUPT);
		return 0;
	}
	return (uint32_t)id;
}

void fm_record_put_image(struct fm_buf *out, const struct fm_record_image *image)
{
	fm_buf_varint(out, image->path);
	fm_record_put_str(out, image->build_id);
	fm_buf_varint(out, image->flags);
}

struct fm_record_image fm_record_get_image(struct fm_cursor *c)
{
	struct fm_record_image image;
	image.path = fm_record_get_id(c);
	image.build_id = fm_cursor_str(c);
	image.flags = fm_record_get_id(c);
	return image;
}

void fm_record_put_code(struct fm_buf *out, const struct fm_record_code *code)
{
	fm_buf_varint(out, code->name);
	fm_buf_varint(out, code->qualname);
	fm_buf_varint(out, code->filename);
	fm_buf_varint(out, code->first_line);
	fm_buf_u8(out, code->line_table_kind);
	fm_record_put_str(out, code->line_table);
}

struct fm_record_code fm_record_get_code(struct fm_cursor *c)
{
	struct fm_record_code code;
	code.name = fm_record_get_id(c);
	code.qualname = fm_record_get_id(c);
	code.filename = fm_record_get_id(c);
	code.first_line = fm_record_get_id(c);
	code.line_table_kind = fm_cursor_u8(c);
	code.line_table = fm_cursor_str(c);
	return code;
}

void fm_record_put_frame(struct fm_buf *out, const struct fm_record_frame *frame)
{
	fm_buf_u8(out, frame->kind);
	fm_buf_varint(out, (uint32_t)(frame->ref + 1)); // FM_NO_ID + 1 wraps to 0: one byte instead of five
	fm_buf_varint(out, frame->value);
}

struct fm_record_frame fm_record_get_frame(struct fm_cursor *c)
{
	struct fm_record_frame frame;
	frame.kind = fm_cursor_u8(c);
	frame.ref = fm_record_get_id(c) - 1;
	frame.value = fm_cursor_varint(c);
	return frame;
}

void fm_record_put_stack(struct fm_buf *out, uint32_t own_id, uint32_t previous_frame,
			 const struct fm_record_stack *stack)
{
	fm_buf_varint(out, own_id - stack->parent);
	fm_buf_svarint(out, (int64_t)stack->frame_id - previous_frame);
}

struct fm_record_stack fm_record_get_stack(struct fm_cursor *c, uint32_t own_id, uint32_t previous_frame)
{
	uint64_t up = fm_cursor_varint(c);
	uint64_t frame = (uint64_t)fm_cursor_svarint(c) + previous_frame;
	// A parent that is not older than its child would make walks endless.
	if (!c->err && (up == 0 || up > own_id || frame >= UINT32_MAX))
		fm_cursor_fail(c, FM_E_CORRUPT);
	if (c->err)
		return (struct fm_record_stack){ 0, 0 };
	return (struct fm_record_stack){ own_id - (uint32_t)up, (uint32_t)frame };
}

void fm_record_put_link(struct fm_buf *out, const struct fm_record_link *link)
{
	fm_buf_varint(out, link->name);
	fm_buf_varint(out, link->file);
	fm_buf_varint(out, link->first_line);
	fm_buf_varint(out, (uint64_t)link->line << 1 | link->is_inlined);
}

struct fm_record_link fm_record_get_link(struct fm_cursor *c)
{
	struct fm_record_link link;
	link.name = fm_record_get_id(c);
	link.file = fm_record_get_id(c);
	link.first_line = fm_record_get_id(c);
	uint64_t line = fm_cursor_varint(c);
	if (line >> 33)
		fm_cursor_fail(c, FM_E_CORRUPT);
	link.line = (uint32_t)(line >> 1);
	link.is_inlined = line & 1;
	return link;
}
