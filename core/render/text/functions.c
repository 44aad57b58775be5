// SPDX-License-Identifier: Apache-2.0
// The lists of functions: by total time, by own time, by memory.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/tally/weight.h"
#include "aggregate/tree/attribution.h"
#include "render/shared/label.h"
#include "render/shared/source_line.h"
#include "render/text/text.h"

#define DEFAULT_TOP 10
#define OWN_TOP 5
#define MIN_PERCENT 0.5            // what is less is noise in most runs
#define PASSED_ON 0.9              // of a function's time that makes it a mere caller
#define MIN_WAITING_SHARE 0.1      // of the run's time, that makes a list of it
#define MIN_PACKAGE_PERCENT 3.0    // on the screen
#define MIN_MEMORY_BYTES 10000000u // on the screen: what any program has is not worth a row
#define MOST_MEMORY 0.6            // of a function's, on one line
#define ALL_MEMORY 0.99
#define MAX_CANDIDATES 60 // for the screen
#define MIN_NAME_CELLS 16
#define MIN_PLACE_CELLS 12
#define MAX_PLACE_CELLS 36
#define SECONDS_FROM_WIDTH 76 // narrower, the names need the room

struct row {
	uint32_t function_id;
	const struct fm_weight *weight;       // NULL in the list by memory
	const struct fm_heap_figures *memory; // NULL in the lists by time
	bool is_always_inlined;
	uint64_t wait_ns;             // in the list by waiting, which has neither
	struct fm_str name;           // of what is no function (FM_NO_ID): a package, imports
	const struct fm_weight *paid; // by the function's own lines, in the list by time
};

struct rows {
	FM_VEC(struct row) v;
};

static size_t n_wanted(const struct fm_text *t, size_t fallback)
{
	return t->a->options.n_top ? t->a->options.n_top : fallback;
}

static void name_of(struct fm_buf *b, const struct fm_text *t, const struct row *row)
{
	struct fm_str name = row->function_id == FM_NO_ID
				     ? row->name
				     : fm_label_function(fm_analysis_function(t->a, row->function_id));
	fm_buf_bytes(b, name.p, name.len);
	if (row->is_always_inlined)
		fm_buf_str(b, " (inlined)");
}

static void place_of(struct fm_buf *b, const struct fm_text *t, const struct row *row)
{
	if (row->function_id == FM_NO_ID)
		return;
	struct fm_str file = fm_label_file(t->a, row->function_id);
	uint32_t line = fm_analysis_function(t->a, row->function_id)->line;
	if (!file.len)
		return;
	fm_buf_u8(b, '(');
	fm_buf_bytes(b, file.p, file.len);
	if (line)
		fm_buf_printf(b, ":%u", line);
	fm_buf_u8(b, ')');
}

// How the list's columns share the width: as wide as what stands in them, then as there is room.
struct columns {
	unsigned name, place;
	bool has_seconds;
};

static unsigned figures_cells(const struct fm_text *t, const struct columns *c)
{
	return 2 + 6 + 2 + (t->style.has_utf8 ? 4 : 5) + (c->has_seconds ? 12 : 0);
}

static struct columns measure(const struct fm_text *t, const struct rows *rows)
{
	struct columns c = { MIN_NAME_CELLS, MIN_PLACE_CELLS, t->style.width >= SECONDS_FROM_WIDTH };
	for (size_t i = 0; i < rows->v.n; i++) {
		struct fm_buf name = { 0 }, place = { 0 };
		name_of(&name, t, &rows->v.items[i]);
		place_of(&place, t, &rows->v.items[i]);
		c.name = FM_MAX(c.name, fm_style_cells((struct fm_str){ (char *)name.data, (uint32_t)name.len }));
		c.place = FM_MAX(c.place, fm_style_cells((struct fm_str){ (char *)place.data, (uint32_t)place.len }));
		fm_buf_deinit(&name);
		fm_buf_deinit(&place);
	}
	unsigned room = t->style.width - 4 - figures_cells(t, &c) - 1;
	if (!t->a->options.full_filenames)
		c.place = FM_MIN(c.place, (unsigned)MAX_PLACE_CELLS);
	if (c.name + c.place > room) { // names tell more than places
		c.place = FM_MIN(c.place, FM_MAX(room * 2 / 5, (unsigned)MIN_PLACE_CELLS));
		c.name = FM_MIN(c.name, room - c.place);
	}
	return c;
}

