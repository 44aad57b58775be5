// SPDX-License-Identifier: Apache-2.0
#include "image/pieces.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "base/compiler.h"

// The interpreter's own loop has some ten thousand.
#define MAX_BOUNDS 100000u
#define MAX_NESTING 256u // of scopes

struct bounds {
	FM_VEC(uint64_t) items;
};

static int compare_addrs(const void *pa, const void *pb)
{
	const uint64_t *a = pa, *b = pb;
	return FM_ORDER(*a, *b);
}

static int compare_pieces(const void *pa, const void *pb)
{
	const struct fm_piece *a = pa, *b = pb;
	return a->start != b->start ? FM_ORDER(a->start, b->start) : FM_ORDER(a->end, b->end);
}

void fm_pieces_deinit(struct fm_pieces *p)
{
	fm_vec_deinit(&p->items);
}

static void add_ends(struct bounds *b, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	for (ptrdiff_t off = 0; b->items.n < MAX_BOUNDS && (off = dwarf_ranges(die, off, &base, &start, &end)) > 0;) {
		fm_vec_push(&b->items, start);
		fm_vec_push(&b->items, end);
	}
}

static void add_scopes(struct bounds *b, Dwarf_Die *scope, unsigned nesting)
{
	Dwarf_Die die;
	if (nesting > MAX_NESTING || dwarf_child(scope, &die))
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			add_ends(b, &die);
			add_scopes(b, &die, nesting + 1);
			break;
		}
	} while (b->items.n < MAX_BOUNDS && dwarf_siblingof(&die, &die) == 0);
}

static uint64_t addr_of(Dwarf_Lines *lines, size_t i)
{
	Dwarf_Addr addr = 0;
	return dwarf_lineaddr(dwarf_onesrcline(lines, i), &addr) ? 0 : addr;
}

static void add_rows(struct bounds *b, Dwarf_Lines *lines, size_t n_lines, uint64_t start, uint64_t end)
{
	size_t i = fm_bisect(n_lines, k, addr_of(lines, k) < start);
	for (; i < n_lines && b->items.n < MAX_BOUNDS && addr_of(lines, i) < end; i++)
		fm_vec_push(&b->items, addr_of(lines, i));
}

void fm_pieces_add(struct fm_pieces *p, Dwarf_Die *function, Dwarf_Die *has_lines)
{
	Dwarf_Lines *lines = NULL;
	size_t n_lines = 0;
	Dwarf_Addr base, start, end;
	struct bounds b = { 0 };
	add_ends(&b, function);
	add_scopes(&b, function, 0);
	if (dwarf_getsrclines(has_lines, &lines, &n_lines))
		n_lines = 0;
	for (ptrdiff_t off = 0; (off = dwarf_ranges(function, off, &base, &start, &end)) > 0;)
		add_rows(&b, lines, n_lines, start, end);
	if (b.items.n && b.items.n < MAX_BOUNDS) {
		qsort(b.items.items, b.items.n, sizeof(*b.items.items), compare_addrs);
		for (ptrdiff_t off = 0; (off = dwarf_ranges(function, off, &base, &start, &end)) > 0;) {
			size_t i = fm_bisect(b.items.n, k, b.items.items[k] < start);
			for (; i + 1 < b.items.n && b.items.items[i] < end; i++) {
				struct fm_piece piece = { b.items.items[i], b.items.items[i + 1] };
				if (piece.start < piece.end)
					fm_vec_push(&p->items, piece);
			}
		}
	}
	fm_vec_deinit(&b.items);
}

void fm_pieces_sort(struct fm_pieces *p)
{
	size_t kept = 0;
	if (p->items.n)
		qsort(p->items.items, p->items.n, sizeof(*p->items.items), compare_pieces);
	for (size_t i = 0; i < p->items.n; i++)
		if (!kept || p->items.items[kept - 1].end <= p->items.items[i].start)
			p->items.items[kept++] = p->items.items[i];
	p->items.n = kept;
}

bool fm_pieces_have(const struct fm_pieces *p, uint64_t addr)
{
	size_t i = fm_bisect(p->items.n, k, p->items.items[k].start <= addr);
	return i && addr < p->items.items[i - 1].end;
}
