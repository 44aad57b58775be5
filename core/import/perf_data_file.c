// SPDX-License-Identifier: Apache-2.0
// The frame of perf.data: its header, its table of events, and one record after the other, packed
// or not.
#include "import/perf_data.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define HEADER_BYTES 104u
#define PIPE_HEADER_BYTES 16u
#define RECORD_HEAD_BYTES 8u
#define MIN_ATTR_BYTES 64u // the first version's
#define MAX_ATTR_BYTES 4096u
// What comes before the data: the table of events and their ids.
#define MAX_FRONT_BYTES FM_INPUT_MAX_PEEK
// One packed record holds what perf read at once: a buffer of the kernel's.
#define MAX_UNPACKED_BYTES ((size_t)64 << 20)

enum attr_flag { // bits of perf_event_attr
	ATTR_EXCLUDE_KERNEL = 5,
	ATTR_FREQ = 10,
	ATTR_SAMPLE_ID_ALL = 18,
};

static enum fm_perf_kind kind_of(uint32_t type, uint64_t config)
{
	if (type == PERF_TYPE_SOFTWARE && (config == PERF_COUNT_SW_CPU_CLOCK || config == PERF_COUNT_SW_TASK_CLOCK))
		return FM_PERF_TIME;
	if (type == PERF_TYPE_SOFTWARE && config == PERF_COUNT_SW_CONTEXT_SWITCHES)
		return FM_PERF_SWITCH;
	// The upper half says which kind of CPU it is, where a machine has several.
	if (type == PERF_TYPE_HARDWARE && (uint32_t)config == PERF_COUNT_HW_CPU_CYCLES)
		return FM_PERF_CYCLES;
	return FM_PERF_OTHER;
}

bool fm_perf_file_add_attr(struct fm_perf_file *f, struct fm_cursor *c, struct fm_cursor *ids)
{
	struct fm_perf_attr a = { 0 };
	if (f->attrs.n == FM_PERF_MAX_ATTRS || fm_cursor_left(c) < MIN_ATTR_BYTES)
		return false;
	a.type = fm_cursor_u32(c);
	uint32_t size = fm_cursor_u32(c);
	a.config = fm_cursor_u64(c);
	a.period = fm_cursor_u64(c);
	a.sample_type = fm_cursor_u64(c);
	a.read_format = fm_cursor_u64(c);
	uint64_t flags = fm_cursor_u64(c);
	fm_cursor_bytes(c, 24); // wakeup_events, bp_type, config1, config2
	// Younger fields are missing in files of older kernels.
	struct fm_cursor young = *c;
	if (size > 72)
		a.branch_sample_type = fm_cursor_u64(&young);
	if (size > 80)
		a.regs_user = fm_cursor_u64(&young);
	if (size > 88)
		a.stack_bytes = fm_cursor_u32(&young);
	fm_cursor_u32(&young); // clockid
	if (size > 96)
		a.regs_intr = fm_cursor_u64(&young);
	fm_cursor_u32(&young); // aux_watermark
	if (size > 108)
		a.max_chain = fm_cursor_u16(&young);
	a.is_freq = flags >> ATTR_FREQ & 1;
	a.has_sample_id = flags >> ATTR_SAMPLE_ID_ALL & 1;
	a.is_exclude_kernel = flags >> ATTR_EXCLUDE_KERNEL & 1;
	a.event.kind = kind_of(a.type, a.config);
	for (; fm_cursor_left(ids) >= 8 && f->n_ids < FM_PERF_MAX_IDS; f->n_ids++)
		*fm_map_at(&f->ids, fm_cursor_u64(ids), NULL) = f->attrs.n;
	fm_vec_push(&f->attrs, a);
	return true;
}

// The table of events, all of which lies before the data.
static enum fm_err read_attrs(struct fm_perf_file *f, struct fm_import *in, const uint8_t *front, size_t n,
			      uint64_t attr_bytes, uint64_t table_at, uint64_t table_bytes)
{
	if (attr_bytes < MIN_ATTR_BYTES + 16 || attr_bytes > MAX_ATTR_BYTES || table_at > n ||
	    table_bytes > n - table_at)
		return fm_import_bad_byte(in, "the table of events is not where the header says");
	for (uint64_t at = table_at; at + attr_bytes <= table_at + table_bytes; at += attr_bytes) {
		struct fm_cursor attr = fm_cursor_over(front + at, attr_bytes - 16);
		struct fm_cursor place = fm_cursor_over(front + at + attr_bytes - 16, 16);
		uint64_t ids_at = fm_cursor_u64(&place), ids_bytes = fm_cursor_u64(&place);
		if (ids_at > n || ids_bytes > n - ids_at)
			return fm_import_bad_byte(in, "the ids of an event are not where the table says");
		struct fm_cursor ids = fm_cursor_over(front + ids_at, ids_bytes);
		if (!fm_perf_file_add_attr(f, &attr, &ids))
			return fm_import_bad_byte(in, "its table of events is longer than perf's");
	}
	return FM_OK;
}

