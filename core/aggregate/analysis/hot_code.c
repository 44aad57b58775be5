// SPDX-License-Identifier: Apache-2.0
#include "aggregate/analysis/hot_code.h"

#include <stdlib.h>

#include "base/bisect.h"

// CPU time of samples whose innermost frame stood at this address and is shown.
struct spot {
	uint32_t image_id;
	uint64_t addr;
	uint32_t outer, inner; // functions: as the linker has it, and what is inlined there
	uint64_t ns, n;
};

struct owner {
	uint32_t image_id, outer;
	uint64_t ns;
};

static int by_address(const void *pa, const void *pb)
{
	const struct spot *a = pa, *b = pb;
	return a->image_id != b->image_id ? FM_ORDER(a->image_id, b->image_id) : FM_ORDER(a->addr, b->addr);
}

static int by_owner(const void *pa, const void *pb)
{
	const struct owner *a = pa, *b = pb;
	return a->image_id != b->image_id ? FM_ORDER(a->image_id, b->image_id) : FM_ORDER(a->outer, b->outer);
}

static int by_weight(const void *pa, const void *pb)
{
	const struct owner *a = pa, *b = pb;
	return a->ns != b->ns ? FM_ORDER(b->ns, a->ns) : by_owner(pa, pb);
}

static int hotter(const void *pa, const void *pb)
{
	const struct fm_hot_function *a = pa, *b = pb;
	return a->self_ns != b->self_ns ? FM_ORDER(b->self_ns, a->self_ns)
					: FM_ORDER(a->listing->start, b->listing->start);
}

struct spots {
	FM_VEC(struct spot) items;
};

// Frames that are folded away gave their time to who called them: then no instruction has it.
static void find_spots(struct fm_analysis *a, struct spots *ret, uint64_t *ret_total_ns)
{
	const struct fm_profile *p = a->profile;
	const uint32_t n_known = fm_symbolizer_n_functions(a->symbolizer); // tables are as large as this
	for (size_t i = 0; i < a->tally.cells.n; i++) {
		const struct fm_cell *cell = &a->tally.cells.items[i];
		if (!fm_class_is_cpu(cell->class) || cell->stack_id >= p->stacks.n)
			continue;
		*ret_total_ns += cell->weight_ns;
		uint32_t frame_id = p->stacks.items[cell->stack_id].frame_id, n;
		if (!cell->stack_id || frame_id >= p->frames.n)
			continue;
		const struct fm_frame *frame = &p->frames.items[frame_id];
		if (frame->kind != FM_FRAME_NATIVE || frame->ref >= p->images.n)
			continue;
		// An image of which nothing is shown is not read for this: the report would tell of it.
		uint32_t node = fm_view_node(&a->view, cell->stack_id), shown = a->view.nodes.items[node].function_id;
		if (!node || !fm_str_eq(fm_analysis_function(a, shown)->path, p->images.items[frame->ref].path))
			continue;
		const struct fm_place *places = fm_symbolizer_places(a->symbolizer, frame_id, &n);
		uint32_t inner = places[n - 1].function_id;
		if (inner != shown || places[0].function_id >= n_known)
			continue;
		fm_vec_push(&ret->items, (struct spot){ frame->ref, frame->value, places[0].function_id, inner,
							cell->weight_ns, cell->n });
	}
	if (!ret->items.n)
		return;
	qsort(ret->items.items, ret->items.n, sizeof(*ret->items.items), by_address);
	size_t kept = 0;
	for (size_t i = 1; i < ret->items.n; i++) {
		struct spot *last = &ret->items.items[kept], *spot = &ret->items.items[i];
		if (by_address(last, spot)) {
			ret->items.items[++kept] = *spot;
		} else {
			last->ns += spot->ns;
			last->n += spot->n;
		}
	}
	ret->items.n = kept + 1;
}

