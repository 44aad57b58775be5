// SPDX-License-Identifier: Apache-2.0
// fathom diff --json: schema fathom.diff/1.
#include "base/json.h"
#include "render/shared/compare.h"

static void write_change(struct fm_json *j, const char *key, const struct fm_change *c)
{
	fm_json_object(j, key);
	fm_json_real(j, "base", c->base.mean);
	fm_json_real(j, "new", c->new.mean);
	fm_json_real(j, "base_spread", c->base.spread);
	fm_json_real(j, "new_spread", c->new.spread);
	fm_json_real(j, "change", c->delta);
	fm_json_real(j, "change_plus_minus", c->plus_minus);
	fm_json_real(j, "p", c->p);
	fm_json_bool(j, "significant", c->is_significant);
	fm_json_end(j);
}

static void write_rows(struct fm_json *j, const char *key, const struct fm_diff_row *rows, size_t n, bool is_line,
		       const char *unit)
{
	fm_json_array(j, key);
	for (size_t i = 0; i < n; i++) {
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_str(j, is_line ? "function" : "name", rows[i].row->name);
		fm_json_str(j, "file", rows[i].row->file);
		fm_json_u64(j, "line", rows[i].row->line);
		if (is_line)
			fm_json_str(j, "source", rows[i].row->text);
		fm_json_bool(j, "in_base", rows[i].is_in_base);
		fm_json_bool(j, "in_new", rows[i].is_in_new);
		write_change(j, unit, &rows[i].change);
		fm_json_end(j);
	}
	fm_json_end(j);
}

void fm_compare_rows_json(struct fm_json *j, const struct fm_diff *d)
{
	write_rows(j, "functions", d->functions.items, d->functions.n, false, "seconds");
	fm_json_newline(j);
	write_rows(j, "lines", d->lines.items, d->lines.n, true, "seconds");
	fm_json_newline(j);
	write_rows(j, "memory_functions", d->memory_functions.items, d->memory_functions.n, false, "peak_bytes");
	fm_json_newline(j);
	write_rows(j, "memory_lines", d->memory_lines.items, d->memory_lines.n, true, "peak_bytes");
}

void fm_compare_diff_json(FILE *out, const struct fm_diff *d, const struct fm_runs *base, const struct fm_runs *new)
{
	struct fm_json j;
	fm_json_init(&j, out);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.diff/1"));
	fm_json_u64(&j, "base_runs", base->n);
	fm_json_u64(&j, "new_runs", new->n);
	fm_json_bool(&j, "same_command", fm_compare_same_command(base, new));
	fm_json_bool(&j, "sampling_only", d->is_sampling_only);
	fm_json_newline(&j);
	write_change(&j, "wall_s", &d->wall_s);
	fm_json_newline(&j);
	write_change(&j, "cpu_s", &d->cpu_s);
	fm_json_newline(&j);
	write_change(&j, "max_rss_bytes", &d->max_rss_bytes);
	fm_json_newline(&j);
	fm_compare_rows_json(&j, d);
	fm_json_end(&j);
	fm_json_newline(&j);
}
