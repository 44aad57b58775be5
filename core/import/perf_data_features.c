// SPDX-License-Identifier: Apache-2.0
// What perf.data says of itself: machine, command, names of events, build-ids. A file has it behind
// its data, a pipe has a record for each piece.
#include "import/perf_data.h"

#include <string.h>

enum feature { // HEADER_* of perf
	FEATURE_BUILD_ID = 2,
	FEATURE_HOSTNAME = 3,
	FEATURE_OSRELEASE = 4,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CPUDESC = 8,
	FEATURE_CMDLINE = 11,
	FEATURE_EVENT_DESC = 12,
	N_FEATURES = 256,
};

#define MISC_BUILD_ID_SIZE (1u << 15)
#define BUILD_ID_RECORD_BYTES 36u // its head, pid and build-id
#define UPDATE_NAME 2u
#define MAX_FEATURE_BYTES ((uint64_t)16 << 20)
#define MAX_BUILD_IDS (1u << 16)
#define MAX_KEPT_BYTES ((size_t)16 << 20) // of all texts

// Kept as long as the file. Packed records say the same as often as their writer likes.
static struct fm_str keep_all(struct fm_perf_file *f, const uint8_t *p, size_t len)
{
	if (len > MAX_KEPT_BYTES - f->kept_bytes)
		len = 0;
	f->kept_bytes += len;
	return (struct fm_str){ len ? fm_arena_strdup(&f->arena, (const char *)p, len) : "", (uint32_t)len };
}

static struct fm_str keep(struct fm_perf_file *f, const uint8_t *p, size_t n)
{
	return keep_all(f, p, p ? strnlen((const char *)p, n) : 0);
}

static struct fm_str take_string(struct fm_perf_file *f, struct fm_cursor *c)
{
	uint32_t len = fm_cursor_u32(c);
	const uint8_t *p = fm_cursor_bytes(c, len);
	return keep(f, p, len);
}

static void take_command(struct fm_perf_file *f, struct fm_cursor *c)
{
	struct fm_buf all = { 0 };
	uint32_t n = fm_cursor_u32(c);
	for (uint32_t i = 0; i < n && !c->err; i++) {
		struct fm_str arg = take_string(f, c);
		if (i)
			fm_buf_u8(&all, 0);
		fm_buf_bytes(&all, arg.p, arg.len);
	}
	if (all.len)
		f->command = keep_all(f, all.data, all.len);
	fm_buf_deinit(&all);
}

// The events once more, in the same order, with their names.
static void take_names(struct fm_perf_file *f, struct fm_cursor *c)
{
	uint32_t n = fm_cursor_u32(c), attr_bytes = fm_cursor_u32(c);
	for (uint32_t i = 0; i < n && i < f->attrs.n && !c->err; i++) {
		fm_cursor_bytes(c, attr_bytes);
		uint32_t n_ids = fm_cursor_u32(c);
		struct fm_str name = take_string(f, c);
		fm_cursor_bytes(c, (uint64_t)n_ids * 8);
		if (!c->err)
			f->attrs.items[i].event.name = name;
	}
}

static void take_build_id(struct fm_perf_file *f, uint16_t misc, struct fm_cursor *c)
{
	fm_cursor_u32(c); // pid: -1, or a guest's
	const uint8_t *id = fm_cursor_bytes(c, 24);
	size_t n = fm_cursor_left(c);
	struct fm_str path = keep(f, fm_cursor_bytes(c, n), n);
	if (!id || !path.len || f->build_ids.n == MAX_BUILD_IDS)
		return;
	struct fm_perf_build_id b = { .path = path, .len = misc & MISC_BUILD_ID_SIZE ? id[20] : 20 };
	if (b.len > sizeof(b.bytes))
		return;
	memcpy(b.bytes, id, b.len);
	fm_vec_push(&f->build_ids, b);
	*fm_map_at(&f->build_id_of, fm_hash_bytes(path.p, path.len), NULL) = f->build_ids.n;
}

static void take_build_ids(struct fm_perf_file *f, struct fm_cursor *c)
{
	while (fm_cursor_left(c) >= BUILD_ID_RECORD_BYTES) {
		fm_cursor_u32(c);
		uint16_t misc = fm_cursor_u16(c), size = fm_cursor_u16(c);
		const uint8_t *p = size < BUILD_ID_RECORD_BYTES ? NULL : fm_cursor_bytes(c, size - 8u);
		if (!p)
			return;
		struct fm_cursor one = fm_cursor_over(p, size - 8u);
		take_build_id(f, misc, &one);
	}
}

