// SPDX-License-Identifier: Apache-2.0
#include "render/shared/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/tree/attribution.h"
#include "render/shared/label.h"
#include "render/shared/source_line.h"
#include "render/shared/style.h"

// Less than this says little of where time goes (the intervals reach 10 points and more).
#define MIN_SAMPLES 100
#define MIN_CPU_S 0.05
#define MIN_WALL_S 0.2
// From which share on a sentence is worth a reader's time. Of the CPU time:
#define MUCH_LINE 0.25
#define MUCH_ALSO 0.2 // of a second line that may be the first as well
#define MUCH_FUNCTION 0.4
#define MIN_PART 0.01    // of a file's functions
#define MUCH_OF_ALL 0.85 // of a file
#define MUCH_IMPORTS 0.25
#define MUCH_GC 0.15
#define MOST 0.6 // of a line's
#define MUCH_SYSTEM 0.4
#define MUCH_ELSEWHERE 0.4 // in threads and processes that run no line of the user's
// Of the wall time:
#define MUCH_NO_CPU 0.2
#define MUCH_WAITING 0.5
#define MUCH_QUEUEING 0.1 // by each of the threads, on average
#define MUCH_GIL 0.25     // of what threads computed and waited for it
#define MIN_IMPACT 0.1    // of the run: half of the CPU time of a program that sleeps is nothing to act on
#define LEAK_IMPACT 0.3   // sooner or later it is all there is to say

struct rules {
	struct fm_verdict *v;
	const struct fm_analysis *a;
	const struct fm_facts *f;
	const struct fm_summary *t;
	const struct fm_own_tree *tree;
	double cpu_s;                   // of all samples: what shares are of
	double run_s;                   // the wall time in which the main thread had a CPU or wanted none
	double busy;                    // how much of that the CPU time is; 1 at most
	const struct fm_line_row *line; // that takes much of the CPU time; NULL = none does
	const struct fm_line_row *also; // of another function, that takes much, too
	double *own;                    // by function: its lines' share of the CPU time, but for those that import
};

struct place {
	struct fm_str file;
	uint32_t line;
};

static const struct place nowhere = { { "", 0 }, 0 };

// Keeps the sentence if it is among the most important. Takes the text.
static void say(struct rules *r, const char *rule, double impact, struct place at, struct fm_buf *text)
{
	struct fm_verdict *v = r->v;
	unsigned i = 0;
	while (i < v->n && v->lines[i].share >= impact)
		i++;
	if (i == FM_VERDICT_MAX || impact < MIN_IMPACT) {
		fm_buf_deinit(text);
		return;
	}
	if (v->n == FM_VERDICT_MAX)
		fm_buf_deinit(&v->lines[--v->n].text);
	memmove(&v->lines[i + 1], &v->lines[i], (v->n - i) * sizeof(v->lines[0]));
	v->n++;
	v->lines[i] = (struct fm_verdict_line){ rule, *text, at.file, at.line, impact };
}

static bool has_said(const struct fm_verdict *v, const char *rule)
{
	for (unsigned i = 0; i < v->n; i++)
		if (!strcmp(v->lines[i].rule, rule))
			return true;
	return false;
}

static void put_place(struct fm_buf *b, struct place at)
{
	struct fm_str name = fm_label_last_part(at.file);
	fm_buf_printf(b, "line %u of %s%.*s", at.line, fm_source_is_template(at.file) ? "the code made of " : "",
		      (int)name.len, name.p);
}

static double share_of(const struct rules *r, uint64_t ns)
{
	return r->cpu_s > 0 ? fm_seconds(ns) / r->cpu_s : 0;
}

static void no_cpu(struct rules *r)
{
	double share = r->f->wall_s > 0 ? r->f->no_cpu_s / r->f->wall_s : 0;
	if (share < MUCH_NO_CPU || r->f->no_cpu_s < MIN_CPU_S)
		return;
	struct fm_buf b = { 0 };
	fm_buf_printf(
		&b, "For %.0f%% of the run (%.1f of %.1f s) no CPU was free for the main thread: the machine was busy.",
		100 * share, r->f->no_cpu_s, r->f->wall_s);
	say(r, "no-cpu", FM_MAX(share, 0.99), nowhere, &b); // it comes first: all other times are longer for it
}