// "" when it is too small to matter beside the figure.
static const char *memory_interval(const struct fm_text *t, const struct row *row, char ret[static 48])
{
	char text[32];
	double pm = fm_interval(row->memory->peak_var);
	ret[0] = 0;
	if (pm >= 0.5e3 && pm >= 0.005 * (double)row->memory->peak_bytes)
		snprintf(ret, 48, " %s%s", fm_text_sign(t), fm_style_bytes((uint64_t)pm, text));
	return ret;
}

static void put_memory(const struct fm_text *t, const struct row *row, unsigned interval_cells)
{
	const struct fm_style *s = &t->style;
	char text[48];
	fprintf(s->out, "  %8s", fm_style_bytes(row->memory->peak_bytes, text));
	fm_style_paint(s, FM_PAINT_DIM);
	fm_style_fit(s, fm_str_of(memory_interval(t, row, text)), interval_cells, true);
	fm_style_paint(s, FM_PAINT_NONE);
}

static void put_waiting(const struct fm_text *t, const struct row *row)
{
	fprintf(t->style.out, "  %8.3f s", fm_seconds(row->wait_ns));
}

static void put_figures(const struct fm_text *t, const struct row *row, const struct columns *c)
{
	const struct fm_style *s = &t->style;
	char interval[32];
	fprintf(s->out, "  %5.1f%% ", fm_text_percent(t, row->weight));
	snprintf(interval, sizeof(interval), "%.1f", fm_text_plus_minus(t, row->weight));
	fm_style_paint(s, FM_PAINT_DIM);
	fprintf(s->out, "%s%-4s", fm_text_sign(t), interval);
	fm_style_paint(s, FM_PAINT_NONE);
	if (c->has_seconds)
		fprintf(s->out, "%10.3f s", fm_seconds(fm_weight_cpu_ns(row->weight)));
}

static void print_rows(const struct fm_text *t, const struct rows *rows, const struct columns *c)
{
	const struct fm_style *s = &t->style;
	unsigned interval_cells = 0;
	char interval[48];
	for (size_t i = 0; i < rows->v.n && rows->v.items[i].memory; i++)
		interval_cells = FM_MAX(interval_cells,
					fm_style_cells(fm_str_of(memory_interval(t, &rows->v.items[i], interval))));
	for (size_t i = 0; i < rows->v.n; i++) {
		const struct row *row = &rows->v.items[i];
		struct fm_buf name = { 0 }, place = { 0 };
		name_of(&name, t, row);
		place_of(&place, t, row);
		fprintf(s->out, "%2zu. ", i + 1);
		fm_style_fit(s, (struct fm_str){ (char *)name.data, (uint32_t)name.len }, c->name, true);
		if (row->memory)
			put_memory(t, row, interval_cells);
		else if (row->wait_ns)
			put_waiting(t, row);
		else
			put_figures(t, row, c);
		struct fm_str text = { place.len ? (char *)place.data : "", (uint32_t)place.len };
		if (text.len)
			fputc(' ', s->out);
		if (row->function_id != FM_NO_ID && fm_analysis_function(t->a, row->function_id)->line)
			fm_style_fit_end(s, text, c->place); // the line is at the end
		else
			fm_style_fit(s, text, c->place, false);
		fputc('\n', s->out);
		fm_buf_deinit(&name);
		fm_buf_deinit(&place);
	}
}

// Where no code is the user's, the first rows would all be the way into a library: functions
// without own time that spend nearly all of it in the next one.
static bool only_passes_on(const struct fm_text *t, size_t i)
{
	const struct fm_function_row *row = &t->summary->functions.items[i];
	return t->is_all_code && !t->a->options.detailed && i + 1 < t->summary->functions.n &&
	       fm_text_percent(t, &row->self) < MIN_PERCENT &&
	       (double)fm_weight_cpu_ns(&row[1].total) >= PASSED_ON * (double)fm_weight_cpu_ns(&row->total);
}

