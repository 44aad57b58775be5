// SPDX-License-Identifier: Apache-2.0
#include "format/sites.h"

#include <stdlib.h>

#include "format/record.h"

enum fm_err fm_site_batch_get(struct fm_cursor *body, struct fm_site_batch *ret)
{
	struct fm_site_batch b = { .process_id = fm_record_get_id(body) };
	b.n = fm_record_get_id(body);
	for (unsigned i = 0; i < FM_N_SITE_COLUMNS; i++) // the last one takes room, so that n is bounded by the length
		b.columns[i] = fm_column_get(body, b.n, i == FM_N_SITE_COLUMNS - 1);
	if (body->err)
		return body->err;
	*ret = b;
	return FM_OK;
}

enum fm_err fm_site_batch_next(struct fm_site_batch *b, struct fm_site *ret)
{
	if (b->pos == b->n)
		return FM_E_NOT_FOUND;
	uint64_t v[FM_N_SITE_COLUMNS];
	for (unsigned i = 0; i < FM_N_SITE_COLUMNS; i++)
		fm_column_decode(&b->columns[i], b->n, b->pos, 1, &v[i]);
	b->pos++;
	b->stack_id += v[FM_SITE_STACK];
	if (b->stack_id > UINT32_MAX || v[FM_SITE_STACK] > UINT32_MAX || v[FM_SITE_DOMAIN] >= FM_N_ALLOC_DOMAINS ||
	    v[FM_SITE_HELD] > UINT8_MAX)
		return FM_E_CORRUPT;
	*ret = (struct fm_site){
		.process_id = b->process_id,
		.stack_id = (uint32_t)b->stack_id,
		.domain = (uint8_t)v[FM_SITE_DOMAIN],
		.alloc_bytes = v[FM_SITE_PEAK] + v[FM_SITE_TURNOVER],
		.n_allocs = v[FM_SITE_ALLOCS],
		.n_frees = v[FM_SITE_ALLOCS] - v[FM_SITE_LEFT],
		.live_bytes = v[FM_SITE_PEAK] - v[FM_SITE_GIVEN],
		.peak_bytes = v[FM_SITE_PEAK],
		.at_peak_bytes = v[FM_SITE_PEAK] - v[FM_SITE_MISSED],
		.held = (uint8_t)v[FM_SITE_HELD],
	};
	return FM_OK;
}

void fm_sites_pending_deinit(struct fm_sites_pending *p)
{
	fm_vec_deinit(&p->sites);
	fm_buf_deinit(&p->body);
	fm_buf_deinit(&p->scratch);
}

// By process and stack; of two that say the same, the later stays the later.
static int compare(const void *pa, const void *pb)
{
	const struct fm_site *const *a = pa, *const *b = pb;
	if ((*a)->process_id != (*b)->process_id)
		return ((*a)->process_id > (*b)->process_id) - ((*a)->process_id < (*b)->process_id);
	if ((*a)->stack_id != (*b)->stack_id)
		return ((*a)->stack_id > (*b)->stack_id) - ((*a)->stack_id < (*b)->stack_id);
	return (*a > *b) - (*a < *b);
}

static void put_batch(struct fm_sites_pending *p, const struct fm_site *const *sites, uint32_t n, struct fm_buf *raw)
{
	p->scratch.len = 0;
	fm_buf_reserve(&p->scratch, (size_t)n * sizeof(uint64_t));
	uint64_t *values = (uint64_t *)(void *)p->scratch.data; // from malloc: aligned
	p->body.len = 0;
	fm_buf_varint(&p->body, sites[0]->process_id);
	fm_buf_varint(&p->body, n);
	for (unsigned column = 0; column < FM_N_SITE_COLUMNS; column++) {
		for (uint32_t i = 0; i < n; i++) {
			const struct fm_site *s = sites[i];
			const uint64_t fields[FM_N_SITE_COLUMNS] = {
				[FM_SITE_STACK] = s->stack_id - (i ? sites[i - 1]->stack_id : 0),
				[FM_SITE_PEAK] = s->peak_bytes,
				[FM_SITE_TURNOVER] = s->alloc_bytes - s->peak_bytes,
				[FM_SITE_GIVEN] = s->peak_bytes - s->live_bytes,
				[FM_SITE_MISSED] = s->peak_bytes - s->at_peak_bytes,
				[FM_SITE_ALLOCS] = s->n_allocs,
				[FM_SITE_LEFT] = s->n_allocs - s->n_frees,
				[FM_SITE_HELD] = s->held,
				[FM_SITE_DOMAIN] = s->domain,
			};
			values[i] = fields[column];
		}
		fm_column_put(&p->body, values, n, column == FM_N_SITE_COLUMNS - 1);
	}
	fm_record_put(raw, FM_RECORD_SITES, &p->body, NULL, 0);
}

void fm_sites_pending_put(struct fm_sites_pending *p, struct fm_buf *raw)
{
	size_t n = p->sites.n;
	if (!n)
		return;
	const struct fm_site **order = fm_alloc(n * sizeof(*order));
	for (size_t i = 0; i < n; i++)
		order[i] = &p->sites.items[i];
	qsort(order, n, sizeof(*order), compare);
	for (size_t i = 0, k; i < n; i += k) {
		for (k = 1; i + k < n && order[i + k]->process_id == order[i]->process_id;)
			k++;
		put_batch(p, &order[i], (uint32_t)k, raw);
	}
	free(order);
	p->sites.n = 0;
}
