// SPDX-License-Identifier: Apache-2.0
// Records in order of time.
#include "import/perf_data.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD_BYTES 8u

void fm_perf_order_deinit(struct fm_perf_order *o)
{
	fm_buf_deinit(&o->bytes);
	fm_vec_deinit(&o->items);
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_perf_queued *a = pa, *b = pb;
	if (a->time_ns != b->time_ns)
		return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
	return (a->seq > b->seq) - (a->seq < b->seq);
}

static void hand_out_one(struct fm_perf_order *o, const struct fm_perf_queued *q)
{
	uint8_t body[UINT16_MAX];
	const uint8_t *at = body;
	if (q->len && q->is_in_file) {
		if (pread(o->fd, body, q->len, (off_t)(q->offset + HEAD_BYTES)) != (ssize_t)q->len)
			return; // somebody has cut the file off
	} else if (q->len) {
		at = o->bytes.data + q->offset;
	}
	struct fm_perf_record r = { q->type, q->misc, fm_cursor_over(at, q->len), UINT64_MAX };
	o->each(o->ctx, &r, q->time_ns);
}

// Hands out the first n of them in order, and keeps the others.
static void hand_out(struct fm_perf_order *o, size_t n)
{
	struct fm_buf rest = { 0 };
	for (size_t i = 0; i < n; i++)
		hand_out_one(o, &o->items.items[i]);
	for (size_t i = n; i < o->items.n; i++) {
		struct fm_perf_queued *q = &o->items.items[i];
		if (q->is_in_file || !q->len)
			continue;
		size_t offset = rest.len;
		fm_buf_bytes(&rest, o->bytes.data + q->offset, q->len);
		q->offset = offset;
	}
	memmove(o->items.items, o->items.items + n, (o->items.n - n) * sizeof(*o->items.items));
	o->items.n -= n;
	fm_buf_deinit(&o->bytes);
	o->bytes = rest;
}

static void sort(struct fm_perf_order *o)
{
	qsort(o->items.items, o->items.n, sizeof(*o->items.items), compare);
}

void fm_perf_order_add(struct fm_perf_order *o, const struct fm_perf_record *r, uint64_t time_ns)
{
	if (!time_ns || time_ns == UINT64_MAX) {
		o->each(o->ctx, r, 0);
		return;
	}
	size_t len = fm_cursor_left(&r->body);
	if (o->items.n && (o->bytes.len + len > FM_PERF_MAX_QUEUE_BYTES || o->items.n == FM_PERF_MAX_QUEUED)) {
		sort(o);
		hand_out(o, o->items.n / 2 + 1);
	}
	bool is_in_file = o->fd >= 0 && r->offset != UINT64_MAX;
	fm_vec_push(&o->items, (struct fm_perf_queued){ .time_ns = time_ns,
							.offset = is_in_file ? r->offset : o->bytes.len,
							.seq = o->next_seq++,
							.type = r->type,
							.misc = r->misc,
							.len = (uint16_t)len,
							.is_in_file = is_in_file });
	if (!is_in_file)
		fm_buf_bytes(&o->bytes, r->body.pos, len);
	o->newest_ns = FM_MAX(o->newest_ns, time_ns);
}

void fm_perf_order_round(struct fm_perf_order *o)
{
	size_t n = 0;
	if (o->items.n)
		sort(o);
	while (n < o->items.n && o->items.items[n].time_ns <= o->limit_ns)
		n++;
	if (n)
		hand_out(o, n);
	o->limit_ns = o->newest_ns;
}

void fm_perf_order_end(struct fm_perf_order *o)
{
	if (!o->items.n)
		return;
	sort(o);
	hand_out(o, o->items.n);
}
