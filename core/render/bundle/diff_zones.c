// SPDX-License-Identifier: Apache-2.0
// What a comparison says of zones: sums and lengths of both captures, under the names that one capture's
// have (render/bundle/trace.c), those of the base with base_ before.
#include "aggregate/compare/zone_pairs.h"
#include "render/bundle/part.h"

static void add_sums(struct fm_columns *columns, const struct fm_zone_pairs *p, int side)
{
	static const char *const names[2][4] = {
		{ "what.base_spans", "what.base_sum_s", "what.base_min_s", "what.base_max_s" },
		{ "what.spans", "what.sum_s", "what.min_s", "what.max_s" },
	};
	double *column[4];
	for (int k = 0; k < 4; k++)
		column[k] = fm_columns_f64(columns, names[side][k], p->items.n);
	for (size_t i = 0; i < p->items.n; i++) {
		const struct fm_durations *spans = &p->items.items[i].spans[side];
		column[0][i] = (double)spans->n;
		column[1][i] = fm_seconds(spans->sum_ns);
		column[2][i] = fm_seconds(spans->min_ns);
		column[3][i] = fm_seconds(spans->max_ns);
	}
}

static uint64_t count_at(const struct fm_zone_pair *pair, int side, unsigned bucket)
{
	return pair->spans[side].buckets ? pair->spans[side].buckets[bucket] : 0;
}

static bool has_bucket(const struct fm_zone_pair *pair, unsigned bucket)
{
	return count_at(pair, 0, bucket) || count_at(pair, 1, bucket);
}

static void add_durations(struct fm_columns *columns, const struct fm_zone_pairs *p)
{
	size_t n = 0, at = 0;
	for (size_t i = 0; i < p->items.n; i++)
		for (unsigned k = 0; k < FM_DURATION_BUCKETS; k++)
			n += has_bucket(&p->items.items[i], k);
	uint32_t *what = fm_columns_u32(columns, "duration.what", n);
	double *from = fm_columns_f64(columns, "duration.from_s", n);
	double *to = fm_columns_f64(columns, "duration.to_s", n);
	uint32_t *count = fm_columns_u32(columns, "duration.n", n);
	uint32_t *base_count = fm_columns_u32(columns, "duration.base_n", n);
	for (uint32_t i = 0; i < p->items.n; i++)
		for (unsigned k = 0; k < FM_DURATION_BUCKETS; k++) {
			const struct fm_zone_pair *pair = &p->items.items[i];
			if (!has_bucket(pair, k))
				continue;
			what[at] = i;
			from[at] = fm_seconds(fm_duration_bucket_from(k));
			to[at] = fm_seconds(fm_duration_bucket_from(k + 1));
			count[at] = (uint32_t)FM_MIN(count_at(pair, 1, k), UINT32_MAX);
			base_count[at++] = (uint32_t)FM_MIN(count_at(pair, 0, k), UINT32_MAX);
		}
}

void fm_bundle_add_zone_pairs(struct fm_columns *columns, struct fm_string_table *text, const struct fm_zone_pairs *p)
{
	size_t n = p->items.n;
	if (!n)
		return;
	uint32_t *name = fm_columns_u32(columns, "what.name", n);
	uint32_t *function = fm_columns_u32(columns, "what.function", n);
	uint8_t *kind = fm_columns_u8(columns, "what.kind", n);
	uint32_t *file = fm_columns_u32(columns, "what.file", n);
	uint32_t *line = fm_columns_u32(columns, "what.line", n);
	for (size_t i = 0; i < n; i++) {
		const struct fm_zone_pair *pair = &p->items.items[i];
		name[i] = fm_string_table_name(text, pair->name);
		function[i] = FM_NO_ID;
		kind[i] = pair->kind == FM_TRACE_ZONE ? FM_BUNDLE_ZONE : FM_BUNDLE_CALL;
		file[i] = fm_string_table_name(text, pair->file);
		line[i] = pair->line;
	}
	for (int side = 0; side < 2; side++)
		add_sums(columns, p, side);
	add_durations(columns, p);
}