static struct fm_str text_of(const struct rules *r, struct place at)
{
	return fm_source_line_text(r->a->profile, at.file, at.line);
}

static struct place place_of_line(const struct rules *r, const struct fm_line_row *row)
{
	return (struct place){ fm_analysis_function(r->a, row->function_id)->file, row->line };
}

static bool is_import(const struct rules *r, const struct fm_line_row *row)
{
	struct place at = place_of_line(r, row);
	return fm_source_line_imports(r->a->profile, at.file, at.line);
}

// Of the lines that import, or of all others: the imports have a sentence of their own.
static const struct fm_line_row *top_line(const struct rules *r, bool imports)
{
	for (size_t i = 0; i < r->t->lines.n; i++) {
		const struct fm_line_row *row = &r->t->lines.items[i];
		if ((r->a->options.detailed || fm_summary_is_users(r->t, row->function_id)) &&
		    is_import(r, row) == imports)
			return row;
	}
	return NULL;
}

// What imports take has a sentence of its own.
static void find_own(struct rules *r)
{
	r->own = fm_alloc((fm_symbolizer_n_functions(r->a->symbolizer) + 1) * sizeof(*r->own));
	for (size_t i = 0; i < r->t->functions.n; i++)
		r->own[r->t->functions.items[i].function_id] +=
			share_of(r, fm_weight_cpu_ns(&r->t->functions.items[i].paid));
	for (size_t i = 0; i < r->t->lines.n; i++) {
		const struct fm_line_row *row = &r->t->lines.items[i];
		double share = share_of(r, fm_weight_cpu_ns(&row->weight));
		if (share >= MIN_PART && is_import(r, row))
			r->own[row->function_id] -= share;
	}
}

static bool put_kind(struct fm_buf *b, const struct fm_weight *w)
{
	static const char *const names[] = { "Python", "native code", "system calls", "garbage collection" };
	double all = (double)fm_weight_cpu_ns(w);
	for (unsigned c = FM_CLASS_PYTHON; c <= FM_CLASS_GC; c++) {
		double part = (double)w->ns[c];
		if (part < MOST * all)
			continue;
		fm_buf_printf(b, ", %s of it %s", part >= 0.9 * all ? "nearly all" : "most", names[c]);
		return true;
	}
	return false;
}

// The package whose code was executing, or had called what was: below the user's line.
static struct fm_str package_below(const struct rules *r, uint32_t leaf, uint32_t line_node)
{
	for (uint32_t at = leaf; at != line_node && at; at = r->a->view.nodes.items[at].parent) {
		struct fm_str name =
			fm_package_name(fm_analysis_function(r->a, r->a->view.nodes.items[at].function_id));
		if (name.len)
			return name;
	}
	return FM_STR_LIT("");
}

// Of which one has most of something, or none has.
struct packages {
	struct fm_str names[16];
	uint64_t ns[16];
	size_t n;
};

static void add_to_package(struct packages *p, struct fm_str name, uint64_t ns)
{
	size_t k = 0;
	while (k < p->n && !fm_str_eq(p->names[k], name))
		k++;
	if (!name.len || k == FM_ARRAY_LEN(p->names))
		return;
	if (k == p->n)
		p->names[p->n++] = name;
	p->ns[k] += ns;
}

static struct fm_str most_of(const struct packages *p, uint64_t all_ns)
{
	for (size_t k = 0; k < p->n; k++)
		if ((double)p->ns[k] >= MOST * (double)all_ns)
			return p->names[k];
	return FM_STR_LIT("");
}

