// SPDX-License-Identifier: Apache-2.0
#include "aggregate/compare/zone_pairs.h"

#include <stdlib.h>

#include "aggregate/compare/runs.h"

static enum fm_err read_trace(struct fm_trace_stats **ret, const struct fm_analysis *a, struct fm_diag *diag)
{
	if (!fm_analysis_may_have_trace(a))
		return FM_OK;
	struct fm_trace_stats *stats = fm_trace_stats_create(a->profile);
	const struct fm_observer observer = fm_trace_stats_observer(stats);
	enum fm_err err = fm_reader_replay(a->reader, &observer, diag);
	fm_trace_stats_finish(stats);
	*ret = stats;
	return err;
}

static void add(struct fm_zone_pairs *p, struct fm_intern *keys, int side)
{
	const struct fm_trace_stats *stats = p->stats[side];
	for (size_t i = 0; stats && i < stats->functions.n; i++) {
		const struct fm_traced_function *f = &stats->functions.items[i];
		struct fm_str file = fm_runs_file(f->file);
		struct fm_buf key = { 0 };
		bool is_new;
		if (!f->spans.n)
			continue;
		fm_buf_u8(&key, f->kind);
		fm_buf_bytes(&key, file.p, file.len);
		fm_buf_u8(&key, 0);
		fm_buf_bytes(&key, f->name.p, f->name.len);
		uint32_t id = fm_intern_id(keys, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
		fm_buf_deinit(&key);
		if (is_new)
			fm_vec_push(&p->items,
				    (struct fm_zone_pair){
					    .kind = f->kind, .name = f->name, .file = f->file, .line = f->line });
		fm_durations_merge(&p->items.items[id].spans[side], &f->spans);
	}
}

enum fm_err fm_zone_pairs_build(struct fm_zone_pairs *p, const struct fm_analysis *base, const struct fm_analysis *a,
				struct fm_diag *diag)
{
	enum fm_err err = read_trace(&p->stats[0], base, diag);
	if (!err)
		err = read_trace(&p->stats[1], a, diag);
	if (err)
		return err;
	struct fm_intern keys = { 0 };
	// The new capture first: what both have has its place.
	add(p, &keys, 1);
	add(p, &keys, 0);
	fm_intern_deinit(&keys);
	return FM_OK;
}

void fm_zone_pairs_deinit(struct fm_zone_pairs *p)
{
	for (size_t i = 0; i < p->items.n; i++)
		for (int side = 0; side < 2; side++)
			free(p->items.items[i].spans[side].buckets);
	fm_vec_deinit(&p->items);
	for (int side = 0; side < 2; side++)
		fm_trace_stats_destroy(p->stats[side]);
}
