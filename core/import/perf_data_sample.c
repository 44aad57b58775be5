// SPDX-License-Identifier: Apache-2.0
// One record of the kernel's: which fields it has, and in which order, the bits of its event tell
// (perf_event_open(2)).
#include "import/perf_data.h"

// Younger than some of the headers that this is built with.
#define FORMAT_LOST (1u << 4)
#define SAMPLE_AUX (1u << 20)
#define SAMPLE_CGROUP (1u << 21)
#define SAMPLE_DATA_PAGE_SIZE (1u << 22)
#define SAMPLE_CODE_PAGE_SIZE (1u << 23)
#define SAMPLE_WEIGHT_STRUCT (1u << 24)
#define BRANCH_HW_INDEX (1u << 17)
#define BRANCH_COUNTERS (1u << 19)

// The event of an id; without ids, the only layout there is.
static const struct fm_perf_attr *attr_of(const struct fm_perf_file *f, uint64_t id)
{
	const uint64_t *at = fm_map_find(&f->ids, id);
	return at ? &f->attrs.items[*at] : NULL;
}

// Files of several events have their ids where each reader finds them: first in a sample, last in
// other records (PERF_SAMPLE_IDENTIFIER), or all events have the same fields before the id.
static const struct fm_perf_attr *attr_of_sample(const struct fm_perf_file *f, struct fm_cursor c)
{
	if (f->attrs.n < 2)
		return f->attrs.n ? f->attrs.items : NULL;
	uint64_t bits = f->attrs.items[0].sample_type;
	if (!(bits & PERF_SAMPLE_IDENTIFIER)) {
		if (!(bits & PERF_SAMPLE_ID))
			return f->attrs.items;
		static const uint64_t before[] = { PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
						   PERF_SAMPLE_ADDR };
		for (size_t i = 0; i < FM_ARRAY_LEN(before); i++)
			if (bits & before[i])
				fm_cursor_u64(&c);
	}
	return attr_of(f, fm_cursor_u64(&c));
}

static void skip_read_values(struct fm_cursor *c, uint64_t format)
{
	uint64_t each = 1u + !!(format & PERF_FORMAT_ID) + !!(format & FORMAT_LOST), n = 1;
	if (format & PERF_FORMAT_GROUP)
		n = fm_cursor_u64(c);
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		fm_cursor_u64(c);
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		fm_cursor_u64(c);
	if (n > fm_cursor_left(c) / 8)
		fm_cursor_fail(c, FM_E_CORRUPT);
	fm_cursor_bytes(c, c->err ? 0 : n * each * 8);
}

// An array with its length in front, whose entries have so many bytes.
static const uint8_t *take_array(struct fm_cursor *c, uint64_t n, unsigned entry_bytes)
{
	if (n > fm_cursor_left(c) / entry_bytes)
		fm_cursor_fail(c, FM_E_CORRUPT);
	return fm_cursor_bytes(c, c->err ? 0 : n * entry_bytes);
}

static void take_branches(struct fm_cursor *c, const struct fm_perf_attr *a, struct fm_perf_sample *s)
{
	uint64_t n = fm_cursor_u64(c);
	if (a->branch_sample_type & BRANCH_HW_INDEX)
		fm_cursor_u64(c);
	s->branches = take_array(c, n, 24);
	s->n_branches = s->branches ? n : 0;
	if (a->branch_sample_type & BRANCH_COUNTERS)
		take_array(c, n, 8);
}

static uint64_t take_regs(struct fm_cursor *c, uint64_t mask, const uint8_t **ret)
{
	uint64_t abi = fm_cursor_u64(c);
	*ret = abi ? fm_cursor_bytes(c, (uint64_t)__builtin_popcountll(mask) * 8) : NULL;
	return *ret ? abi : 0;
}

static void take_stack(struct fm_cursor *c, struct fm_perf_sample *s)
{
	uint64_t n = fm_cursor_u64(c);
	if (!n)
		return;
	s->stack = take_array(c, n, 1);
	uint64_t used = fm_cursor_u64(c); // the rest is padding
	s->stack_bytes = s->stack ? FM_MIN(n, used) : 0;
}

static void take_first_half(struct fm_cursor *c, const struct fm_perf_attr *a, struct fm_perf_sample *s)
{
	uint64_t bits = a->sample_type;
	if (bits & PERF_SAMPLE_IDENTIFIER)
		fm_cursor_u64(c);
	if (bits & PERF_SAMPLE_IP)
		s->ip = fm_cursor_u64(c);
	if (bits & PERF_SAMPLE_TID) {
		s->pid = fm_cursor_u32(c);
		s->tid = fm_cursor_u32(c);
	}
	s->has_time = bits & PERF_SAMPLE_TIME;
	if (s->has_time)
		s->time_ns = fm_cursor_u64(c);
	if (bits & PERF_SAMPLE_ADDR)
		fm_cursor_u64(c);
	if (bits & PERF_SAMPLE_ID)
		fm_cursor_u64(c);
	if (bits & PERF_SAMPLE_STREAM_ID)
		fm_cursor_u64(c);
	s->has_cpu = bits & PERF_SAMPLE_CPU;
	if (s->has_cpu) {
		s->cpu = fm_cursor_u32(c);
		fm_cursor_u32(c);
	}
	s->period = a->is_freq ? 0 : a->period;
	if (bits & PERF_SAMPLE_PERIOD)
		s->period = fm_cursor_u64(c);
	if (bits & PERF_SAMPLE_READ)
		skip_read_values(c, a->read_format);
}