static bool select_by_time(const struct fm_text *t, size_t n_most, struct rows *ret)
{
	bool has_left_out = false;
	for (size_t i = 0; i < t->summary->functions.n && ret->v.n < n_most; i++) {
		const struct fm_function_row *row = &t->summary->functions.items[i];
		double percent = fm_text_percent(t, &row->total);
		if (!fm_text_shows(t, row->function_id) || percent < MIN_PERCENT ||
		    (t->is_short && percent < 2 * fm_text_plus_minus(t, &row->total)))
			continue;
		if (only_passes_on(t, i))
			has_left_out = true;
		else
			fm_vec_push(&ret->v, (struct row){ .function_id = row->function_id,
							   .weight = &row->total,
							   .is_always_inlined = row->is_always_inlined,
							   .paid = fm_text_share(t, row) });
	}
	return has_left_out;
}

static void select_by_memory(const struct fm_text *t, struct rows *ret)
{
	for (size_t i = 0; i < t->heap->functions.n && ret->v.n < n_wanted(t, DEFAULT_TOP); i++) {
		const struct fm_heap_function_row *row = &t->heap->functions.items[i];
		uint64_t peak_bytes = fm_text_sure_peak(&row->self);
		if (fm_text_shows(t, row->function_id) && peak_bytes && peak_bytes >= t->heap->peak_bytes / 100)
			fm_vec_push(&ret->v, (struct row){ row->function_id, NULL, &row->self, false, 0, { "", 0 } });
	}
}

void fm_text_functions(struct fm_text *t)
{
	const struct fm_style *s = &t->style;
	struct rows by_time = { 0 }, by_memory = { 0 };
	bool has_left_out = select_by_time(t, n_wanted(t, DEFAULT_TOP), &by_time);
	select_by_memory(t, &by_memory);
	struct rows all = { 0 };
	for (size_t i = 0; i < by_time.v.n + by_memory.v.n; i++)
		fm_vec_push(&all.v, i < by_time.v.n ? by_time.v.items[i] : by_memory.v.items[i - by_time.v.n]);
	struct columns c = measure(t, &all);
	fm_vec_deinit(&all.v);
	t->rule = FM_MIN(FM_MAX(4 + c.name + figures_cells(t, &c) + 1 + c.place, 69u), s->width);
	fm_style_repeat(s, "=", t->rule);
	fputc('\n', s->out);

	if (by_time.v.n) {
		fm_text_heading(t,
				t->is_all_code && !t->a->options.detailed ? "(all code: none of it is your own Python)"
									  : "(with everything they call)",
				"Top %zu Functions by Total Runtime:", by_time.v.n);
		print_rows(t, &by_time, &c);
		if (has_left_out) {
			fm_style_paint(s, FM_PAINT_DIM);
			fputs("(without functions that do little but call the next one; --detailed has them)\n",
			      s->out);
			fm_style_paint(s, FM_PAINT_NONE);
		}
	}
	if (t->heap->is_there && by_memory.v.n) {
		fm_text_heading(t, "(each one's own peak)", "Top %zu Functions by Memory Usage:", by_memory.v.n);
		print_rows(t, &by_memory, &c);
	}
	fm_vec_deinit(&by_time.v);
	fm_vec_deinit(&by_memory.v);
}

static int compare_weights(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;
	uint64_t na = fm_weight_cpu_ns(a->weight), nb = fm_weight_cpu_ns(b->weight);
	return na != nb ? (nb > na) - (nb < na) : (a->function_id > b->function_id) - (a->function_id < b->function_id);
}

// A plain heading: the screen has no room for rules.
static void title(const struct fm_text *t, const char *note, size_t n, const char *text)
{
	const struct fm_style *s = &t->style;
	fputc('\n', s->out);
	fm_style_paint(s, FM_PAINT_BOLD);
	if (n > 1)
		fprintf(s->out, "Top %zu Functions by %s:", n, text);
	else
		fprintf(s->out, "Top Function by %s:", text);
	fm_style_paint(s, FM_PAINT_NONE);
	fm_style_paint(s, FM_PAINT_DIM);
	fprintf(s->out, " %s", note);
	fm_style_paint(s, FM_PAINT_NONE);
	fputc('\n', s->out);
}

