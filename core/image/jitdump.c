// SPDX-License-Identifier: Apache-2.0
#include "image/jit.h"

#include <stdlib.h>

#include "base/cursor.h"

enum { CODE_LOAD = 0, CODE_MOVE = 1, CODE_DEBUG_INFO = 2, CODE_CLOSE = 3, CODE_UNWINDING_INFO = 4 };

#define HEADER_BYTES 40u
#define RECORD_BYTES 16u // id, total size, time
// A record holds one function's code; larger ones are damage.
#define MAX_RECORD_BYTES (64u << 20)

void fm_jitdump_deinit(struct fm_jitdump *d)
{
	fm_buf_deinit(&d->debug_info);
	fm_buf_deinit(&d->unwinding);
	*d = (struct fm_jitdump){ 0 };
}

// A NUL-terminated string, borrowed.
static struct fm_str take_name(struct fm_cursor *c)
{
	size_t left = fm_cursor_left(c);
	const uint8_t *nul = left ? memchr(c->pos, 0, left) : NULL;
	if (!nul) {
		fm_cursor_fail(c, FM_E_TRUNCATED);
		return (struct fm_str){ "", 0 };
	}
	uint32_t len = (uint32_t)(nul - c->pos);
	const uint8_t *p = fm_cursor_bytes(c, (uint64_t)len + 1);
	return (struct fm_str){ (const char *)p, len };
}

static void add_lines(struct fm_jitdump *d, const struct fm_code_range *range, struct fm_code_ranges *ranges)
{
	struct fm_cursor c = fm_cursor_over(d->debug_info.data, d->debug_info.len);
	struct fm_str file = { "", 0 };
	uint64_t start = range->start, end = range->end;
	for (uint64_t i = 0; i < d->n_debug_entries && !c.err; i++) {
		uint64_t addr = fm_cursor_u64(&c);
		uint32_t line = fm_cursor_u32(&c);
		fm_cursor_u32(&c); // discriminator
		struct fm_str name = take_name(&c);
		if (c.err)
			break;
		// perf's own writers say "the same file" with the bytes ff 00.
		if (!(name.len == 1 && (uint8_t)name.p[0] == 0xff))
			file = name;
		if (addr >= start && addr < end)
			fm_code_ranges_add_line(ranges, addr, line, file);
	}
	d->n_bad_records += c.err != 0;
}

static void take_load(struct fm_jitdump *d, struct fm_cursor *c, uint32_t owner, struct fm_code_ranges *ranges,
		      fm_jitdump_unwind_fn unwind, void *ctx)
{
	fm_cursor_u32(c); // pid
	fm_cursor_u32(c); // tid
	fm_cursor_u64(c); // vma: where it was made; it runs at
	uint64_t addr = fm_cursor_u64(c);
	uint64_t size = fm_cursor_u64(c);
	fm_cursor_u64(c); // index
	struct fm_str name = take_name(c);
	if (c->err)
		return;
	struct fm_code_range *range = fm_code_ranges_add(ranges, addr, size, name, owner);
	if (range && d->debug_info.len && d->debug_addr >= addr && d->debug_addr - addr < size)
		add_lines(d, range, ranges);
	if (range && unwind && d->unwinding.len && d->eh_frame_hdr_size <= d->unwinding.len)
		// perf lays the table behind the code, on the next multiple of 8; its addresses are
		// counted from there.
		unwind(ctx, addr, size, d->unwinding.data, d->unwinding.len - d->eh_frame_hdr_size,
		       (addr + size + 7) & ~7ull);
	d->debug_info.len = d->unwinding.len = 0;
}

static void take_move(struct fm_cursor *c, uint32_t owner, struct fm_code_ranges *ranges)
{
	fm_cursor_u32(c);
	fm_cursor_u32(c);
	fm_cursor_u64(c);
	uint64_t from = fm_cursor_u64(c);
	uint64_t to = fm_cursor_u64(c);
	uint64_t size = fm_cursor_u64(c);
	const struct fm_code_range *old = c->err ? NULL : fm_code_ranges_find(ranges, from);
	if (old)
		fm_code_ranges_add(ranges, to, size, old->name, owner);
}

static void take_debug_info(struct fm_jitdump *d, struct fm_cursor *c)
{
	d->debug_addr = fm_cursor_u64(c);
	d->n_debug_entries = fm_cursor_u64(c);
	d->debug_info.len = 0;
	if (!c->err)
		fm_buf_bytes(&d->debug_info, c->pos, fm_cursor_left(c));
}

static void take_unwinding_info(struct fm_jitdump *d, struct fm_cursor *c)
{
	uint64_t size = fm_cursor_u64(c);
	d->eh_frame_hdr_size = fm_cursor_u64(c);
	fm_cursor_u64(c); // mapped size
	d->unwinding.len = 0;
	const uint8_t *bytes = fm_cursor_bytes(c, size);
	if (bytes)
		fm_buf_bytes(&d->unwinding, bytes, size);
}

static enum fm_err take_header(struct fm_jitdump *d, struct fm_cursor *c)
{
	if (fm_cursor_left(c) < HEADER_BYTES)
		return FM_E_TRUNCATED;
	struct fm_cursor h = *c;
	uint32_t magic = fm_cursor_u32(&h);
	uint32_t version = fm_cursor_u32(&h);
	uint32_t size = fm_cursor_u32(&h);
	if (magic != FM_JITDUMP_MAGIC || version != 1 || size < HEADER_BYTES || size > 4096)
		return FM_E_BAD_MAGIC;
	if (fm_cursor_left(c) < size)
		return FM_E_TRUNCATED;
	fm_cursor_bytes(c, size);
	d->has_header = true;
	return FM_OK;
}

enum fm_err fm_jitdump_parse(struct fm_jitdump *d, const uint8_t *data, size_t len, uint32_t owner,
			     struct fm_code_ranges *ranges, fm_jitdump_unwind_fn unwind, void *ctx, size_t *ret_used)
{
	struct fm_cursor c = fm_cursor_over(data, len);
	*ret_used = 0;
	if (!d->has_header) {
		enum fm_err err = take_header(d, &c);
		if (err)
			return err == FM_E_TRUNCATED ? FM_OK : err;
		*ret_used = (size_t)(c.pos - data);
	}
	while (!d->is_closed && fm_cursor_left(&c) >= RECORD_BYTES) {
		struct fm_cursor head = c;
		uint32_t id = fm_cursor_u32(&head);
		uint32_t size = fm_cursor_u32(&head);
		fm_cursor_u64(&head);
		if (size < RECORD_BYTES || size > MAX_RECORD_BYTES)
			return FM_E_CORRUPT;
		if (size > fm_cursor_left(&c))
			break;
		struct fm_cursor body = fm_cursor_over(c.pos + RECORD_BYTES, size - RECORD_BYTES);
		if (id == CODE_LOAD)
			take_load(d, &body, owner, ranges, unwind, ctx);
		else if (id == CODE_MOVE)
			take_move(&body, owner, ranges);
		else if (id == CODE_DEBUG_INFO)
			take_debug_info(d, &body);
		else if (id == CODE_UNWINDING_INFO)
			take_unwinding_info(d, &body);
		else if (id == CODE_CLOSE)
			d->is_closed = true;
		d->n_bad_records += body.err != 0;
		fm_cursor_bytes(&c, size);
		*ret_used = (size_t)(c.pos - data);
	}
	return FM_OK;
}