// The one that has most of the line's time: where to look on, if the line itself cannot change.
static struct fm_str find_package(const struct rules *r, const struct fm_line_row *row)
{
	struct packages packages = { .n = 0 };
	struct fm_attribution *payers = fm_attribution_find(r->a->profile, &r->a->tally, &r->a->view, r->a->symbolizer);
	for (size_t i = 0; i < r->a->tally.cells.n; i++) {
		const struct fm_cell *cell = &r->a->tally.cells.items[i];
		uint32_t leaf = fm_view_node(&r->a->view, cell->stack_id);
		uint32_t at = leaf ? fm_attribution_line(&payers[leaf], r->a->options.detailed) : 0;
		if (!at || !fm_class_is_cpu(cell->class))
			continue;
		const struct fm_node *node = &r->a->view.nodes.items[at - 1];
		if (node->function_id != row->function_id || node->line != row->line)
			continue;
		add_to_package(&packages, package_below(r, leaf, at - 1), cell->weight_ns);
	}
	free(payers);
	return most_of(&packages, fm_weight_cpu_ns(&row->weight));
}

static void say_line(struct rules *r, const struct fm_line_row *row, const char *too)
{
	double share = share_of(r, fm_weight_cpu_ns(&row->weight));
	struct place at = place_of_line(r, row);
	struct fm_buf b = { 0 };
	put_place(&b, at);
	b.data[0] = 'L';
	fm_buf_printf(&b, " takes %.0f%% of the CPU time%s", 100 * share, too);
	bool has_kind = put_kind(&b, &row->weight);
	struct fm_str package = find_package(r, row);
	if (package.len)
		fm_buf_printf(&b, "%s in %.*s", has_kind ? "," : ", most of it", (int)package.len, package.p);
	fm_buf_u8(&b, '.');
	say(r, "line", share * r->busy, at, &b);
}

// Whether chance explains that the one has more than the other.
static bool may_be_first(const struct rules *r, const struct fm_line_row *first, const struct fm_line_row *other)
{
	double more_s = fm_seconds(fm_weight_cpu_ns(&first->weight)) - fm_seconds(fm_weight_cpu_ns(&other->weight));
	return more_s <=
	       hypot(fm_summary_plus_minus_s(r->t, &first->weight), fm_summary_plus_minus_s(r->t, &other->weight));
}

static void hot_line(struct rules *r)
{
	const struct fm_line_row *row = top_line(r, false);
	if (!row || share_of(r, fm_weight_cpu_ns(&row->weight)) < MUCH_LINE ||
	    !row->line) // 0: what was imported knows functions only
		return;
	r->line = row;
	say_line(r, row, "");
	// Lines of one function are one place to look at, and the tables below have its others.
	for (size_t i = 0; i < r->t->lines.n && !r->also; i++) {
		const struct fm_line_row *other = &r->t->lines.items[i];
		struct place at = place_of_line(r, other), first = place_of_line(r, row);
		double least = may_be_first(r, row, other) ? MUCH_ALSO : MUCH_LINE;
		if (share_of(r, fm_weight_cpu_ns(&other->weight)) < least)
			return;
		bool is_there = at.line == first.line && fm_str_eq(at.file, first.file); // a comprehension, of its line
		if (other->function_id == row->function_id || is_there || is_import(r, other) ||
		    !(r->a->options.detailed || fm_summary_is_users(r->t, other->function_id)))
			continue;
		r->also = other;
		say_line(r, other, ", too");
	}
}

// The user's function whose own lines have most; NULL = there is none. Of one file, if it is given.
static const struct fm_function_row *top_function(const struct rules *r, const uint32_t *file_id)
{
	const struct fm_function_row *best = NULL;
	for (size_t i = 0; i < r->t->functions.n; i++) {
		const struct fm_function_row *row = &r->t->functions.items[i];
		const struct fm_function *f = fm_analysis_function(r->a, row->function_id);
		if (!fm_summary_is_users(r->t, row->function_id) ||
		    (file_id && (f->file_id != *file_id || fm_package_is_comprehension(f))))
			continue;
		if (!best || r->own[row->function_id] > r->own[best->function_id])
			best = row;
	}
	return best;
}