// The heaviest functions, again in order of images.
static size_t find_owners(const struct spots *spots, const struct fm_hot_code_limits *limits, uint64_t total_ns,
			  struct owner *ret)
{
	size_t n = 0, kept = 0;
	for (size_t i = 0; i < spots->items.n; i++)
		ret[i] = (struct owner){ spots->items.items[i].image_id, spots->items.items[i].outer,
					 spots->items.items[i].ns };
	if (!spots->items.n)
		return 0;
	qsort(ret, spots->items.n, sizeof(*ret), by_owner);
	for (size_t i = 1; i < spots->items.n; i++) {
		if (by_owner(&ret[n], &ret[i]))
			ret[++n] = ret[i];
		else
			ret[n].ns += ret[i].ns;
	}
	qsort(ret, ++n, sizeof(*ret), by_weight);
	while (kept < n && kept < limits->max_functions && (double)ret[kept].ns >= limits->min_share * (double)total_ns)
		kept++;
	if (kept)
		qsort(ret, kept, sizeof(*ret), by_owner);
	return kept;
}

// A sample stands at the begin of an instruction; of code that was disassembled otherwise at the one
// around it.
static size_t instruction_at(const struct fm_machine_code *m, const struct fm_listing *l, uint64_t addr)
{
	size_t i = fm_bisect(l->n, k, m->items.items[l->first + k].addr <= addr);
	return l->first + (i ? i - 1 : 0);
}

static void weigh(struct fm_hot_code *h, const struct spots *spots)
{
	for (size_t i = 0; i < h->code.listings.n; i++) {
		const struct fm_listing *l = &h->code.listings.items[i];
		struct fm_hot_function f = { FM_NO_ID, l, 0 };
		const struct spot key = { .image_id = l->image_id, .addr = l->start };
		size_t first = fm_bisect(spots->items.n, k, by_address(&spots->items.items[k], &key) < 0);
		uint64_t most_ns = 0;
		for (size_t k = first; l->n && k < spots->items.n; k++) {
			const struct spot *spot = &spots->items.items[k];
			if (spot->image_id != l->image_id || spot->addr >= l->end)
				break;
			size_t at = instruction_at(&h->code, l, spot->addr);
			h->self_ns[at] += spot->ns;
			h->n_samples[at] += spot->n;
			h->self_function[at] = spot->inner;
			f.self_ns += spot->ns;
			if (spot->ns >= most_ns) {
				most_ns = spot->ns;
				f.function_id = spot->outer;
			}
		}
		if (f.self_ns)
			fm_vec_push(&h->functions, f);
	}
	if (h->functions.n)
		qsort(h->functions.items, h->functions.n, sizeof(*h->functions.items), hotter);
}

void fm_hot_code_build(struct fm_hot_code *h, struct fm_analysis *a, const struct fm_hot_code_limits *limits)
{
	*h = (struct fm_hot_code){ 0 };
	fm_arena_init(&h->code.arena);
	struct spots spots = { 0 };
	uint64_t total_ns = 0;
	find_spots(a, &spots, &total_ns);
	struct owner *owners = fm_alloc((spots.items.n + 1) * sizeof(*owners));
	size_t n_owners = find_owners(&spots, limits, total_ns, owners);
	for (size_t i = 0; i < n_owners && !h->code.lacks_library;) {
		FM_VEC(uint64_t) addrs = { 0 };
		uint32_t image_id = owners[i].image_id;
		size_t end = i;
		while (end < n_owners && owners[end].image_id == image_id)
			end++;
		for (size_t k = 0; k < spots.items.n; k++) {
			const struct spot *spot = &spots.items.items[k];
			const struct owner key = { image_id, spot->outer, 0 };
			if (spot->image_id == image_id && bsearch(&key, owners + i, end - i, sizeof(*owners), by_owner))
				fm_vec_push(&addrs, spot->addr);
		}
		fm_machine_code_add(&h->code, a->profile, image_id, addrs.items, addrs.n);
		fm_vec_deinit(&addrs);
		i = end;
	}
	free(owners);
	h->self_ns = fm_alloc((h->code.items.n + 1) * sizeof(*h->self_ns));
	h->n_samples = fm_alloc((h->code.items.n + 1) * sizeof(*h->n_samples));
	h->self_function = fm_alloc((h->code.items.n + 1) * sizeof(*h->self_function));
	for (size_t i = 0; i < h->code.items.n; i++)
		h->self_function[i] = FM_NO_ID;
	weigh(h, &spots);
	fm_vec_deinit(&spots.items);
}

void fm_hot_code_deinit(struct fm_hot_code *h)
{
	fm_machine_code_deinit(&h->code);
	fm_vec_deinit(&h->functions);
	free(h->self_ns);
	free(h->n_samples);
	free(h->self_function);
}