// Leaves out, as long as there are others to show, functions whose own lines have next to nothing,
// and that spend nearly all of their time in the next row: main(), run(), start().
static bool drop_callers(const struct fm_text *t, struct rows *rows, size_t n_most)
{
	size_t kept = 0, n = rows->v.n;
	for (size_t i = 0; i < n; i++) {
		const struct row *row = &rows->v.items[i];
		bool is_caller =
			row->paid && i + 1 < n && fm_text_percent(t, row->paid) < MIN_PERCENT &&
			(double)fm_weight_cpu_ns(row[1].weight) >= PASSED_ON * (double)fm_weight_cpu_ns(row->weight);
		if (!is_caller || kept + (n - i) <= n_most)
			rows->v.items[kept++] = *row;
	}
	rows->v.n = kept;
	return kept < n;
}

// A module's top level that does little but import: the row of imports has it.
static bool only_imports(const struct fm_text *t, const struct row *row)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < t->summary->lines.n; i++) {
		const struct fm_line_row *line = &t->summary->lines.items[i];
		struct fm_str file = fm_analysis_function(t->a, line->function_id)->file;
		if (fm_text_percent(t, &line->weight) < MIN_PERCENT)
			break; // most time first
		if (line->function_id == row->function_id && fm_source_line_imports(t->a->profile, file, line->line))
			ns += fm_weight_cpu_ns(&line->weight);
	}
	return (double)ns >= PASSED_ON * (double)fm_weight_cpu_ns(row->weight);
}

void fm_text_top_functions(struct fm_text *t, size_t n_most)
{
	struct rows all = { 0 }, rows = { 0 };
	bool has_imports = fm_text_percent(t, &t->own_tree.imports) >= MIN_PACKAGE_PERCENT && !t->is_short;
	select_by_time(t, t->a->options.n_top ? t->a->options.n_top : MAX_CANDIDATES, &all);
	for (size_t i = 0; i < all.v.n; i++)
		if (!fm_package_is_comprehension(fm_analysis_function(t->a, all.v.items[i].function_id)) &&
		    !(has_imports && !t->a->options.detailed && only_imports(t, &all.v.items[i])))
			fm_vec_push(&rows.v, all.v.items[i]);
	fm_vec_deinit(&all.v);
	// Where all code is listed, libraries have rows of their own functions already.
	for (size_t i = 0; !t->is_all_code && i < t->own_tree.packages.n; i++) {
		const struct fm_own_package *p = &t->own_tree.packages.items[i];
		if (fm_text_percent(t, &p->total) >= MIN_PACKAGE_PERCENT && !t->is_short)
			fm_vec_push(&rows.v, (struct row){ FM_NO_ID, &p->total, NULL, false, 0, p->name });
	}
	if (has_imports)
		fm_vec_push(&rows.v,
			    (struct row){ FM_NO_ID, &t->own_tree.imports, NULL, false, 0, FM_STR_LIT("(imports)") });
	if (rows.v.n) {
		qsort(rows.v.items, rows.v.n, sizeof(*rows.v.items), compare_weights);
		bool has_left_out = !t->a->options.detailed && drop_callers(t, &rows, n_wanted(t, n_most));
		rows.v.n = FM_MIN(rows.v.n, n_wanted(t, n_most));
		title(t,
		      t->is_all_code && !t->a->options.detailed ? "(all code: none of it is your own Python)"
		      : has_left_out                            ? "(with what they call; without mere callers)"
								: "(with everything they call)",
		      rows.v.n, "Total Runtime");
		struct columns c = measure(t, &rows);
		print_rows(t, &rows, &c);
	}
	fm_vec_deinit(&rows.v);
}

// The line that has most of the function's memory, unless it is the one that the function is named by anyway.
static void put_memory_line(struct fm_buf *b, const struct fm_text *t, const struct row *row)
{
	const struct fm_heap_line_row *best = NULL;
	char text[32];
	for (size_t i = 0; i < t->heap->lines.n; i++) {
		const struct fm_heap_line_row *line = &t->heap->lines.items[i];
		if (line->function_id == row->function_id && line->line &&
		    (!best || line->f.peak_bytes > best->f.peak_bytes))
			best = line;
	}
	double share = best ? (double)best->f.peak_bytes / (double)row->memory->peak_bytes : 0;
	if (share < MOST_MEMORY || best->line == fm_analysis_function(t->a, row->function_id)->line)
		return;
	if (share >= ALL_MEMORY)
		fm_buf_printf(b, ", all of it at line %u", best->line);
	else
		fm_buf_printf(b, ", line %u alone %s", best->line, fm_style_bytes(best->f.peak_bytes, text));
}

