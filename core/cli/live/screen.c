// SPDX-License-Identifier: Apache-2.0
#include "cli/live/live.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define MAX_BUCKETS 64u
#define NAME_CELLS 24u
#define CHART_CELLS 20u

// Rows that each part gets when not everything fits; functions get what is left, or so many where
// there is no last row.
#define MAX_FUNCTIONS 15u
#define MAX_THREADS 10u
#define MAX_ZONES 6u
#define MAX_COUNTERS 5u
#define MAX_MARKS 3u

static void text(const struct fm_style *s, enum fm_paint paint, const char *format, ...) FM_PRINTF(3, 4);
static void text(const struct fm_style *s, enum fm_paint paint, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (paint)
		fm_style_paint(s, paint);
	vfprintf(s->out, format, args);
	if (paint)
		fm_style_paint(s, FM_PAINT_NONE);
	va_end(args);
}

static double number(const struct fm_json_value *v, const char *key)
{
	return fm_json_get(v, key)->number;
}

static unsigned count(const struct fm_json_value *array)
{
	unsigned n = 0;
	for (const struct fm_json_value *v = array->first; v; v = v->next)
		n++;
	return n;
}

// "1.23 s", "4.5 ms", "120 us" in eight characters.
static void duration(const struct fm_style *s, double seconds)
{
	if (seconds >= 1)
		fprintf(s->out, "%6.2f s", seconds);
	else if (seconds >= 1e-3)
		fprintf(s->out, "%5.1f ms", seconds * 1e3);
	else
		fprintf(s->out, "%5.0f us", seconds * 1e6);
}

static struct fm_str last_part(struct fm_str path)
{
	const char *slash = memrchr(path.p, '/', path.len);
	return slash ? (struct fm_str){ slash + 1, (uint32_t)(path.p + path.len - slash - 1) } : path;
}

// "name (file.py:12)" in what is left of the line.
static void place(const struct fm_style *s, const struct fm_json_value *at, unsigned cells)
{
	struct fm_str name = fm_json_get(at, "name")->text, file = last_part(fm_json_get(at, "file")->text);
	struct fm_str module = fm_json_get(at, "module")->text;
	struct fm_buf b = { 0 };
	fm_buf_bytes(&b, name.p, name.len);
	if (file.len)
		fm_buf_printf(&b, " (%.*s:%.0f)", (int)FM_MIN(file.len, 200u), file.p, number(at, "line"));
	else if (module.len && !fm_str_eq(module, name))
		fm_buf_printf(&b, " (%.*s)", (int)FM_MIN(module.len, 200u), module.p);
	fm_style_fit(s, (struct fm_str){ (const char *)b.data, (uint32_t)b.len }, cells, false);
	fm_buf_deinit(&b);
}

static void chart(const struct fm_style *s, const uint64_t *values, unsigned n)
{
	struct fm_buf b = { 0 };
	if (n)
		fm_style_sparkline(s, &b, values, n, CHART_CELLS);
	fm_style_fit(s, (struct fm_str){ b.data ? (const char *)b.data : "", (uint32_t)b.len }, CHART_CELLS, true);
	fm_buf_deinit(&b);
}

