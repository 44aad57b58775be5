// SPDX-License-Identifier: Apache-2.0
#include "format/memory.h"

#include <stdlib.h>

#include "format/record.h"

enum fm_err fm_memory_batch_get(struct fm_cursor *body, bool is_frees, struct fm_memory_batch *ret)
{
	struct fm_memory_batch b = { .is_frees = is_frees };
	b.thread_id = fm_record_get_id(body);
	b.n = fm_record_get_id(body);
	b.time_ns = fm_cursor_varint(body);
	unsigned n_columns = is_frees ? FM_N_FREE_COLUMNS : FM_N_ALLOC_COLUMNS;
	for (unsigned i = 0; i < n_columns; i++) // the last one takes room, so that n is bounded by the length
		b.columns[i] = fm_column_get(body, b.n, i == n_columns - 1);
	if (body->err)
		return body->err;
	*ret = b;
	return FM_OK;
}

static uint32_t decode(struct fm_memory_batch *b, unsigned n_columns, uint64_t values[][FM_MEMORY_RUN])
{
	uint32_t n = FM_MIN(b->n - b->pos, (uint32_t)FM_MEMORY_RUN);
	for (unsigned i = 0; i < n_columns; i++)
		fm_column_decode(&b->columns[i], b->n, b->pos, n, values[i]);
	b->pos += n;
	return n;
}

enum fm_err fm_memory_batch_allocs(struct fm_memory_batch *batch, struct fm_alloc *ret, uint32_t *ret_n)
{
	uint64_t values[FM_N_ALLOC_COLUMNS][FM_MEMORY_RUN];
	uint32_t n = decode(batch, FM_N_ALLOC_COLUMNS, values);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t stack = values[FM_ALLOC_STACK][i], domain = values[FM_ALLOC_DOMAIN][i];
		if (stack > UINT32_MAX || domain >= FM_N_ALLOC_DOMAINS)
			return FM_E_CORRUPT;
		batch->time_ns += fm_unzigzag(values[FM_ALLOC_TIME][i]);
		ret[i] = (struct fm_alloc){
			.thread_id = batch->thread_id,
			.stack_id = (uint32_t)stack,
			.time_ns = batch->time_ns,
			.id = domain == FM_ALLOC_COPY ? 0 : values[FM_ALLOC_ID][i],
			.size = values[FM_ALLOC_SIZE][i],
			.weight = values[FM_ALLOC_SIZE][i] + values[FM_ALLOC_EXTRA][i],
			.domain = (uint8_t)domain,
		};
	}
	*ret_n = n;
	return FM_OK;
}

enum fm_err fm_memory_batch_frees(struct fm_memory_batch *batch, struct fm_free *ret, uint32_t *ret_n)
{
	uint64_t values[FM_N_FREE_COLUMNS][FM_MEMORY_RUN];
	uint32_t n = decode(batch, FM_N_FREE_COLUMNS, values);
	for (uint32_t i = 0; i < n; i++) {
		batch->time_ns += fm_unzigzag(values[FM_FREE_TIME][i]);
		ret[i] = (struct fm_free){ batch->thread_id, batch->time_ns, values[FM_FREE_ID][i] };
	}
	*ret_n = n;
	return FM_OK;
}

void fm_memory_pending_deinit(struct fm_memory_pending *p)
{
	fm_vec_deinit(&p->allocs);
	fm_vec_deinit(&p->frees);
	fm_vec_deinit(&p->order);
	fm_buf_deinit(&p->facts);
	fm_buf_deinit(&p->body);
	fm_buf_deinit(&p->scratch);
}

static int compare_u64(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
	return (a > b) - (a < b);
}

static uint64_t *scratch_columns(struct fm_memory_pending *p, size_t n)
{
	p->scratch.len = 0;
	fm_buf_reserve(&p->scratch, n * sizeof(uint64_t));
	return (uint64_t *)(void *)p->scratch.data; // from malloc: aligned
}

