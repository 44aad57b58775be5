// SPDX-License-Identifier: Apache-2.0
#include "collect/ingest/sites.h"

#include <stdlib.h>

void fm_histories_deinit(struct fm_histories *c)
{
	fm_vec_deinit(&c->histories);
	fm_vec_deinit(&c->of_site);
}

// Every second look goes; the last one stays.
static void thin(struct fm_histories *c)
{
	for (uint32_t i = 0; i < FM_HISTORY_LOOKS / 2; i++)
		c->look_ns[i] = c->look_ns[2 * i + 1];
	for (size_t k = 0; k < c->histories.n; k++) {
		struct fm_history *history = &c->histories.items[k];
		for (uint32_t i = 0; i < FM_HISTORY_LOOKS / 2; i++) {
			history->alloc_bytes[i] = history->alloc_bytes[2 * i + 1];
			history->live_bytes[i] = history->live_bytes[2 * i + 1];
		}
		history->first /= 2;
	}
	c->n_looks = FM_HISTORY_LOOKS / 2;
	c->stride *= 2;
}

void fm_histories_look(struct fm_histories *c, const struct fm_wire_site *sites, uint32_t n, uint64_t now_ns,
		       bool is_last)
{
	c->stride = FM_MAX(c->stride, 1u);
	if (++c->n_skipped < c->stride && !is_last)
		return;
	c->n_skipped = 0;
	if (c->n_looks == FM_HISTORY_LOOKS)
		thin(c);
	uint32_t look = c->n_looks++;
	c->look_ns[look] = now_ns;
	fm_vec_grow_to(&c->of_site, n);
	for (uint32_t i = 0; i < n && c->histories.n < FM_HISTORY_MAX; i++)
		if (!c->of_site.items[i] && sites[i].live_bytes >= FM_HISTORY_MIN_BYTES) {
			fm_vec_push(&c->histories, ((struct fm_history){ .site = i, .first = look }));
			c->of_site.items[i] = (uint32_t)c->histories.n;
		}
	for (size_t k = 0; k < c->histories.n; k++) {
		struct fm_history *history = &c->histories.items[k];
		const struct fm_wire_site *s = &sites[history->site];
		// Each a word, never torn; but they may be from either side of an event: the reader
		// takes what fits.
		history->alloc_bytes[look] = s->alloc_bytes;
		history->live_bytes[look] = FM_MIN(s->live_bytes, history->alloc_bytes[look]);
	}
}

bool fm_histories_add(const struct fm_histories *c, uint32_t site, struct fm_history_point *to)
{
	uint32_t nth = site < c->of_site.n ? c->of_site.items[site] : 0;
	if (!nth)
		return false;
	const struct fm_history *history = &c->histories.items[nth - 1];
	for (uint32_t i = history->first; i < c->n_looks; i++) {
		to[i].alloc_bytes += history->alloc_bytes[i];
		to[i].live_bytes += history->live_bytes[i];
	}
	return true;
}
