// SPDX-License-Identifier: Apache-2.0
#include "image/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "image/object.h"
#include "image/pieces.h"

// Deeper chains come from damaged files: compilers give up inlining long before.
#define MAX_CHAIN 128
#define MAX_DIE_DEPTH 256 // of nested scopes; each takes a few hundred bytes of our stack
// Entries looked at in one unit. The largest have a million; a damaged one may lead in circles.
#define MAX_DIES 50000000u

// libdw keeps every line table that it has read, and mapped pages count as ours once touched. So
// after this many units both are let go: a library of 500 MB of DWARF then takes a tenth of that.
#define UNITS_PER_BREATH 16

struct fm_lines {
	const struct fm_elf *file;
	Dwarf *dwarf;
	char *missing_split; // NULL: nothing is missing
};

enum fm_err fm_lines_open(const struct fm_object *o, struct fm_lines **ret)
{
	return fm_lines_open_elf(o->place.origin == FM_DEBUG_OWN ? &o->main : &o->debug, ret);
}

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static bool is_zstd(const struct fm_elf *file)
{
	GElf_Shdr section;
	Elf64_Chdr header;
	Elf_Data *data = fm_elf_section(file, ".debug_info", &section);
	if (!data || !(section.sh_flags & SHF_COMPRESSED) || data->d_size < sizeof(header))
		return false;
	memcpy(&header, data->d_buf, sizeof(header));
	return header.ch_type == ELFCOMPRESS_ZSTD;
}

enum fm_err fm_lines_open_elf(const struct fm_elf *file, struct fm_lines **ret)
{
	if (!file->elf)
		return FM_E_NOT_FOUND;
	Dwarf *dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!dwarf && is_zstd(file))
		return FM_E_UNSUPPORTED;
	if (!dwarf)
		return dwarf_errno() ? FM_E_CORRUPT : FM_E_NOT_FOUND;
	struct fm_lines *l = fm_alloc(sizeof(*l));
	l->file = file;
	l->dwarf = dwarf;
	*ret = l;
	return FM_OK;
}

static void breathe(struct fm_lines *l)
{
	dwarf_end(l->dwarf);
	size_t len;
	char *mapped = l->file->fd >= 0 ? elf_rawfile(l->file->elf, &len) : NULL;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	// ELF_C_READ_MMAP maps without leave to write, so no page holds anything that the file has
	// not.
	if (mapped && (uintptr_t)mapped % page == 0)
		madvise(mapped, len, MADV_DONTNEED);
	l->dwarf = dwarf_begin_elf(l->file->elf, DWARF_C_READ, NULL);
}

void fm_lines_close(struct fm_lines *l)
{
	if (!l)
		return;
	dwarf_end(l->dwarf);
	free(l->missing_split);
	free(l);
}

const char *fm_lines_missing_split(const struct fm_lines *l)
{
	return l->missing_split;
}

const char *fm_lines_libdw_version(void)
{
	return dwfl_version(NULL);
}

bool fm_lines_reads_packages(void)
{
	unsigned major = 0, minor = 0;
	return sscanf(fm_lines_libdw_version(), "%u.%u", &major, &minor) == 2 && (major > 0 || minor >= 191);
}

// Which unit holds each address.
struct want {
	Dwarf_Off unit; // of its DIE in .debug_info; NO_UNIT = unknown
	size_t addr_idx;
};
#define NO_UNIT UINT64_MAX

struct range {
	uint64_t start, end;
	Dwarf_Off unit;
};

static int compare_ranges(const void *pa, const void *pb)
{
	const struct range *a = pa, *b = pb;
	return FM_ORDER(a->start, b->start);
}

static int compare_wants(const void *pa, const void *pb)
{
	const struct want *a = pa, *b = pb;
	return a->unit != b->unit ? FM_ORDER(a->unit, b->unit) : FM_ORDER(a->addr_idx, b->addr_idx);
}

static size_t find_by_aranges(Dwarf *dwarf, const uint64_t *addrs, size_t n, struct want *wants)
{
	Dwarf_Aranges *aranges;
	size_t n_aranges, n_found = 0;
	if (dwarf_getaranges(dwarf, &aranges, &n_aranges))
		return 0;
	for (size_t i = 0; i < n; i++) {
		Dwarf_Off unit;
		Dwarf_Arange *found = dwarf_getarange_addr(aranges, addrs[i]);
		if (found && !dwarf_getarangeinfo(found, NULL, NULL, &unit)) {
			wants[i].unit = unit;
			n_found++;
		}
	}
	return n_found;
}

