// SPDX-License-Identifier: Apache-2.0
#include "format/zones.h"

#include <stdlib.h>

#include "format/record.h"

// Deeper ones are only counted: a recursion of a million calls would fill each batch with its own
// list.
#define MAX_LISTED 4096
#define OP_BITS 3

void fm_zone_encoder_deinit(struct fm_zone_encoder *e)
{
	fm_vec_deinit(&e->starts);
	fm_vec_deinit(&e->open);
	fm_buf_deinit(&e->events);
	fm_buf_deinit(&e->head);
}

static void begin_batch(struct fm_zone_encoder *e)
{
	size_t n_listed = FM_MIN(e->open.n, (size_t)MAX_LISTED);
	e->head.len = e->events.len = 0;
	fm_buf_varint(&e->head, e->time_ns);
	fm_buf_varint(&e->head, e->open.n);
	fm_buf_varint(&e->head, n_listed);
	for (size_t i = e->open.n - n_listed; i < e->open.n; i++)
		fm_buf_varint(&e->head, e->open.items[i]);
}

// Room is there.
static inline uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

// The end of a short one right after its beginning (or after what was itself taken back): as if it
// had never been. Then the same may be true of its caller.
static bool take_back(struct fm_zone_encoder *e, uint64_t time_ns)
{
	struct fm_zone_start *start = &e->starts.items[--e->starts.n];
	if (start->batch != e->n_batches || start->after != e->events.len || !e->n ||
	    time_ns - start->begin_ns >= e->min_ns)
		return false;
	e->events.len = start->before;
	e->time_ns = start->previous_ns;
	e->open.n--;
	e->n--;
	e->n_left_out++;
	return true;
}

void fm_zone_encode(struct fm_zone_encoder *e, uint8_t op, uint32_t ref, uint64_t time_ns, double value)
{
	if (op == FM_ZONE_LEAVE && !e->open.n)
		return;
	if (op == FM_ZONE_LEAVE && e->starts.n && take_back(e, time_ns))
		return;
	if (FM_UNLIKELY(!e->n)) {
		e->time_ns = FM_MAX(time_ns, e->time_ns);
		begin_batch(e);
	}
	uint64_t delta = time_ns > e->time_ns ? time_ns - e->time_ns : 0, previous_ns = e->time_ns;
	size_t before = e->events.len;
	e->time_ns += delta;
	fm_buf_reserve(&e->events, 32); // ten bytes for each varint, eight for a value
	uint8_t *p = put_varint(e->events.data + e->events.len, delta << OP_BITS | op);
	switch (op) {
	case FM_ZONE_LEAVE:
		e->open.n--;
		break;
	case FM_ZONE_ENTER:
	case FM_ZONE_RESUME:
		p = put_varint(p, ref == FM_NO_ID ? 0 : (uint64_t)ref + 1);
		fm_vec_push(&e->open, fm_zone_ref_of(op, ref));
		break;
	case FM_ZONE_BEGIN:
		p = put_varint(p, ref);
		fm_vec_push(&e->open, fm_zone_ref_of(op, ref));
		break;
	case FM_ZONE_COUNTER:
		p = put_varint(p, ref);
		uint64_t bits;
		memcpy(&bits, &value, sizeof(bits));
		bits = htole64(bits);
		memcpy(p, &bits, sizeof(bits));
		p += sizeof(bits);
		break;
	case FM_ZONE_NOTE:
		p = put_varint(p, ref);
		p = put_varint(p, (uint64_t)value);
		if (ref == FM_ZONE_OFF)
			e->open.n = e->starts.n = 0;
		break;
	default:
		p = put_varint(p, ref);
	}
	e->events.len = (size_t)(p - e->events.data);
	e->n++;
	if (e->min_ns && (op == FM_ZONE_ENTER || op == FM_ZONE_RESUME || op == FM_ZONE_BEGIN))
		fm_vec_push(&e->starts,
			    (struct fm_zone_start){ e->n_batches, before, e->events.len, previous_ns, e->time_ns });
}

bool fm_zone_encoder_take(struct fm_zone_encoder *e, uint32_t thread_id, struct fm_buf *out)
{
	if (!e->n)
		return false;
	fm_buf_varint(out, thread_id);
	fm_buf_varint(out, e->n);
	fm_buf_bytes(out, e->head.data, e->head.len);
	fm_buf_bytes(out, e->events.data, e->events.len);
	e->n = 0;
	e->n_batches++;
	return true;
}

enum fm_err fm_zones_get(struct fm_cursor *body, struct fm_zone_batch *ret)
{
	struct fm_zone_batch b = { 0 };
	b.thread_id = fm_record_get_id(body);
	b.n = fm_record_get_id(body);
	b.time_ns = fm_cursor_varint(body);
	b.depth = fm_cursor_varint(body);
	b.n_listed = fm_record_get_id(body);
	if (!body->err && (b.n_listed > b.depth || b.n_listed > fm_cursor_left(body)))
		fm_cursor_fail(body, FM_E_CORRUPT);
	b.listed = *body;
	for (uint32_t i = 0; i < b.n_listed && !body->err; i++)
		fm_cursor_varint(body);
	if (!body->err && b.n > fm_cursor_left(body)) // an event takes a byte at least
		fm_cursor_fail(body, FM_E_CORRUPT);
	b.events = *body;
	if (body->err)
		return body->err;
	*ret = b;
	return FM_OK;
}

enum fm_err fm_zone_batch_next(struct fm_zone_batch *batch, struct fm_zone_event *ret)
{
	if (batch->pos == batch->n)
		return FM_E_END;
	struct fm_cursor *c = &batch->events;
	uint64_t first = fm_cursor_varint(c), ref = 0;
	ret->thread_id = batch->thread_id;
	ret->op = first & ((1u << OP_BITS) - 1);
	ret->time_ns = batch->time_ns += first >> OP_BITS;
	ret->value = 0;
	switch (ret->op) {
	case FM_ZONE_LEAVE:
		break;
	case FM_ZONE_ENTER:
	case FM_ZONE_RESUME:
		ref = fm_cursor_varint(c);
		ref = ref ? ref - 1 : FM_NO_ID;
		break;
	case FM_ZONE_COUNTER:
		ref = fm_cursor_varint(c);
		uint64_t bits = fm_cursor_u64(c);
		memcpy(&ret->value, &bits, sizeof(bits));
		break;
	case FM_ZONE_NOTE:
		ref = fm_cursor_varint(c);
		ret->value = (double)fm_cursor_varint(c);
		if (ref > FM_ZONE_LOST)
			fm_cursor_fail(c, FM_E_CORRUPT);
		break;
	default:
		ref = fm_cursor_varint(c);
	}
	if (FM_UNLIKELY(c->err || ref > UINT32_MAX))
		return c->err ? c->err : FM_E_CORRUPT;
	ret->ref = (uint32_t)ref;
	batch->pos++;
	return FM_OK;
}
