// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tally/weight.h"
#include "aggregate/compare/runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/student.h"
#include "base/hash.h"

struct fm_mean fm_figure_mean(const struct fm_figure *f, unsigned n)
{
	struct fm_mean m = { .df = FM_STUDENT_NORMAL };
	if (!n)
		return m;
	m.mean = f->sum / n;
	m.var = f->sampling_var / n / n;
	m.plus_minus = fm_student_t(0.05, m.df) * sqrt(m.var);
	if (n < 2)
		return m;
	double sum = f->sum_sq - n * m.mean * m.mean;
	m.spread = sqrt(fmax(sum, 0) / (n - 1));
	// Few runs can agree by accident: they are never surer than their samples, whichever is the
	// wider interval.
	double between = fm_student_t(0.05, n - 1) * m.spread / sqrt(n);
	if (between >= m.plus_minus) {
		m.plus_minus = between;
		m.var = m.spread * m.spread / n;
		m.df = n - 1;
	}
	return m;
}

static void figure_add(struct fm_figure *f, double value, double plus_minus)
{
	f->sum += value;
	f->sum_sq += value * value;
	f->sampling_var += plus_minus * plus_minus / (FM_Z_95 * FM_Z_95);
}

struct fm_str fm_runs_file(struct fm_str path)
{
	const char *slash = path.len ? memrchr(path.p, '/', path.len) : NULL;
	if (!slash || slash + 1 == path.p + path.len)
		return path;
	return (struct fm_str){ slash + 1, (uint32_t)(path.p + path.len - slash - 1) };
}

static void make_key(struct fm_buf *b, const struct fm_run_row *row, bool is_line)
{
	fm_buf_u8(b, is_line ? 'l' : 'f');
	fm_buf_bytes(b, row->file.p, row->file.len);
	fm_buf_u8(b, 0);
	fm_buf_bytes(b, row->name.p, row->name.len);
	fm_buf_u8(b, 0);
	if (!is_line)
		return;
	// Lines move when others are inserted before them: they are known by their text where there
	// is one.
	if (row->text.len)
		fm_buf_bytes(b, row->text.p, row->text.len);
	else
		fm_buf_printf(b, "%u", row->line);
}

static struct fm_str keep(struct fm_runs *r, struct fm_str s)
{
	return (struct fm_str){ fm_arena_strdup(&r->arena, s.p, s.len), s.len };
}

// Values of one run are gathered first: functions of one name and lines of one text are one row,
// and the square is of their sum.

struct gather {
	struct fm_runs *runs;
	bool is_line, is_memory;
	FM_VEC(double) values, squares; // by row
};