// Compilers may leave .debug_aranges out (clang does): then the first DIE of each unit tells.
static void find_by_units(Dwarf *dwarf, const uint64_t *addrs, size_t n, struct want *wants)
{
	FM_VEC(struct range) ranges = { 0 };
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	uint8_t type;
	while (dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL) == 0) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		Dwarf_Addr base, start, end;
		for (ptrdiff_t off = 0; (off = dwarf_ranges(&die, off, &base, &start, &end)) > 0;)
			if (start < end)
				fm_vec_push(&ranges, (struct range){ start, end, dwarf_dieoffset(&die) });
	}
	if (ranges.n)
		qsort(ranges.items, ranges.n, sizeof(*ranges.items), compare_ranges);
	for (size_t i = 0, r = 0; i < n; i++) {
		while (r < ranges.n && ranges.items[r].start <= addrs[i])
			r++;
		if (wants[i].unit == NO_UNIT && r && addrs[i] < ranges.items[r - 1].end)
			wants[i].unit = ranges.items[r - 1].unit;
	}
	fm_vec_deinit(&ranges);
}

// The functions that hold one address, outermost first.
struct chain {
	uint32_t n;
	Dwarf_Die dies[];
};

struct walk {
	const uint64_t *addrs; // of one unit, rising
	struct chain_ref {
		struct chain *chain; // NULL: no function was found yet
		uint32_t cap;
	} * chains;
	size_t n;
	bool into_every_function;
	uint32_t n_dies;
};

static size_t first_at_or_after(const struct walk *w, uint64_t addr)
{
	return fm_bisect(w->n, i, w->addrs[i] < addr);
}

static bool push(struct chain_ref *ref, Dwarf_Die *die, uint32_t depth)
{
	// Scopes are nested: what hangs below another scope, or comes twice, is damage or a copy.
	if ((ref->chain ? ref->chain->n : 0) != depth || depth >= MAX_CHAIN)
		return false;
	if (depth == ref->cap) {
		ref->cap = ref->cap ? ref->cap * 2 : 4;
		ref->chain = fm_realloc_array(ref->chain, 1, sizeof(*ref->chain) + ref->cap * sizeof(Dwarf_Die));
	}
	ref->chain->dies[depth] = *die;
	ref->chain->n = depth + 1;
	return true;
}

// Adds the function to the chain of each wanted address in it. False: there is none.
static bool take(struct walk *w, Dwarf_Die *die, uint32_t depth)
{
	bool is_wanted = false;
	Dwarf_Addr base, start, end;
	for (ptrdiff_t off = 0; (off = dwarf_ranges(die, off, &base, &start, &end)) > 0;)
		for (size_t i = first_at_or_after(w, start); i < w->n && w->addrs[i] < end; i++)
			is_wanted |= push(&w->chains[i], die, depth);
	return is_wanted;
}

static bool holds_any(struct walk *w, Dwarf_Die *die)
{
	bool has_ranges = false;
	Dwarf_Addr base, start, end;
	for (ptrdiff_t off = 0; (off = dwarf_ranges(die, off, &base, &start, &end)) > 0;) {
		has_ranges = true;
		size_t i = first_at_or_after(w, start);
		if (i < w->n && w->addrs[i] < end)
			return true;
	}
	return !has_ranges;
}

// depth: functions around this scope. nesting: scopes around it.
static void walk_scope(struct walk *w, Dwarf_Die *scope, uint32_t depth, unsigned nesting)
{
	Dwarf_Die die;
	if (nesting > MAX_DIE_DEPTH || dwarf_child(scope, &die))
		return;
	do {
		if (++w->n_dies > MAX_DIES)
			return;
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			if (take(w, &die, 0))
				walk_scope(w, &die, 1, nesting + 1);
			else if (w->into_every_function)
				walk_scope(w, &die, 0, nesting + 1);
			break;
		case DW_TAG_inlined_subroutine:
			if (depth && take(w, &die, depth))
				walk_scope(w, &die, depth + 1, nesting + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			if (depth && holds_any(w, &die))
				walk_scope(w, &die, depth, nesting + 1);
			else if (!depth && w->into_every_function)
				walk_scope(w, &die, depth, nesting + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
			walk_scope(w, &die, depth, nesting + 1);
			break;
		case DW_TAG_class_type: // functions are defined in their classes by some compilers
		case DW_TAG_structure_type:
			if (w->into_every_function)
				walk_scope(w, &die, depth, nesting + 1);
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
}

static const char *name_of(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr) || dwarf_attr_integrate(die, DW_AT_name, &attr))
		return dwarf_formstring(&attr);
	return NULL;
}

// Not dwarf_decl_file(): elfutils 0.188 asserts that a split unit's files were read before.
static const char *declared_in(Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Word idx;
	Dwarf_Die unit;
	Dwarf_Files *files;
	if (!dwarf_attr_integrate(die, DW_AT_decl_file, &attr) || dwarf_formudata(&attr, &idx) ||
	    !dwarf_cu_die(attr.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL) || dwarf_getsrcfiles(&unit, &files, NULL))
		return NULL;
	return dwarf_filesrc(files, idx, NULL, NULL);
}

static const char *call_of(Dwarf_Die *unit, Dwarf_Die *inlined, uint32_t *ret_line)
{
	Dwarf_Attribute attr;
	Dwarf_Word value;
	Dwarf_Files *files;
	if (dwarf_attr(inlined, DW_AT_call_line, &attr) && !dwarf_formudata(&attr, &value))
		*ret_line = (uint32_t)value;
	if (dwarf_attr(inlined, DW_AT_call_file, &attr) && !dwarf_formudata(&attr, &value) &&
	    !dwarf_getsrcfiles(unit, &files, NULL))
		return dwarf_filesrc(files, value, NULL, NULL);
	return NULL;
}

static const char *source_of(Dwarf_Die *unit, uint64_t addr, uint32_t *ret_line)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, addr);
	int number = 0;
	if (!line || dwarf_lineno(line, &number))
		return NULL;
	*ret_line = number > 0 ? (uint32_t)number : 0;
	return dwarf_linesrc(line, NULL, NULL);
}