void fm_perf_feature(struct fm_perf_file *f, unsigned number, struct fm_cursor c)
{
	if (number == FEATURE_BUILD_ID)
		take_build_ids(f, &c);
	else if (number == FEATURE_HOSTNAME)
		f->host = take_string(f, &c);
	else if (number == FEATURE_OSRELEASE)
		f->release = take_string(f, &c);
	else if (number == FEATURE_ARCH)
		f->arch = take_string(f, &c);
	else if (number == FEATURE_CPUDESC)
		f->cpu = take_string(f, &c);
	else if (number == FEATURE_NRCPUS)
		f->n_cpus = fm_cursor_u32(&c);
	else if (number == FEATURE_CMDLINE)
		take_command(f, &c);
	else if (number == FEATURE_EVENT_DESC)
		take_names(f, &c);
}

// The table says where in the file each of them is; they lie behind it in the same order.
void fm_perf_features_read(struct fm_perf_file *f)
{
	uint64_t table_at = fm_input_offset(f->input);
	unsigned numbers[N_FEATURES], n = 0;
	for (unsigned i = 0; i < N_FEATURES; i++)
		if (f->feature_bits[i / 64] >> i % 64 & 1)
			numbers[n++] = i;
	size_t got;
	const uint8_t *p = fm_input_peek(f->input, n * 16u, &got);
	if (got < n * 16u)
		return;
	struct {
		uint64_t at, bytes;
	} places[N_FEATURES];
	struct fm_cursor c = fm_cursor_over(p, n * 16u);
	for (unsigned i = 0; i < n; i++) {
		places[i].at = fm_cursor_u64(&c);
		places[i].bytes = fm_cursor_u64(&c);
	}
	fm_input_skip(f->input, n * 16u);
	for (unsigned i = 0; i < n; i++) {
		uint64_t here = fm_input_offset(f->input);
		if (places[i].at < here || places[i].at < table_at || places[i].bytes > MAX_FEATURE_BYTES)
			continue;
		fm_input_skip(f->input, places[i].at - here);
		p = fm_input_peek(f->input, places[i].bytes, &got);
		if (got >= places[i].bytes)
			fm_perf_feature(f, numbers[i], fm_cursor_over(p, places[i].bytes));
	}
}

struct fm_str fm_perf_build_id(const struct fm_perf_file *f, struct fm_str path)
{
	const uint64_t *at = fm_map_find(&f->build_id_of, fm_hash_bytes(path.p, path.len));
	if (!at || !fm_str_eq(f->build_ids.items[*at - 1].path, path))
		return FM_STR_LIT("");
	const struct fm_perf_build_id *b = &f->build_ids.items[*at - 1];
	return (struct fm_str){ (const char *)b->bytes, b->len };
}

static void take_update(struct fm_perf_file *f, struct fm_cursor *c)
{
	uint64_t type = fm_cursor_u64(c), id = fm_cursor_u64(c);
	const uint64_t *attr = fm_map_find(&f->ids, id);
	size_t n = fm_cursor_left(c);
	if (type == UPDATE_NAME && attr && !c->err && n)
		f->attrs.items[*attr].event.name = keep(f, fm_cursor_bytes(c, n), n);
}

void fm_perf_pipe_record(struct fm_perf_file *f, const struct fm_perf_record *r)
{
	struct fm_cursor c = r->body;
	if (r->type == FM_PERF_HEADER_ATTR) {
		struct fm_cursor size = c;
		fm_cursor_u32(&size);
		uint32_t attr_bytes = fm_cursor_u32(&size);
		const uint8_t *p = fm_cursor_bytes(&c, attr_bytes);
		if (!p)
			return;
		struct fm_cursor attr = fm_cursor_over(p, attr_bytes);
		fm_perf_file_add_attr(f, &attr, &c);
	} else if (r->type == FM_PERF_EVENT_UPDATE) {
		take_update(f, &c);
	} else if (r->type == FM_PERF_HEADER_BUILD_ID) {
		take_build_id(f, r->misc, &c);
	} else if (r->type == FM_PERF_HEADER_FEATURE) {
		uint64_t number = fm_cursor_u64(&c);
		if (!c.err && number < N_FEATURES)
			fm_perf_feature(f, (unsigned)number, c);
	}
}