static void gather_add(struct gather *g, struct fm_run_row *like, double value, double plus_minus)
{
	struct fm_runs *r = g->runs;
	struct fm_buf key = { 0 };
	if (r->renamed.len && fm_str_eq(like->file, r->renamed))
		like->file = r->renamed_to;
	make_key(&key, like, g->is_line);
	bool is_new;
	uint32_t id = fm_intern_id(&r->keys, (struct fm_str){ (char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	fm_vec_grow_to(&r->rows, (size_t)id + 1);
	if (is_new) {
		struct fm_run_row row = { .name = keep(r, like->name),
					  .file = keep(r, like->file),
					  .text = keep(r, like->text) };
		r->rows.items[id] = (uint32_t)(g->is_line ? r->lines.n : r->functions.n);
		if (g->is_line)
			fm_vec_push(&r->lines, row);
		else
			fm_vec_push(&r->functions, row);
	}
	uint32_t at = r->rows.items[id];
	struct fm_run_row *row = g->is_line ? &r->lines.items[at] : &r->functions.items[at];
	row->line = like->line;
	row->is_users |= like->is_users;
	if (!fm_str_eq(row->path, like->path))
		row->path = keep(r, like->path);
	fm_vec_grow_to(&g->values, (size_t)at + 1);
	fm_vec_grow_to(&g->squares, (size_t)at + 1);
	g->values.items[at] += value;
	g->squares.items[at] += plus_minus * plus_minus;
}

static void gather_end(struct gather *g)
{
	for (size_t i = 0; i < g->values.n; i++) {
		struct fm_run_row *row = g->is_line ? &g->runs->lines.items[i] : &g->runs->functions.items[i];
		figure_add(g->is_memory ? &row->peak_bytes : &row->seconds, g->values.items[i],
			   sqrt(g->squares.items[i]));
	}
	fm_vec_deinit(&g->values);
	fm_vec_deinit(&g->squares);
}

// The text of a line without indentation; "" when the profile has no source for it.
struct sources {
	const struct fm_profile *profile;
	struct fm_map by_file;        // file id -> index + 1 into starts' lists, 0 = none
	FM_VEC(const char **) starts; // per file: where each line begins, and the end of the text
	FM_VEC(uint32_t) n_lines;
};

static void index_source(struct sources *s, struct fm_str text)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < text.len; i++)
		n += text.p[i] == '\n';
	const char **starts = fm_alloc((n + 2) * sizeof(*starts)), *p = text.p;
	for (uint32_t i = 0; i <= n; i++) {
		starts[i] = p;
		const char *newline = memchr(p, '\n', (size_t)(text.p + text.len - p));
		p = newline ? newline + 1 : text.p + text.len;
	}
	starts[n + 1] = text.p + text.len;
	fm_vec_push(&s->starts, starts);
	fm_vec_push(&s->n_lines, n + 1);
}

static struct fm_str source_of(struct sources *s, const struct fm_function *f, uint32_t line)
{
	bool is_new;
	uint64_t *slot = fm_map_at(&s->by_file, f->file_id, &is_new);
	for (size_t i = 0; is_new && i < s->profile->sources.n; i++)
		if (fm_str_eq(s->profile->sources.items[i].filename, f->file)) {
			index_source(s, s->profile->sources.items[i].text);
			*slot = s->starts.n;
			break;
		}
	if (!*slot || !line || line > s->n_lines.items[*slot - 1])
		return FM_STR_LIT("");
	const char *p = s->starts.items[*slot - 1][line - 1], *end = s->starts.items[*slot - 1][line];
	while (p < end && strchr(" \t\r\n", *p) && *p)
		p++;
	while (end > p && strchr(" \t\r\n", end[-1]) && end[-1])
		end--;
	return (struct fm_str){ p, (uint32_t)(end - p) };
}

static struct fm_run_row like_function(const struct fm_analysis *a, const struct fm_summary *t, uint32_t function_id)
{
	const struct fm_function *f = fm_analysis_function(a, function_id);
	return (struct fm_run_row){ .name = f->name,
				    .file = fm_runs_file(f->file.len ? f->file : f->path),
				    .text = FM_STR_LIT(""),
				    .line = f->line,
				    .path = f->file,
				    .is_users = fm_summary_is_users(t, function_id) };
}

static struct fm_run_row like_line(const struct fm_analysis *a, const struct fm_summary *t, struct sources *sources,
				   uint32_t function_id, uint32_t line)
{
	const struct fm_function *f = fm_analysis_function(a, function_id);
	return (struct fm_run_row){ .name = f->name,
				    .file = fm_runs_file(f->file),
				    .text = source_of(sources, f, line),
				    .line = line,
				    .path = f->file,
				    .is_users = fm_summary_is_users(t, function_id) };
}

static void add_time(struct fm_runs *r, const struct fm_analysis *a, const struct fm_summary *t,
		     struct sources *sources)
{
	struct gather g = { .runs = r };
	for (size_t i = 0; i < t->functions.n; i++) {
		const struct fm_function_row *row = &t->functions.items[i];
		struct fm_run_row like = like_function(a, t, row->function_id);
		gather_add(&g, &like, fm_seconds(fm_weight_cpu_ns(&row->total)),
			   fm_summary_plus_minus_s(t, &row->total));
	}
	gather_end(&g);
	g = (struct gather){ .runs = r, .is_line = true };
	for (size_t i = 0; i < t->lines.n; i++) {
		const struct fm_line_row *row = &t->lines.items[i];
		struct fm_run_row like = like_line(a, t, sources, row->function_id, row->line);
		gather_add(&g, &like, fm_seconds(fm_weight_cpu_ns(&row->weight)),
			   fm_summary_plus_minus_s(t, &row->weight));
	}
	gather_end(&g);
}

static void add_memory(struct fm_runs *r, const struct fm_analysis *a, const struct fm_summary *t,
		       struct sources *sources)
{
	struct gather g = { .runs = r, .is_memory = true };
	for (size_t i = 0; i < a->heap.functions.n; i++) {
		const struct fm_heap_function_row *row = &a->heap.functions.items[i];
		struct fm_run_row like = like_function(a, t, row->function_id);
		gather_add(&g, &like, (double)row->self.peak_bytes, fm_heap_plus_minus(row->self.peak_var));
	}
	gather_end(&g);
	g = (struct gather){ .runs = r, .is_line = true, .is_memory = true };
	for (size_t i = 0; i < a->heap.lines.n; i++) {
		const struct fm_heap_line_row *row = &a->heap.lines.items[i];
		struct fm_run_row like = like_line(a, t, sources, row->function_id, row->line);
		gather_add(&g, &like, (double)row->f.peak_bytes, fm_heap_plus_minus(row->f.peak_var));
	}
	gather_end(&g);
	r->n_with_memory += a->heap.is_there;
}

void fm_runs_add(struct fm_runs *r, const struct fm_analysis *a, const struct fm_summary *t,
		 const struct fm_run_totals *totals)
{
	if (!r->n++)
		r->command = keep(r, totals->command);
	r->n_cut += a->profile->is_truncated;
	r->sample_sq += t->total.n ? t->total.cpu_sq / (double)t->total.n : 0;
	r->block_sq += totals->block_bytes * totals->block_bytes;
	figure_add(&r->wall_s, totals->wall_s, 0);
	figure_add(&r->cpu_s, totals->cpu_s, 0);
	figure_add(&r->max_rss_bytes, totals->max_rss_bytes, 0);
	struct fm_run_totals one = *totals;
	one.command = FM_STR_LIT("");
	fm_vec_push(&r->each, one);
	struct sources sources = { .profile = a->profile };
	add_time(r, a, t, &sources);
	add_memory(r, a, t, &sources);
	for (size_t i = 0; i < sources.starts.n; i++)
		free(sources.starts.items[i]);
	fm_vec_deinit(&sources.starts);
	fm_vec_deinit(&sources.n_lines);
	fm_map_deinit(&sources.by_file);
}

const struct fm_run_row *fm_runs_find(const struct fm_runs *r, const struct fm_run_row *like, bool is_line)
{
	struct fm_buf key = { 0 };
	make_key(&key, like, is_line);
	uint32_t id = fm_intern_find(&r->keys, (struct fm_str){ (char *)key.data, (uint32_t)key.len });
	fm_buf_deinit(&key);
	if (id >= r->rows.n)
		return NULL;
	return is_line ? &r->lines.items[r->rows.items[id]] : &r->functions.items[r->rows.items[id]];
}

bool fm_runs_has_users(const struct fm_runs *r)
{
	for (size_t i = 0; i < r->functions.n; i++)
		if (r->functions.items[i].is_users)
			return true;
	return false;
}

void fm_runs_deinit(struct fm_runs *r)
{
	fm_vec_deinit(&r->functions);
	fm_vec_deinit(&r->lines);
	fm_vec_deinit(&r->rows);
	fm_vec_deinit(&r->each);
	fm_intern_deinit(&r->keys);
	fm_arena_deinit(&r->arena);
	*r = (struct fm_runs){ 0 };
}