// A thread's CPU by bucket, from 0 to 1: the highest bar is a whole core, whatever the thread did.
static void busy_chart(const struct fm_style *s, const struct fm_json_value *busy)
{
	static const char *const bars[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char plain[] = " .:-=+*#@";
	unsigned n = 0;
	for (const struct fm_json_value *v = busy->first; v && n < CHART_CELLS; v = v->next, n++) {
		unsigned step = (unsigned)FM_MIN(FM_MAX(lround(v->number * 8), 0l), 8l);
		if (s->has_utf8)
			fputs(bars[step], s->out);
		else
			putc(plain[step], s->out);
	}
	for (; n < CHART_CELLS; n++)
		putc(' ', s->out);
}

static void heading(const struct fm_style *s, const char *title, const char *columns)
{
	putc('\n', s->out);
	text(s, FM_PAINT_BOLD, "%-*s", (int)NAME_CELLS, title);
	text(s, FM_PAINT_DIM, "%s", columns);
	putc('\n', s->out);
}

static enum fm_paint paint_of(struct fm_str state)
{
	static const struct {
		const char *name;
		enum fm_paint paint;
	} paints[] = { { "python", FM_PAINT_BLUE },
		       { "native", FM_PAINT_YELLOW },
		       { "system", FM_PAINT_RED },
		       { "gc", FM_PAINT_MAGENTA },
		       { "gil waiting", FM_PAINT_CYAN } };
	for (size_t i = 0; i < FM_ARRAY_LEN(paints); i++)
		if (fm_str_eq(state, fm_str_of(paints[i].name)))
			return paints[i].paint;
	return FM_PAINT_DIM;
}

static void threads(const struct fm_style *s, const struct fm_json_value *now, unsigned max)
{
	double window = number(now, "window_s");
	heading(s, "THREADS", "   CPU  last 5 s              state        where");
	const struct fm_json_value *t = fm_json_get(now, "threads")->first;
	for (unsigned i = 0; t && i < max; t = t->next, i++) {
		struct fm_str state = fm_json_get(t, "state")->text, name = fm_json_get(t, "name")->text;
		char label[NAME_CELLS + 8];
		// Threads of one program often go by its name, all of them.
		if (!fm_str_eq(name, FM_STR_LIT("main"))) {
			snprintf(label, sizeof(label), "%.0f %.*s", number(t, "tid"), (int)FM_MIN(name.len, 16u),
				 name.p);
			name = fm_str_of(label);
		}
		fm_style_fit(s, name, NAME_CELLS, true);
		text(s, FM_PAINT_NONE, " %4.0f%%  ", window > 0 ? 100 * number(t, "cpu_s") / window : 0);
		fm_style_paint(s, paint_of(state));
		busy_chart(s, fm_json_get(t, "busy"));
		fputs("  ", s->out);
		fm_style_fit(s, state, 11, true);
		fm_style_paint(s, FM_PAINT_NONE);
		fputs("  ", s->out);
		place(s, fm_json_get(t, "at"), s->width - FM_MIN(s->width, NAME_CELLS + 44) - 1);
		putc('\n', s->out);
	}
	double n_alive = number(now, "threads_alive");
	if (t)
		text(s, FM_PAINT_DIM, "%.0f threads in all\n", n_alive);
}

#define MAX_SORTED 256u

static const char *const sort_keys[FM_LIVE_N_SORTS] = { "self_s", "total_s", "wait_s" };

// The functions in order; of equal ones the first that was told stays first. Returns how many.
static unsigned sort_functions(const struct fm_json_value *now, enum fm_live_sort by,
			       const struct fm_json_value *ret[static MAX_SORTED])
{
	unsigned n = 0;
	for (const struct fm_json_value *f = fm_json_get(now, "functions")->first; f && n < MAX_SORTED; f = f->next) {
		unsigned at = n++;
		for (; at && number(ret[at - 1], sort_keys[by]) < number(f, sort_keys[by]); at--)
			ret[at] = ret[at - 1];
		ret[at] = f;
	}
	return n;
}

static void functions(const struct fm_style *s, const struct fm_json_value *now, enum fm_live_sort by, unsigned max)
{
	const struct fm_json_value *sorted[MAX_SORTED];
	unsigned n = sort_functions(now, by, sorted);
	double window = number(now, "window_s");
	bool is_traced = fm_json_get(now, "is_traced")->is_true;
	heading(s, "HOT",
		is_traced ? "   self  total   calls/s     own  function" : "   self  total   waits  function");
	for (unsigned i = 0; i < n && i < max && window > 0; i++) {
		const struct fm_json_value *f = sorted[i];
		double self = 100 * number(f, "self_s") / window;
		struct fm_buf bar = { 0 };
		unsigned cells = (unsigned)FM_MIN(FM_MAX(lround(self / 100 * NAME_CELLS), 0l), (long)NAME_CELLS);
		for (unsigned k = 0; k < cells; k++)
			fm_buf_str(&bar, s->has_utf8 ? "━" : "=");
		fm_style_paint(s, paint_of(fm_json_get(f, "kind")->text));
		fm_style_fit(s, (struct fm_str){ bar.data ? (const char *)bar.data : "", (uint32_t)bar.len },
			     NAME_CELLS, true);
		fm_style_paint(s, FM_PAINT_NONE);
		fm_buf_deinit(&bar);
		text(s, FM_PAINT_NONE, " %5.1f%% %5.1f%% ", self, 100 * number(f, "total_s") / window);
		if (is_traced)
			text(s, FM_PAINT_NONE, "%9.0f %6.1f%%  ", number(f, "calls") / window,
			     100 * number(f, "own_s") / window);
		else
			text(s, FM_PAINT_DIM, "%6.1f%%  ", 100 * number(f, "wait_s") / window);
		place(s, f, s->width - FM_MIN(s->width, NAME_CELLS + (is_traced ? 34u : 24u)) - 1);
		putc('\n', s->out);
	}
}

static void zones(const struct fm_style *s, const struct fm_json_value *now, unsigned max)
{
	const struct fm_json_value *z = fm_json_get(now, "zones")->first;
	if (!max || !z)
		return;
	double window = number(now, "window_s");
	heading(s, "ZONES", "   ended/s      mean   longest   in sum   open");
	for (unsigned i = 0; z && i < max; z = z->next, i++) {
		fm_style_fit(s, fm_json_get(z, "name")->text, NAME_CELLS, true);
		text(s, FM_PAINT_NONE, " %9.1f  ", window > 0 ? number(z, "n") / window : 0);
		duration(s, number(z, "mean_s"));
		fputs("  ", s->out);
		duration(s, number(z, "max_s"));
		fputs(" ", s->out);
		duration(s, number(z, "total_s"));
		text(s, FM_PAINT_NONE, "  %5.0f\n", number(z, "open"));
	}
}

static void counters(const struct fm_style *s, const struct fm_json_value *now, unsigned max)
{
	const struct fm_json_value *c = fm_json_get(now, "counters")->first;
	if (!max || !c)
		return;
	heading(s, "COUNTERS", "        value  last 5 s");
	for (unsigned i = 0; c && i < max; c = c->next, i++) {
		uint64_t values[MAX_BUCKETS] = { 0 };
		unsigned n = 0;
		double least = INFINITY, most = -INFINITY, last = NAN;
		const struct fm_json_value *all = fm_json_get(c, "values");
		for (const struct fm_json_value *v = all->first; v; v = v->next)
			if (v->kind == FM_JSON_NUMBER) {
				least = FM_MIN(least, v->number);
				most = FM_MAX(most, v->number);
			}
		for (const struct fm_json_value *v = all->first; v && n < MAX_BUCKETS; v = v->next) {
			last = v->kind == FM_JSON_NUMBER ? v->number : last; // it stays until it is set anew
			values[n++] =
				isnan(last) || !(most > least) ? 0 : (uint64_t)((last - least) / (most - least) * 1000);
		}
		fm_style_fit(s, fm_json_get(c, "name")->text, NAME_CELLS, true);
		text(s, FM_PAINT_NONE, " %12.6g  ", number(c, "value"));
		chart(s, values, n);
		putc('\n', s->out);
	}
}

static void marks(const struct fm_style *s, const struct fm_json_value *now, unsigned max)
{
	const struct fm_json_value *all = fm_json_get(now, "marks");
	unsigned n = count(all), i = 0;
	if (!max || !n)
		return;
	heading(s, "MARKS", "");
	for (const struct fm_json_value *m = all->first; m; m = m->next, i++) {
		if (i + max < n)
			continue; // the latest are the last
		text(s, FM_PAINT_DIM, "%9.2f s  ", number(m, "t_s"));
		fm_style_fit(s, fm_json_get(m, "text")->text, s->width - FM_MIN(s->width, 13u), false);
		putc('\n', s->out);
	}
}

static void head(const struct fm_style *s, const struct fm_json_value *now)
{
	struct fm_buf command = { 0 };
	for (const struct fm_json_value *w = fm_json_get(now, "command")->first; w; w = w->next) {
		struct fm_str word = w == fm_json_get(now, "command")->first ? last_part(w->text) : w->text;
		if (command.len)
			fm_buf_u8(&command, ' ');
		fm_buf_bytes(&command, word.p, word.len);
	}
	struct fm_str state = fm_json_get(now, "state")->text;
	const struct fm_json_value *exit = fm_json_get(now, "exit");
	fm_style_paint(s, FM_PAINT_BOLD);
	fm_style_fit(s, (struct fm_str){ command.data ? (const char *)command.data : "", (uint32_t)command.len },
		     s->width - FM_MIN(s->width, 1u), false);
	fm_style_paint(s, FM_PAINT_NONE);
	fm_buf_deinit(&command);
	char bytes[32];
	putc('\n', s->out);
	fm_style_fit(s, state, 10, false);
	if (fm_json_get(exit, "code")->kind == FM_JSON_NUMBER)
		text(s, FM_PAINT_NONE, " with exit code %.0f", number(exit, "code"));
	if (fm_json_get(exit, "signal")->kind == FM_JSON_NUMBER)
		text(s, FM_PAINT_NONE, " by signal %.0f", number(exit, "signal"));
	text(s, FM_PAINT_NONE, ", %.1f s, process %.0f", number(now, "elapsed_s"), number(now, "pid"));
	struct fm_str python = fm_json_get(now, "python")->text;
	if (python.len) {
		fputs(", Python ", s->out);
		fm_style_fit(s, python, 12, false);
	}
	if (number(now, "rss_bytes") > 0)
		text(s, FM_PAINT_NONE, ", %s", fm_style_bytes((uint64_t)number(now, "rss_bytes"), bytes));
	putc('\n', s->out);
	static const struct {
		const char *key, *name;
		enum fm_paint paint;
	} classes[] = { { "python_s", "Python", FM_PAINT_BLUE },
			{ "native_s", "native", FM_PAINT_YELLOW },
			{ "system_s", "system", FM_PAINT_RED },
			{ "gc_s", "GC", FM_PAINT_MAGENTA },
			{ "gil_wait_s", "GIL wait", FM_PAINT_CYAN } };
	double window = number(now, "window_s");
	for (size_t i = 0; i < FM_ARRAY_LEN(classes) && window > 0; i++) {
		double percent = 100 * number(fm_json_get(now, "time"), classes[i].key) / window;
		if (i == 0 || percent >= 0.5)
			text(s, classes[i].paint, "%s %.0f%%  ", classes[i].name, percent);
	}
	text(s, FM_PAINT_DIM, "of one CPU, last %.1f s\n", window);
}

void fm_live_screen_draw(const struct fm_live_screen *screen, const struct fm_json_value *now)
{
	const struct fm_style *s = screen->style;
	head(s, now);
	unsigned n_threads = FM_MIN(count(fm_json_get(now, "threads")), MAX_THREADS);
	unsigned n_zones = FM_MIN(count(fm_json_get(now, "zones")), MAX_ZONES);
	unsigned n_counters = FM_MIN(count(fm_json_get(now, "counters")), MAX_COUNTERS);
	unsigned n_marks = FM_MIN(count(fm_json_get(now, "marks")), MAX_MARKS);
	unsigned n_functions = FM_MIN(count(fm_json_get(now, "functions")), screen->rows ? UINT_MAX : MAX_FUNCTIONS);
	if (screen->rows) {
		// Each part has a blank line and a heading; the head has three lines, the status
		// one and a blank before it, and threads that are left out are counted in another.
		unsigned parts = 2 + (n_zones > 0) + (n_counters > 0) + (n_marks > 0);
		unsigned left = screen->rows > 7 + 2 * parts ? screen->rows - 7 - 2 * parts : 0;
		n_threads = FM_MIN(n_threads, FM_MAX(left / 3, 1u));
		n_zones = FM_MIN(n_zones, left / 5);
		n_counters = FM_MIN(n_counters, left / 6);
		n_marks = FM_MIN(n_marks, left / 8);
		left += 2 * (parts - 2 - (n_zones > 0) - (n_counters > 0) - (n_marks > 0)); // of those left out
		unsigned used = n_threads + n_zones + n_counters + n_marks;
		n_functions = FM_MIN(n_functions, left > used ? left - used : 1u);
	}
	threads(s, now, n_threads);
	functions(s, now, screen->sort, n_functions);
	zones(s, now, n_zones);
	counters(s, now, n_counters);
	marks(s, now, n_marks);
	if (screen->status) {
		putc('\n', s->out);
		text(s, FM_PAINT_DIM, "%s", screen->status);
	}
}