// A function whose time no single line has.
static void hot_function(struct rules *r)
{
	const struct fm_function_row *best = top_function(r, NULL);
	const struct fm_line_row *line = top_line(r, false);
	double share = best ? r->own[best->function_id] : 0;
	if (share < MUCH_FUNCTION || !line || r->line)
		return;
	const struct fm_function *f = fm_analysis_function(r->a, best->function_id);
	struct fm_str file = fm_label_file(r->a, best->function_id);
	struct fm_buf b = { 0 };
	if (!line->line) {
		fm_buf_printf(&b, "%.*s (%.*s) takes %.0f%% of the CPU time.", (int)f->name.len, f->name.p,
			      (int)file.len, file.p, 100 * share);
		say(r, "function", share * r->busy, (struct place){ f->file, f->line }, &b);
		return;
	}
	fm_buf_printf(&b, "%.*s (%.*s:%u) takes %.0f%% of the CPU time, spread over its lines: the hottest has %.0f%%.",
		      (int)f->name.len, f->name.p, (int)file.len, file.p, f->line, 100 * share,
		      100 * share_of(r, fm_weight_cpu_ns(&line->weight)));
	say(r, "function", share * r->busy, (struct place){ f->file, f->line }, &b);
}

// A file whose time no single function has: the class of vectors of a ray tracer.
static void hot_file(struct rules *r)
{
	uint32_t n_functions = fm_symbolizer_n_functions(r->a->symbolizer), best_id = 0, n = 0;
	double *by_file = fm_alloc((n_functions + 1) * sizeof(*by_file)), share = 0; // by the file's first function
	struct fm_map index = { 0 };
	for (size_t i = 0; i < r->t->functions.n; i++) {
		const struct fm_function_row *row = &r->t->functions.items[i];
		if (!fm_summary_is_users(r->t, row->function_id))
			continue;
		bool is_new;
		uint32_t file_id = fm_analysis_function(r->a, row->function_id)->file_id;
		uint64_t *slot = fm_map_at(&index, file_id, &is_new);
		if (is_new)
			*slot = row->function_id;
		by_file[*slot] += r->own[row->function_id];
		if (by_file[*slot] > share)
			share = by_file[*slot], best_id = file_id;
	}
	fm_map_deinit(&index);
	free(by_file);
	for (size_t i = 0; i < r->t->functions.n; i++) {
		uint32_t id = r->t->functions.items[i].function_id;
		n += fm_summary_is_users(r->t, id) && fm_analysis_function(r->a, id)->file_id == best_id &&
		     r->own[id] >= MIN_PART;
	}
	const struct fm_function_row *top = top_function(r, &best_id);
	// Where all of the program is in one file, that is no news.
	if (share < MUCH_FUNCTION || share > MUCH_OF_ALL || n < 2 || !top || r->line || has_said(r->v, "function"))
		return;
	const struct fm_function *f = fm_analysis_function(r->a, top->function_id);
	struct fm_str file = fm_label_file(r->a, top->function_id);
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "%.*s takes %.0f%% of the CPU time, spread over %u functions: %.*s has most, %.0f%%.",
		      (int)file.len, file.p, 100 * share, n, (int)f->name.len, f->name.p,
		      100 * r->own[top->function_id]);
	say(r, "file", share * r->busy, (struct place){ f->file, f->line }, &b);
}

static void imports(struct rules *r)
{
	double share = share_of(r, fm_weight_cpu_ns(&r->tree->imports)), most = 0;
	if (share < MUCH_IMPORTS)
		return;
	struct fm_str name = FM_STR_LIT("");
	double *by_package = fm_alloc((r->tree->packages.n + 1) * sizeof(*by_package));
	for (size_t i = 1; i < r->tree->nodes.n; i++) {
		const struct fm_own_node *node = &r->tree->nodes.items[i];
		if (node->kind != FM_OWN_PACKAGE || r->tree->nodes.items[node->parent].kind != FM_OWN_IMPORTS)
			continue;
		by_package[node->id] += share_of(r, fm_weight_cpu_ns(&node->total));
		if (by_package[node->id] > most)
			most = by_package[node->id], name = r->tree->packages.items[node->id].name;
	}
	free(by_package);
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "%.0f%% of the CPU time is imports", 100 * share);
	const struct fm_line_row *line = top_line(r, true);
	double there = line ? share_of(r, fm_weight_cpu_ns(&line->weight)) : 0;
	struct place at = nowhere;
	if (there >= share / 2) {
		at = place_of_line(r, line);
		fm_buf_printf(&b, ", %.0f%% at ", 100 * there);
		put_place(&b, at);
	}
	if (most >= 0.1)
		fm_buf_printf(&b, "; %.*s alone is %.0f%%", (int)name.len, name.p, 100 * most);
	fm_buf_u8(&b, '.');
	say(r, "imports", share * r->busy, at, &b);
}