enum fm_err fm_perf_file_open(struct fm_perf_file *f, struct fm_import *in)
{
	size_t n;
	f->input = in->input;
	fm_buf_reserve(&f->record, UINT16_MAX); // also for one without a body
	const uint8_t *p = fm_input_peek(f->input, HEADER_BYTES, &n);
	if (n < PIPE_HEADER_BYTES)
		return fm_import_bad_byte(in, "perf's header is cut off");
	if (p[0] == '2')
		return fm_diag_set(in->diag, FM_E_UNSUPPORTED, "%s was written on a machine of the other byte order",
				   in->path);
	struct fm_cursor c = fm_cursor_over(p + 8, FM_MIN(n, (size_t)HEADER_BYTES) - 8);
	uint64_t size = fm_cursor_u64(&c);
	f->is_pipe = size == PIPE_HEADER_BYTES;
	if (f->is_pipe) {
		f->data_start = PIPE_HEADER_BYTES;
		f->data_bytes = UINT64_MAX;
		return FM_OK;
	}
	uint64_t attr_bytes = fm_cursor_u64(&c);
	uint64_t table_at = fm_cursor_u64(&c), table_bytes = fm_cursor_u64(&c);
	f->data_start = fm_cursor_u64(&c);
	f->data_bytes = fm_cursor_u64(&c);
	fm_cursor_bytes(&c, 16); // names of events, in files of 2009
	for (size_t i = 0; i < FM_ARRAY_LEN(f->feature_bits); i++)
		f->feature_bits[i] = fm_cursor_u64(&c);
	if (size != HEADER_BYTES || c.err)
		return fm_import_bad_byte(in, "perf's header has another length");
	if (f->data_start < HEADER_BYTES || f->data_start > MAX_FRONT_BYTES)
		return fm_import_bad_byte(in, "its data begins where perf never puts it");
	f->is_unfinished = !f->data_bytes;
	if (f->is_unfinished)
		f->data_bytes = UINT64_MAX;
	p = fm_input_peek(f->input, f->data_start, &n);
	return read_attrs(f, in, p, FM_MIN(n, (size_t)f->data_start), attr_bytes, table_at, table_bytes);
}

void fm_perf_file_close(struct fm_perf_file *f)
{
	for (size_t i = 0; i < f->attrs.n; i++)
		fm_perf_event_deinit(&f->attrs.items[i].event);
	fm_vec_deinit(&f->attrs);
	fm_map_deinit(&f->ids);
	fm_arena_deinit(&f->arena);
	ZSTD_freeDCtx(f->zstd);
	fm_buf_deinit(&f->unpacked);
	fm_buf_deinit(&f->record);
	fm_map_deinit(&f->build_id_of);
	fm_vec_deinit(&f->build_ids);
}

void fm_perf_file_to_data(struct fm_perf_file *f)
{
	fm_input_rewind(f->input);
	fm_input_skip(f->input, f->data_start);
	f->data_left = f->data_bytes;
	f->unpacked.len = f->unpacked_pos = 0;
	f->packed_bytes = f->unpacked_bytes = 0;
	if (f->zstd)
		ZSTD_DCtx_reset(f->zstd, ZSTD_reset_session_only);
}

// ---- Records ----

static enum fm_err unpack(struct fm_perf_file *f, const uint8_t *bytes, size_t n)
{
	if (!f->zstd)
		f->zstd = ZSTD_createDCtx();
	f->has_packed = true;
	// What is left is the beginning of a record that goes on here.
	if (f->unpacked_pos)
		memmove(f->unpacked.data, f->unpacked.data + f->unpacked_pos, f->unpacked.len - f->unpacked_pos);
	f->unpacked.len -= f->unpacked_pos;
	f->unpacked_pos = 0;
	f->packed_bytes += n;
	ZSTD_inBuffer in = { bytes, n, 0 };
	size_t step = ZSTD_DStreamOutSize();
	for (bool is_more = true; is_more;) {
		fm_buf_reserve(&f->unpacked, step);
		ZSTD_outBuffer out = { f->unpacked.data + f->unpacked.len, step, 0 };
		size_t status = f->zstd ? ZSTD_decompressStream(f->zstd, &out, &in) : (size_t)-1;
		if (ZSTD_isError(status) || f->unpacked.len + out.pos > MAX_UNPACKED_BYTES)
			return FM_E_CORRUPT;
		f->unpacked.len += out.pos;
		f->unpacked_bytes += out.pos;
		f->is_bomb = fm_input_is_bomb(f->unpacked_bytes, f->packed_bytes);
		if (f->is_bomb)
			return FM_E_CORRUPT;
		is_more = in.pos < in.size || out.pos == step;
	}
	return FM_OK;
}