bool fm_text_top_memory(const struct fm_text *t, size_t n_most)
{
	struct rows rows = { 0 };
	if (t->heap->is_there)
		select_by_memory(t, &rows);
	size_t kept = 0;
	while (kept < FM_MIN(rows.v.n, n_wanted(t, n_most)) &&
	       rows.v.items[kept].memory->peak_bytes >= MIN_MEMORY_BYTES)
		kept++;
	rows.v.n = kept;
	if (rows.v.n == 1) {
		char text[32];
		struct fm_buf b = { 0 };
		fm_buf_str(&b, "Most memory: ");
		name_of(&b, t, rows.v.items);
		fm_buf_u8(&b, ' ');
		place_of(&b, t, rows.v.items);
		fm_buf_printf(&b, ", %s at its peak", fm_style_bytes(rows.v.items[0].memory->peak_bytes, text));
		put_memory_line(&b, t, rows.v.items);
		fm_buf_u8(&b, '.');
		fputc('\n', t->style.out);
		fm_style_wrap(&t->style, (struct fm_str){ (const char *)b.data, (uint32_t)b.len }, 0, 2);
		fm_buf_deinit(&b);
	} else if (rows.v.n) {
		title(t, "(each one's own peak)", rows.v.n, "Memory Usage");
		struct columns c = measure(t, &rows);
		print_rows(t, &rows, &c);
	}
	fm_vec_deinit(&rows.v);
	return kept;
}

static int compare_waiting(const void *pa, const void *pb)
{
	const struct row *a = pa, *b = pb;
	return a->wait_ns != b->wait_ns ? (b->wait_ns > a->wait_ns) - (b->wait_ns < a->wait_ns)
					: (a->function_id > b->function_id) - (a->function_id < b->function_id);
}

// Only where waiting is much of the run: in most programs it is the end of a thread that nobody
// waits for, or an idle one of a library.
void fm_text_waiting(const struct fm_text *t)
{
	double least_s = MIN_WAITING_SHARE * t->facts.wall_s, all_s = 0;
	struct rows rows = { 0 };
	for (size_t i = 0; i < t->summary->functions.n; i++) {
		const struct fm_function_row *row = &t->summary->functions.items[i];
		const uint64_t *ns = fm_text_share(t, row)->ns;
		uint64_t wait_ns = ns[FM_CLASS_WAIT] + ns[FM_CLASS_GIL_WAIT];
		if (!wait_ns || !fm_text_shows(t, row->function_id))
			continue;
		all_s += fm_seconds(wait_ns);
		if (fm_seconds(wait_ns) >= least_s / 10)
			fm_vec_push(&rows.v, (struct row){ row->function_id, NULL, NULL, false, wait_ns, { "", 0 } });
	}
	if (all_s < least_s)
		rows.v.n = 0;
	if (rows.v.n) {
		qsort(rows.v.items, rows.v.n, sizeof(*rows.v.items), compare_waiting);
		rows.v.n = FM_MIN(rows.v.n, n_wanted(t, OWN_TOP));
		fm_text_heading(t, "(seconds of all threads; no CPU time)", "Top %zu Functions by Waiting:", rows.v.n);
		struct columns c = measure(t, &rows);
		print_rows(t, &rows, &c);
	}
	fm_vec_deinit(&rows.v);
}

void fm_text_own_time(const struct fm_text *t)
{
	struct rows rows = { 0 };
	for (size_t i = 0; i < t->summary->functions.n; i++) {
		const struct fm_function_row *row = &t->summary->functions.items[i];
		if (fm_text_percent(t, &row->self) >= MIN_PERCENT)
			fm_vec_push(&rows.v,
				    (struct row){
					    row->function_id, &row->self, NULL, row->is_always_inlined, 0, { "", 0 } });
	}
	if (rows.v.n) {
		qsort(rows.v.items, rows.v.n, sizeof(*rows.v.items), compare_weights);
		rows.v.n = FM_MIN(rows.v.n, n_wanted(t, OWN_TOP));
		fm_text_heading(t, "(including native code and libraries)", "Top %zu Functions by Own Time:", rows.v.n);
		struct columns c = measure(t, &rows);
		print_rows(t, &rows, &c);
	}
	fm_vec_deinit(&rows.v);
}