// The interpreter collects once more when it ends, with no Python on the stack. Thresholds do not
// spare that, but frozen objects are not looked at.
static void last_collection(struct rules *r, double share)
{
	struct fm_buf b = { 0 };
	if (share < MUCH_GC)
		return;
	fm_buf_printf(&b,
		      "%.0f%% of the CPU time is the interpreter's last garbage collection, at its end: gc.freeze() as "
		      "the program's last statement spares it.",
		      100 * share);
	say(r, "gc-end", share * r->busy, nowhere, &b);
}

// What the program's code sets off.
static void collector(struct rules *r)
{
	double share = 0;
	for (size_t i = 0; i < r->t->lines.n; i++)
		share += share_of(r, r->t->lines.items[i].weight.ns[FM_CLASS_GC]);
	last_collection(r, share_of(r, r->t->total.ns[FM_CLASS_GC]) - share);
	struct fm_buf b = { 0 };
	if (share < MUCH_GC)
		return;
	fm_buf_printf(&b,
		      "Garbage collection takes %.0f%% of the CPU time: fewer live containers, gc.freeze() or a higher "
		      "gc.set_threshold() spare it.",
		      100 * share);
	say(r, "gc", share * r->busy, nowhere, &b);
}

static void system_calls(struct rules *r)
{
	double share = share_of(r, r->t->total.ns[FM_CLASS_SYSTEM]);
	if (share < MUCH_SYSTEM)
		return;
	const struct fm_line_row *best = NULL;
	for (size_t i = 0; i < r->t->lines.n; i++) {
		const struct fm_line_row *row = &r->t->lines.items[i];
		if (!best || row->weight.ns[FM_CLASS_SYSTEM] > best->weight.ns[FM_CLASS_SYSTEM])
			best = row;
	}
	double there = best ? share_of(r, best->weight.ns[FM_CLASS_SYSTEM]) : 0;
	if (best && (best == r->line || best == r->also) && there >= share / 2)
		return; // the line's own sentence has it
	struct place at = nowhere;
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "%.0f%% of the CPU time is system calls", 100 * share);
	if (there >= share / 2) {
		at = (struct place){ fm_analysis_function(r->a, best->function_id)->file, best->line };
		fm_buf_str(&b, ", most of it at ");
		put_place(&b, at);
	}
	fm_buf_u8(&b, '.');
	say(r, "system", share * r->busy, at, &b);
}

static void gil(struct rules *r)
{
	double gil_s = fm_seconds(r->t->total.ns[FM_CLASS_GIL_WAIT]);
	double share = gil_s / (gil_s + r->cpu_s); // of what threads that run Python wanted to do
	if (gil_s < MIN_WALL_S || share < MUCH_GIL)
		return;
	struct fm_buf b = { 0 };
	fm_buf_printf(
		&b,
		"Threads waited for the GIL for %.1f s beside %.1f s of CPU time: Python code runs in one thread at "
		"a time, and processes would run it side by side.",
		gil_s, r->cpu_s);
	say(r, "gil", share * r->busy, nowhere, &b);
}

// Where threads waited, by line and thread.
struct wait {
	uint32_t node, thread_id; // node: of the user's line
	bool is_lock;
	uint64_t ns;
};

struct waits {
	FM_VEC(struct wait) v;
};