// A record of those that were unpacked last. FM_E_END: no whole one is left.
static enum fm_err next_unpacked(struct fm_perf_file *f, struct fm_perf_record *ret)
{
	if (f->unpacked.len - f->unpacked_pos < RECORD_HEAD_BYTES)
		return FM_E_END;
	struct fm_cursor c = fm_cursor_over(f->unpacked.data + f->unpacked_pos, f->unpacked.len - f->unpacked_pos);
	ret->type = fm_cursor_u32(&c);
	ret->misc = fm_cursor_u16(&c);
	uint16_t size = fm_cursor_u16(&c);
	if (size < RECORD_HEAD_BYTES)
		return FM_E_CORRUPT;
	if (size - RECORD_HEAD_BYTES > fm_cursor_left(&c))
		return FM_E_END;
	ret->body = fm_cursor_over(c.pos, size - RECORD_HEAD_BYTES);
	ret->offset = UINT64_MAX;
	f->unpacked_pos += size;
	return FM_OK;
}

static void pass(struct fm_perf_file *f, uint64_t n)
{
	n = FM_MIN(n, f->data_left);
	fm_input_skip(f->input, n);
	if (f->data_left != UINT64_MAX)
		f->data_left -= n;
}

// Two records have bytes behind them that their own length does not count.
static uint64_t bytes_behind(const struct fm_perf_record *r)
{
	struct fm_cursor c = r->body;
	if (r->type == FM_PERF_TRACING_DATA)
		return (fm_cursor_u32(&c) + 7ull) & ~7ull;
	return r->type == FM_PERF_AUXTRACE ? fm_cursor_u64(&c) : 0;
}

// The packed bytes of a record that is one.
static enum fm_err unpack_record(struct fm_perf_file *f, const struct fm_perf_record *r)
{
	struct fm_cursor c = r->body;
	uint64_t n = r->type == FM_PERF_COMPRESSED2 ? fm_cursor_u64(&c) : fm_cursor_left(&c);
	const uint8_t *bytes = fm_cursor_bytes(&c, n);
	return bytes ? unpack(f, bytes, n) : FM_E_CORRUPT;
}

enum fm_err fm_perf_file_next(struct fm_perf_file *f, struct fm_perf_record *ret)
{
	for (;;) {
		size_t n;
		enum fm_err err = next_unpacked(f, ret);
		if (err != FM_E_END)
			return err;
		const uint8_t *p = fm_input_peek(f->input, RECORD_HEAD_BYTES, &n);
		n = (size_t)FM_MIN((uint64_t)n, f->data_left);
		if (n < RECORD_HEAD_BYTES)
			return n || fm_input_error(f->input) || (f->data_left && f->data_left != UINT64_MAX)
				       ? FM_E_TRUNCATED
				       : FM_E_END;
		struct fm_cursor c = fm_cursor_over(p, RECORD_HEAD_BYTES);
		ret->type = fm_cursor_u32(&c);
		ret->misc = fm_cursor_u16(&c);
		uint16_t size = fm_cursor_u16(&c);
		if (size < RECORD_HEAD_BYTES)
			return FM_E_CORRUPT;
		p = fm_input_peek(f->input, size, &n);
		n = (size_t)FM_MIN((uint64_t)n, f->data_left);
		if (n < size)
			return FM_E_TRUNCATED;
		f->record.len = 0; // the source's own bytes live until it is asked again, which is now
		fm_buf_bytes(&f->record, p + RECORD_HEAD_BYTES, size - RECORD_HEAD_BYTES);
		ret->body = fm_cursor_over(f->record.data, f->record.len);
		ret->offset = fm_input_offset(f->input);
		pass(f, size);
		pass(f, bytes_behind(ret));
		if (ret->type != FM_PERF_COMPRESSED && ret->type != FM_PERF_COMPRESSED2)
			return FM_OK;
		err = unpack_record(f, ret);
		if (err)
			return err;
	}
}