// order[0 .. n-1] are events of one thread: (thread << 32 | index).
static void put_allocs(struct fm_memory_pending *p, const uint64_t *order, uint32_t n)
{
	uint64_t *values = scratch_columns(p, (size_t)n * FM_N_ALLOC_COLUMNS);
	const struct fm_alloc *first = &p->allocs.items[(uint32_t)order[0]];
	uint64_t previous_ns = first->time_ns, previous_id = first->id;
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_alloc *a = &p->allocs.items[(uint32_t)order[i]];
		values[FM_ALLOC_TIME * (size_t)n + i] = fm_zigzag(a->time_ns - previous_ns);
		values[FM_ALLOC_STACK * (size_t)n + i] = a->stack_id;
		values[FM_ALLOC_SIZE * (size_t)n + i] = a->size;
		values[FM_ALLOC_EXTRA * (size_t)n + i] = a->weight - a->size;
		previous_id = a->domain == FM_ALLOC_COPY ? previous_id : a->id;
		values[FM_ALLOC_ID * (size_t)n + i] = previous_id;
		values[FM_ALLOC_DOMAIN * (size_t)n + i] = a->domain;
		previous_ns = a->time_ns;
	}
	fm_buf_varint(&p->body, first->thread_id);
	fm_buf_varint(&p->body, n);
	fm_buf_varint(&p->body, first->time_ns);
	for (unsigned c = 0; c < FM_N_ALLOC_COLUMNS; c++)
		fm_column_put(&p->body, values + (size_t)c * n, n, c == FM_N_ALLOC_COLUMNS - 1);
}

static void put_frees(struct fm_memory_pending *p, const uint64_t *order, uint32_t n)
{
	uint64_t *times = scratch_columns(p, (size_t)n * FM_N_FREE_COLUMNS), *ids = times + n;
	const struct fm_free *first = &p->frees.items[(uint32_t)order[0]];
	uint64_t previous_ns = first->time_ns;
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_free *f = &p->frees.items[(uint32_t)order[i]];
		times[i] = fm_zigzag(f->time_ns - previous_ns);
		ids[i] = f->id;
		previous_ns = f->time_ns;
	}
	fm_buf_varint(&p->body, first->thread_id);
	fm_buf_varint(&p->body, n);
	fm_buf_varint(&p->body, first->time_ns);
	fm_column_put(&p->body, times, n, 0);
	fm_column_put(&p->body, ids, n, 1);
}

// Events sorted by thread, in their order within each, one record a thread.
static void put_events(struct fm_memory_pending *p, struct fm_buf *raw, enum fm_record_type type,
		       void (*put)(struct fm_memory_pending *, const uint64_t *, uint32_t))
{
	if (p->order.n)
		qsort(p->order.items, p->order.n, sizeof(uint64_t), compare_u64);
	for (size_t i = 0, n; i < p->order.n; i += n) {
		for (n = 1; i + n < p->order.n && p->order.items[i + n] >> 32 == p->order.items[i] >> 32;)
			n++;
		p->body.len = 0;
		put(p, &p->order.items[i], (uint32_t)n);
		fm_record_put(raw, type, &p->body, NULL, 0);
	}
	p->order.n = 0;
}

void fm_memory_pending_put(struct fm_memory_pending *p, struct fm_buf *raw)
{
	fm_buf_bytes(raw, p->facts.data, p->facts.len);
	p->facts.len = 0;
	for (size_t i = 0; i < p->allocs.n; i++)
		fm_vec_push(&p->order, (uint64_t)p->allocs.items[i].thread_id << 32 | i);
	put_events(p, raw, FM_RECORD_ALLOCS, put_allocs);
	p->allocs.n = 0;
	for (size_t i = 0; i < p->frees.n; i++)
		fm_vec_push(&p->order, (uint64_t)p->frees.items[i].thread_id << 32 | i);
	put_events(p, raw, FM_RECORD_FREES, put_frees);
	p->frees.n = 0;
}

void fm_memory_level_put(struct fm_buf *out, const struct fm_memory_level *l)
{
	const uint64_t fields[] = { l->process_id, l->time_ns,        l->heap_bytes,     l->heap_high_bytes,
				    l->rss_bytes,  l->rss_anon_bytes, l->rss_file_bytes, l->rss_shmem_bytes,
				    l->pss_bytes,  l->swap_bytes,     l->cgroup_bytes,   l->cgroup_limit_bytes };
	for (size_t i = 0; i < FM_ARRAY_LEN(fields); i++)
		fm_buf_varint(out, fields[i]);
}

struct fm_memory_level fm_memory_level_get(struct fm_cursor *c)
{
	struct fm_memory_level l = { .process_id = fm_record_get_id(c) };
	uint64_t *fields[] = { &l.time_ns,        &l.heap_bytes,     &l.heap_high_bytes,   &l.rss_bytes,
			       &l.rss_anon_bytes, &l.rss_file_bytes, &l.rss_shmem_bytes,   &l.pss_bytes,
			       &l.swap_bytes,     &l.cgroup_bytes,   &l.cgroup_limit_bytes };
	for (size_t i = 0; i < FM_ARRAY_LEN(fields); i++)
		*fields[i] = fm_cursor_varint(c);
	return l;
}