static bool has_word(struct fm_str s, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = 0; i + n <= s.len; i++)
		if (!strncasecmp(s.p + i, word, n))
			return true;
	return false;
}

// Between the user's line and the wait there is no other Python function, and the line says that it
// takes something: a queue's get() waits for work in the same way.
static bool is_lock(const struct rules *r, const struct fm_attribution *payer)
{
	if (payer->own != payer->user)
		return false;
	const struct fm_node *node = &r->a->view.nodes.items[payer->user - 1];
	struct fm_str text =
		text_of(r, (struct place){ fm_analysis_function(r->a, node->function_id)->file, node->line });
	return fm_str_starts_with(text, "with ") || has_word(text, "acquire") || has_word(text, "lock");
}

static void gather_waits(const struct rules *r, struct waits *ret)
{
	struct fm_attribution *payers = fm_attribution_find(r->a->profile, &r->a->tally, &r->a->view, r->a->symbolizer);
	struct fm_map index = { 0 };
	for (size_t i = 0; i < r->a->tally.cells.n; i++) {
		const struct fm_cell *cell = &r->a->tally.cells.items[i];
		uint32_t leaf = fm_view_node(&r->a->view, cell->stack_id), at = leaf ? payers[leaf].user : 0;
		if (cell->class != FM_CLASS_WAIT || !at)
			continue;
		const struct fm_node *node = &r->a->view.nodes.items[at - 1];
		uint64_t line = fm_hash_u64((uint64_t)node->function_id << 32 | node->line);
		bool is_new;
		uint64_t *slot = fm_map_at(&index, fm_hash_u64(line + cell->thread_id), &is_new);
		if (is_new) {
			*slot = ret->v.n;
			fm_vec_push(&ret->v, (struct wait){ at - 1, cell->thread_id, is_lock(r, &payers[leaf]), 0 });
		}
		ret->v.items[*slot].ns += cell->weight_ns;
	}
	fm_map_deinit(&index);
	free(payers);
}

static struct place place_of(const struct rules *r, uint32_t node_id)
{
	const struct fm_node *node = &r->a->view.nodes.items[node_id];
	return (struct place){ fm_analysis_function(r->a, node->function_id)->file, node->line };
}

static bool is_same_line(const struct rules *r, uint32_t a, uint32_t b)
{
	const struct fm_node *x = &r->a->view.nodes.items[a], *y = &r->a->view.nodes.items[b];
	return x->function_id == y->function_id && x->line == y->line;
}

static void queueing(struct rules *r, const struct waits *waits)
{
	uint64_t most_ns = 0;
	unsigned n_threads = 0;
	uint32_t best = 0;
	for (size_t i = 0; i < waits->v.n; i++) {
		const struct wait *first = &waits->v.items[i];
		uint64_t sum = 0;
		unsigned n = 0;
		for (size_t k = 0; first->is_lock && k < waits->v.n; k++) {
			const struct wait *w = &waits->v.items[k];
			if (!is_same_line(r, first->node, w->node) || fm_seconds(w->ns) < MUCH_QUEUEING * r->run_s)
				continue;
			sum += w->ns;
			n++;
		}
		if (n >= 2 && sum > most_ns)
			most_ns = sum, n_threads = n, best = first->node;
	}
	if (!n_threads)
		return;
	double each_s = fm_seconds(most_ns) / n_threads;
	struct place at = place_of(r, best);
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "%u threads queue at ", n_threads);
	put_place(&b, at);
	fm_buf_printf(&b, ": each waited there for %.1f of %.1f s on average.", each_s, r->f->wall_s);
	say(r, "lock", each_s / r->run_s, at, &b);
}

