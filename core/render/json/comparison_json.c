// SPDX-License-Identifier: Apache-2.0
// fathom compare --json: schema fathom.compare/1.
#include "base/json.h"
#include "render/shared/compare.h"
#include "render/shared/comparison.h"

static void write_runs(struct fm_json *j, const char *key, const struct fm_runs *runs, enum fm_compared which)
{
	fm_json_array(j, key);
	for (unsigned i = 0; i < runs->n; i++)
		fm_json_real(j, NULL, fm_compared_value(&runs->each.items[i], which));
	fm_json_end(j);
}

static void write_figure(struct fm_json *j, const struct fm_comparison *c, enum fm_compared which)
{
	const struct fm_compared_figure *f = &c->figures[which];
	fm_json_newline(j);
	if (!f->is_known) {
		fm_json_null(j, fm_compared_kinds[which].key);
		return;
	}
	fm_json_object(j, fm_compared_kinds[which].key);
	fm_json_real(j, "base", f->paired.base);
	fm_json_real(j, "head", f->paired.head);
	fm_json_real(j, "change", f->paired.change);
	fm_json_real(j, "low", f->paired.low);
	fm_json_real(j, "high", f->paired.high);
	fm_json_real(j, "p", f->paired.p);
	fm_json_bool(j, "significant", f->paired.is_significant);
	if (f->limit >= 0)
		fm_json_real(j, "limit", f->limit);
	else
		fm_json_null(j, "limit");
	fm_json_bool(j, "beyond", f->is_beyond);
	write_runs(j, "base_runs", c->base, which);
	write_runs(j, "head_runs", c->head, which);
	fm_json_end(j);
}

void fm_comparison_json(FILE *out, const struct fm_comparison *c)
{
	struct fm_json j;
	struct fm_buf verdict = { 0 };
	fm_comparison_verdict(&verdict, c);
	fm_json_init(&j, out);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.compare/1"));
	fm_json_str(&j, "verdict", (struct fm_str){ (const char *)verdict.data, (uint32_t)verdict.len });
	fm_json_bool(&j, "beyond", fm_comparison_is_beyond(c));
	fm_json_str(&j, "base", fm_str_of(c->base_name));
	fm_json_str(&j, "head", fm_str_of(c->head_name));
	fm_json_u64(&j, "pairs", c->base->n);
	fm_json_array(&j, "first");
	for (unsigned i = 0; i < c->base->n; i++)
		fm_json_str(&j, NULL, c->is_head_first[i] ? FM_STR_LIT("head") : FM_STR_LIT("base"));
	fm_json_end(&j);
	for (unsigned which = 0; which < FM_N_COMPARED; which++)
		write_figure(&j, c, which);
	fm_json_str(&j, "no_instructions", fm_str_of(c->no_instructions));
	fm_json_str(&j, "doubt", fm_str_of(c->doubt));
	fm_json_newline(&j);
	fm_compare_rows_json(&j, c->diff);
	fm_json_end(&j);
	fm_json_newline(&j);
	fm_buf_deinit(&verdict);
}
