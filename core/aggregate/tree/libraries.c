// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/libraries.h"

#include <stdlib.h>
#include <string.h>

// A start-up routine in assembler and a jump table are no reason to rebuild a library.
#define ENOUGH 0.9

// A sample speaks for each library on its stack by its innermost frame there. So a node speaks for
// the samples that go through it, less those that go on through another node of the same library:
// entering that one moves them over.
struct library {
	uint64_t all_ns, named_ns, lined_ns;
	uint32_t innermost; // node on the way from the root; 0 = none
};

// What a walk over millions of nodes asks of their functions, small enough for the cache.
struct fact {
	uint32_t library_id; // FM_NO_ID = none
	bool is_known, has_file;
};

struct step {
	uint32_t node, before; // before: the innermost of its library until then
};

struct build {
	const struct fm_view *view;
	const struct fact *facts; // by function id
	uint64_t *ns;             // by node: CPU time of the samples that end there or below
	struct library *libraries;
	FM_VEC(struct step) path;
};

static struct library *library_of(const struct build *b, uint32_t node, const struct fact **ret_f)
{
	*ret_f = &b->facts[b->view->nodes.items[node].function_id];
	return (*ret_f)->library_id == FM_NO_ID ? NULL : &b->libraries[(*ret_f)->library_id];
}

static void enter(struct build *b, uint32_t node)
{
	const struct fact *f, *outer;
	struct library *l = library_of(b, node, &f);
	fm_vec_push(&b->path, (struct step){ node, l ? l->innermost : 0 });
	if (!l)
		return;
	uint64_t ns = b->ns[node];
	if (l->innermost) {
		library_of(b, l->innermost, &outer);
		l->all_ns -= ns;
		l->named_ns -= outer->is_known ? ns : 0;
		l->lined_ns -= outer->has_file ? ns : 0;
	}
	l->all_ns += ns;
	l->named_ns += f->is_known ? ns : 0;
	l->lined_ns += f->has_file ? ns : 0;
	l->innermost = node;
}

// Up to the depth.
static void leave(struct build *b, uint32_t depth)
{
	while (b->path.n > depth) {
		const struct step *step = &b->path.items[--b->path.n];
		const struct fact *f;
		struct library *l = library_of(b, step->node, &f);
		if (l)
			l->innermost = step->before;
	}
}

static int compare(const void *pa, const void *pb)
{
	const struct fm_library_row *a = pa, *b = pb;
	return (b->share > a->share) - (b->share < a->share);
}

void fm_libraries_build(struct fm_libraries *l, const struct fm_tally *tally, const struct fm_view *view,
			const struct fm_symbolizer *symbolizer)
{
	*l = (struct fm_libraries){ 0 };
	uint32_t n = (uint32_t)view->nodes.n, n_libraries = fm_symbolizer_n_libraries(symbolizer);
	struct fact *facts = fm_alloc((fm_symbolizer_n_functions(symbolizer) + 1) * sizeof(*facts));
	for (uint32_t i = 0; i < fm_symbolizer_n_functions(symbolizer); i++) {
		const struct fm_function *f = fm_symbolizer_function(symbolizer, i);
		facts[i] = (struct fact){ f->library_id, f->is_known, f->file.len > 0 };
	}
	struct build b = { .view = view,
			   .facts = facts,
			   .ns = fm_alloc(n * sizeof(uint64_t)),
			   .libraries = fm_alloc((n_libraries + 1) * sizeof(struct library)) };
	for (size_t i = 0; i < tally->cells.n; i++)
		if (fm_class_is_cpu(tally->cells.items[i].class))
			b.ns[fm_view_node(view, tally->cells.items[i].stack_id)] += tally->cells.items[i].weight_ns;
	for (uint32_t i = n; i-- > 1;)
		b.ns[view->nodes.items[i].parent] += b.ns[i];
	for (uint32_t i = 1; i < n; i++) {
		leave(&b, view->nodes.items[i].depth - 1);
		enter(&b, i);
	}
	for (uint32_t i = 0; i < n_libraries; i++) {
		const struct library *sums = &b.libraries[i];
		double share = n && b.ns[0] ? (double)sums->all_ns / (double)b.ns[0] : 0;
		// System calls have their names and need no lines.
		if (share < FM_LIBRARY_MIN_SHARE ||
		    fm_str_eq(fm_symbolizer_library(symbolizer, i), FM_STR_LIT("[kernel]")))
			continue;
		struct fm_library_row row = { .path = fm_symbolizer_library(symbolizer, i),
					      .share = share,
					      .named_share = (double)sums->named_ns / (double)sums->all_ns,
					      .lines_share = (double)sums->lined_ns / (double)sums->all_ns,
					      .remedy = FM_STR_LIT("") };
		if (row.named_share < ENOUGH || row.lines_share < ENOUGH)
			row.remedy = fm_symbolizer_remedy(symbolizer, i, &l->arena);
		fm_vec_push(&l->rows, row);
	}
	if (l->rows.n)
		qsort(l->rows.items, l->rows.n, sizeof(*l->rows.items), compare);
	fm_vec_deinit(&b.path);
	free(b.ns);
	free(b.libraries);
	free(facts);
}

void fm_libraries_deinit(struct fm_libraries *l)
{
	fm_vec_deinit(&l->rows);
	fm_arena_deinit(&l->arena);
}