// CPU time that no line of the user's has, as a library's own threads and processes use it; the names of those whose it
// is.
static uint64_t elsewhere_ns(const struct rules *r, struct packages *packages)
{
	struct fm_attribution *payers = fm_attribution_find(r->a->profile, &r->a->tally, &r->a->view, r->a->symbolizer);
	uint32_t main_id = fm_facts_main_thread(r->a);
	uint64_t all_ns = 0;
	for (size_t i = 0; i < r->a->tally.cells.n; i++) {
		const struct fm_cell *cell = &r->a->tally.cells.items[i];
		uint32_t leaf = fm_view_node(&r->a->view, cell->stack_id);
		if (!fm_class_is_cpu(cell->class) || cell->thread_id == main_id || (leaf && payers[leaf].user))
			continue;
		all_ns += cell->weight_ns;
		add_to_package(packages, package_below(r, leaf, 0), cell->weight_ns);
	}
	free(payers);
	return all_ns;
}

// The two lines at which the main thread waited longest; the same line is reached in many ways. Returns how many there
// are.
static unsigned longest_waits(const struct rules *r, const struct waits *waits, struct wait ret[2])
{
	struct waits lines = { 0 };
	uint32_t main_id = fm_facts_main_thread(r->a);
	for (size_t i = 0; i < waits->v.n; i++) {
		const struct wait *w = &waits->v.items[i];
		size_t k = 0;
		while (k < lines.v.n && !is_same_line(r, lines.v.items[k].node, w->node))
			k++;
		if (w->thread_id != main_id)
			continue;
		if (k == lines.v.n)
			fm_vec_push(&lines.v, *w);
		else
			lines.v.items[k].ns += w->ns;
	}
	unsigned n = 0;
	for (; n < 2 && n < lines.v.n; n++) {
		size_t best = n;
		for (size_t k = n; k < lines.v.n; k++)
			if (lines.v.items[k].ns > lines.v.items[best].ns)
				best = k;
		ret[n] = lines.v.items[best];
		lines.v.items[best] = lines.v.items[n];
		lines.v.items[n] = ret[n];
	}
	fm_vec_deinit(&lines.v);
	return n;
}

// scikit-learn's forests grow in joblib's threads and processes: the line to change is the one that waits for them.
static void elsewhere(struct rules *r, const struct waits *waits)
{
	struct packages packages = { .n = 0 };
	struct wait longest[2];
	uint64_t all_ns = elsewhere_ns(r, &packages);
	unsigned n = longest_waits(r, waits, longest);
	double share = share_of(r, all_ns);
	if (share < MUCH_ELSEWHERE || !n || fm_seconds(longest[0].ns) < MIN_IMPACT * r->run_s)
		return;
	struct place at = place_of(r, longest[0].node);
	struct fm_str package = most_of(&packages, all_ns);
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "%.0f%% of the CPU time is in threads and processes that run none of your lines",
		      100 * share);
	if (package.len)
		fm_buf_printf(&b, ", most of it in %.*s", (int)package.len, package.p);
	fm_buf_str(&b, "; the main thread waited at ");
	put_place(&b, at);
	fm_buf_printf(&b, " for %.1f s", fm_seconds(longest[0].ns));
	if (n > 1 && longest[1].ns >= longest[0].ns / 2) {
		fm_buf_str(&b, " and at ");
		put_place(&b, place_of(r, longest[1].node));
		fm_buf_printf(&b, " for %.1f s", fm_seconds(longest[1].ns));
	}
	fm_buf_u8(&b, '.');
	say(r, "elsewhere", share * r->busy, at, &b);
}