// Who is told, of each address or of pieces of functions.
struct listener {
	fm_lines_fn each;
	fm_lines_piece_fn each_piece;
	void *ctx;
};

static void tell(const struct listener *to, const struct fm_piece *piece, size_t addr_idx,
		 const struct fm_line_frame *frames, size_t n)
{
	if (to->each_piece)
		to->each_piece(to->ctx, piece->start, piece->end, frames, n);
	else
		to->each(to->ctx, addr_idx, frames, n);
}

// skeleton has the lines; unit, which may be its split half in a .dwo file, the functions.
static void hand_over(Dwarf_Die *skeleton, Dwarf_Die *unit, const struct fm_piece *piece, size_t addr_idx,
		      const struct chain *chain, const struct listener *to)
{
	struct fm_line_frame frames[MAX_CHAIN] = { { 0 } };
	uint32_t line = 0, n = chain ? chain->n : 0;
	const char *file = source_of(skeleton, piece->start, &line);
	if (!n) {
		if (!file)
			return;
		frames[0] = (struct fm_line_frame){ .file = file, .line = line };
		tell(to, piece, addr_idx, frames, 1);
		return;
	}
	for (uint32_t i = n; i-- > 0;) { // from the innermost outwards: each call's line is known to the callee
		Dwarf_Die die = chain->dies[i];
		int first_line = 0;
		struct fm_line_frame *f = &frames[i];
		f->name = name_of(&die);
		f->is_inlined = i > 0;
		f->file = declared_in(&die);
		if (!dwarf_decl_line(&die, &first_line) && first_line > 0)
			f->first_line = (uint32_t)first_line;
		if (!f->file)
			f->file = file;
		// Code that the function includes from another file: its own first line is what can
		// be told of its own file.
		f->line = file && f->file && strcmp(file, f->file) ? f->first_line : line;
		line = 0;
		file = i ? call_of(unit, &die, &line) : NULL;
	}
	tell(to, piece, addr_idx, frames, n);
}

static const char *string_of(Dwarf_Die *die, unsigned name, unsigned gnu_name)
{
	Dwarf_Attribute attr;
	if (!dwarf_attr(die, name, &attr) && (!gnu_name || !dwarf_attr(die, gnu_name, &attr)))
		return NULL;
	return dwarf_formstring(&attr);
}

static void miss_split(struct fm_lines *l, Dwarf_Die *skeleton)
{
	const char *name = string_of(skeleton, DW_AT_dwo_name, DW_AT_GNU_dwo_name);
	const char *folder = string_of(skeleton, DW_AT_comp_dir, 0);
	if (l->missing_split || !name)
		return;
	if (asprintf(&l->missing_split, "%s%s%s", name[0] != '/' && folder ? folder : "",
		     name[0] != '/' && folder ? "/" : "", name) < 0)
		l->missing_split = NULL;
}

static int compare_dies(const void *pa, const void *pb)
{
	const Dwarf_Die *a = pa, *b = pb;
	return FM_ORDER(a->addr, b->addr);
}