static void take_second_half(struct fm_cursor *c, const struct fm_perf_attr *a, struct fm_perf_sample *s)
{
	uint64_t bits = a->sample_type;
	const uint8_t *regs_intr;
	if (bits & PERF_SAMPLE_CALLCHAIN) {
		uint64_t n = fm_cursor_u64(c);
		s->chain = take_array(c, n, 8);
		s->n_chain = s->chain ? n : 0;
	}
	if (bits & PERF_SAMPLE_RAW) {
		uint32_t n = fm_cursor_u32(c);
		fm_cursor_bytes(c, n);
	}
	if (bits & PERF_SAMPLE_BRANCH_STACK)
		take_branches(c, a, s);
	if (bits & PERF_SAMPLE_REGS_USER)
		s->regs_abi = take_regs(c, a->regs_user, &s->regs);
	if (bits & PERF_SAMPLE_STACK_USER)
		take_stack(c, s);
	static const uint64_t words[] = { PERF_SAMPLE_WEIGHT | SAMPLE_WEIGHT_STRUCT, PERF_SAMPLE_DATA_SRC,
					  PERF_SAMPLE_TRANSACTION };
	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++)
		if (bits & words[i])
			fm_cursor_u64(c);
	if (bits & PERF_SAMPLE_REGS_INTR)
		take_regs(c, a->regs_intr, &regs_intr);
	static const uint64_t last_words[] = { PERF_SAMPLE_PHYS_ADDR, SAMPLE_CGROUP, SAMPLE_DATA_PAGE_SIZE,
					       SAMPLE_CODE_PAGE_SIZE };
	for (size_t i = 0; i < FM_ARRAY_LEN(last_words); i++)
		if (bits & last_words[i])
			fm_cursor_u64(c);
	if (bits & SAMPLE_AUX) {
		uint64_t n = fm_cursor_u64(c);
		take_array(c, n, 1);
	}
}

enum fm_err fm_perf_sample_read(const struct fm_perf_file *f, const struct fm_perf_record *r,
				struct fm_perf_sample *ret)
{
	struct fm_cursor c = r->body;
	*ret = (struct fm_perf_sample){ .attr = attr_of_sample(f, c) };
	if (!ret->attr)
		return FM_OK;
	take_first_half(&c, ret->attr, ret);
	take_second_half(&c, ret->attr, ret);
	return c.err ? FM_E_CORRUPT : FM_OK;
}

void fm_perf_id_read(const struct fm_perf_file *f, const struct fm_perf_record *r, struct fm_perf_sample *ret)
{
	static const uint64_t fields[] = { PERF_SAMPLE_TID,       PERF_SAMPLE_TIME, PERF_SAMPLE_ID,
					   PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU,  PERF_SAMPLE_IDENTIFIER };
	*ret = (struct fm_perf_sample){ .attr = f->attrs.n ? f->attrs.items : NULL };
	size_t n = fm_cursor_left(&r->body);
	if (!ret->attr || n < 8)
		return;
	if (f->attrs.n > 1 && ret->attr->sample_type & PERF_SAMPLE_IDENTIFIER) {
		const struct fm_perf_attr *own = attr_of(f, fm_perf_u64(r->body.end - 8, 0));
		ret->attr = own ? own : ret->attr;
	}
	uint64_t bits = ret->attr->sample_type, n_words = 0;
	for (size_t i = 0; i < FM_ARRAY_LEN(fields); i++)
		n_words += !!(bits & fields[i]);
	if (!ret->attr->has_sample_id || n < n_words * 8)
		return;
	struct fm_cursor c = fm_cursor_over(r->body.end - n_words * 8, n_words * 8);
	if (bits & PERF_SAMPLE_TID) {
		ret->pid = fm_cursor_u32(&c);
		ret->tid = fm_cursor_u32(&c);
	}
	ret->has_time = bits & PERF_SAMPLE_TIME;
	if (ret->has_time)
		ret->time_ns = fm_cursor_u64(&c);
	if (bits & PERF_SAMPLE_ID)
		fm_cursor_u64(&c);
	if (bits & PERF_SAMPLE_STREAM_ID)
		fm_cursor_u64(&c);
	ret->has_cpu = bits & PERF_SAMPLE_CPU;
	if (ret->has_cpu)
		ret->cpu = fm_cursor_u32(&c);
}