static void main_waits(struct rules *r, const struct waits *waits)
{
	const struct fm_profile *p = r->a->profile;
	const struct wait *best = NULL;
	double waited_s = 0, others_s = 0;
	uint32_t main_id = fm_facts_main_thread(r->a);
	for (uint32_t id = 0; id < FM_MIN(p->threads.n, r->a->tally.threads.n); id++) {
		if (id != main_id) {
			others_s = FM_MAX(others_s, fm_facts_thread_no_cpu_s(r->a, id));
			continue;
		}
		waited_s = fm_seconds(r->a->tally.threads.items[id].wait_ns);
		for (size_t i = 0; i < waits->v.n; i++)
			if (waits->v.items[i].thread_id == id && (!best || waits->v.items[i].ns > best->ns))
				best = &waits->v.items[i];
	}
	// While others compute, what they do is the story.
	if (waited_s < MUCH_WAITING * r->run_s || waited_s < MIN_WALL_S || r->busy > 1 - MUCH_WAITING)
		return;
	// Where no CPU was free for nearly all of it, what is left of the run is nothing to act on.
	if (waited_s < MIN_IMPACT * r->f->wall_s)
		return;
	struct place at = nowhere;
	struct fm_buf b = { 0 };
	fm_buf_printf(&b, "The main thread waited for %.1f of %.1f s", waited_s, r->f->wall_s);
	if (best && fm_seconds(best->ns) >= waited_s / 4) {
		at = place_of(r, best->node);
		fm_buf_printf(&b, ", %.1f s of it at ", fm_seconds(best->ns));
		put_place(&b, at);
	}
	if (others_s >= waited_s / 2) // it waits for workers, and they for others
		fm_buf_printf(&b, ", while another thread of the program had no CPU for %.1f s: the machine was busy",
			      others_s);
	fm_buf_u8(&b, '.');
	say(r, "waiting", waited_s / r->run_s, at, &b);
}

static void leak(struct rules *r)
{
	const struct fm_heap_leak_row *top = NULL; // the fastest; the list has the surest first
	for (size_t i = 0; i < r->a->heap.leaks.n; i++) {
		const struct fm_heap_leak_row *row = &r->a->heap.leaks.items[i];
		if (row->line && (!top || row->velocity_bytes_s > top->velocity_bytes_s))
			top = row;
	}
	if (!top)
		return;
	bool is_slow = top->velocity_bytes_s < 1e6;
	char text[32];
	struct place at = { fm_analysis_function(r->a, top->function_id)->file, top->line };
	struct fm_buf b = { 0 };
	double velocity = top->velocity_bytes_s / (is_slow ? 1e3 : 1e6);
	fm_buf_printf(&b, "Memory grows by %.*f %sB/s at ", velocity < 10, velocity, is_slow ? "k" : "M");
	put_place(&b, at);
	// What a program collects on purpose, all the time, grows in the same way.
	fm_buf_printf(&b, " and is not freed, at least %s by the end: a leak, unless all of it is needed.",
		      fm_style_bytes(top->bytes, text));
	say(r, "leak", LEAK_IMPACT, at, &b);
}

void fm_verdict_find(struct fm_verdict *v, const struct fm_analysis *a, const struct fm_facts *f,
		     const struct fm_summary *t, const struct fm_own_tree *tree)
{
	*v = (struct fm_verdict){ 0 };
	struct rules r = { .v = v, .a = a, .f = f, .t = t, .tree = tree };
	r.cpu_s = fm_seconds(fm_weight_cpu_ns(&t->total));
	r.run_s = f->wall_s - f->no_cpu_s;
	r.busy = r.run_s > 0 ? FM_MIN(r.cpu_s / r.run_s, 1.0) : 1;
	no_cpu(&r);
	if (r.cpu_s >= MIN_CPU_S && f->n_samples - f->n_waits >= MIN_SAMPLES) {
		find_own(&r);
		hot_line(&r);
		hot_function(&r);
		hot_file(&r);
		imports(&r);
		collector(&r);
		system_calls(&r);
		gil(&r);
		free(r.own);
	}
	if (f->n_waits && r.run_s >= MIN_WALL_S) {
		struct waits waits = { 0 };
		gather_waits(&r, &waits);
		queueing(&r, &waits);
		if (r.cpu_s >= MIN_CPU_S && f->n_samples - f->n_waits >= MIN_SAMPLES)
			elsewhere(&r, &waits);
		if (!has_said(v, "lock") && !has_said(v, "gil") &&
		    !has_said(v, "elsewhere")) // it waits for those who wait
			main_waits(&r, &waits);
		fm_vec_deinit(&waits.v);
	}
	leak(&r);
}

void fm_verdict_deinit(struct fm_verdict *v)
{
	for (unsigned i = 0; i < v->n; i++)
		fm_buf_deinit(&v->lines[i].text);
	v->n = 0;
}