// All pieces of the functions that the chains begin with.
static void resolve_pieces(Dwarf_Die *skeleton, Dwarf_Die *unit, const struct walk *found, struct fm_pieces *pieces,
			   const struct listener *to)
{
	Dwarf_Die *functions = fm_alloc((found->n + 1) * sizeof(*functions));
	size_t n = 0, kept = 0;
	for (size_t i = 0; i < found->n; i++)
		if (found->chains[i].chain)
			functions[n++] = found->chains[i].chain->dies[0];
	qsort(functions, n, sizeof(*functions), compare_dies);
	for (size_t i = 0; i < n; i++)
		if (!kept || functions[i].addr != functions[kept - 1].addr)
			functions[kept++] = functions[i];
	for (size_t i = 0; i < kept; i++)
		fm_pieces_add(pieces, &functions[i], skeleton);
	fm_pieces_sort(pieces);
	n = pieces->items.n;
	uint64_t *starts = fm_alloc((n + 1) * sizeof(*starts));
	for (size_t i = 0; i < n; i++)
		starts[i] = pieces->items.items[i].start;
	struct walk w = { starts, fm_alloc((n + 1) * sizeof(*w.chains)), n, false, 0 };
	for (size_t i = 0; i < kept; i++)
		if (take(&w, &functions[i], 0))
			walk_scope(&w, &functions[i], 1, 0);
	for (size_t i = 0; i < n; i++) {
		hand_over(skeleton, unit, &pieces->items.items[i], 0, w.chains[i].chain, to);
		free(w.chains[i].chain);
	}
	free(w.chains);
	free(starts);
	free(functions);
}

static void resolve_unit(struct fm_lines *l, Dwarf_Off off, const struct want *wants, size_t n, const uint64_t *addrs,
			 const struct listener *to)
{
	Dwarf_Die skeleton, unit, split;
	if (!dwarf_offdie(l->dwarf, off, &skeleton))
		return;
	uint8_t type = 0;
	unit = skeleton;
	if (!dwarf_cu_info(skeleton.cu, NULL, &type, NULL, &split, NULL, NULL, NULL) && type == DW_UT_skeleton) {
		if (split.cu)
			unit = split;
		else
			miss_split(l, &skeleton);
	}
	uint64_t *own = fm_alloc(n * sizeof(*own));
	for (size_t i = 0; i < n; i++)
		own[i] = addrs[wants[i].addr_idx];
	struct walk w = { own, fm_alloc(n * sizeof(*w.chains)), n, false, 0 };
	walk_scope(&w, &unit, 0, 0);
	size_t n_missing = 0;
	for (size_t i = 0; i < n; i++)
		n_missing += !w.chains[i].chain;
	if (n_missing) { // functions inside functions (Fortran, nested C) have addresses outside the outer one's
		w.into_every_function = true;
		walk_scope(&w, &unit, 0, 0);
	}
	struct fm_pieces pieces = { 0 };
	if (to->each_piece)
		resolve_pieces(&skeleton, &unit, &w, &pieces, to);
	for (size_t i = 0; i < n; i++) {
		struct fm_piece alone = { own[i], own[i] + 1 };
		if (!fm_pieces_have(&pieces, own[i]))
			hand_over(&skeleton, &unit, &alone, wants[i].addr_idx, w.chains[i].chain, to);
		free(w.chains[i].chain);
	}
	fm_pieces_deinit(&pieces);
	free(w.chains);
	free(own);
}

static void resolve(struct fm_lines *l, const uint64_t *addrs, size_t n, const struct listener *to)
{
	struct want *wants = fm_alloc((n + 1) * sizeof(*wants));
	for (size_t i = 0; i < n; i++)
		wants[i] = (struct want){ NO_UNIT, i };
	if (find_by_aranges(l->dwarf, addrs, n, wants) < n)
		find_by_units(l->dwarf, addrs, n, wants);
	qsort(wants, n, sizeof(*wants), compare_wants);
	unsigned n_units = 0;
	for (size_t i = 0, k; i < n && wants[i].unit != NO_UNIT; i = k) {
		if (++n_units % UNITS_PER_BREATH == 0)
			breathe(l);
		if (!l->dwarf)
			break;
		for (k = i + 1; k < n && wants[k].unit == wants[i].unit;)
			k++;
		resolve_unit(l, wants[i].unit, &wants[i], k - i, addrs, to);
	}
	free(wants);
}

void fm_lines_resolve(struct fm_lines *l, const uint64_t *addrs, size_t n, fm_lines_fn each, void *ctx)
{
	resolve(l, addrs, n, &(struct listener){ .each = each, .ctx = ctx });
}

void fm_lines_resolve_functions(struct fm_lines *l, const uint64_t *addrs, size_t n, fm_lines_piece_fn each, void *ctx)
{
	resolve(l, addrs, n, &(struct listener){ .each_piece = each, .ctx = ctx });
}
