// SPDX-License-Identifier: Apache-2.0
// libdw runs the entries' programs; this file lists the functions they describe and puts its
// answers into flat rows.
#include "image/unwind_rows.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/cfa_section.h"
#include "image/elf_file.h"
#include "image/dwarf_regs.h"

// A function with more rows than this is damage; the largest known (a bytecode interpreter) has
// some thousands.
#define MAX_ROWS_OF_FUNCTION 100000u
#define MAX_ROWS (4u << 20)
// libdw runs a function's program from its beginning for every row: rows by bytes of program, half
// a second of it.
#define MAX_WORK 200000000u
// The end of the addresses that a program can have.
#define MAX_ADDRESS (1ull << 56)

// Where a function's rows come from. Of two that claim the same addresses the first in this order
// is taken.
enum source {
	FROM_IMAGE, // the agent finds them itself
	FROM_EH_FRAME,
	FROM_DEBUG_FRAME,
	FROM_CODE,
};

struct function {
	uint64_t start, end;
	enum source source;
	const uint8_t *code; // FROM_CODE
	uint32_t n_program;  // bytes of its program, if it is described
};

struct functions {
	struct function *items;
	size_t n, cap;
};

static bool has_index(Elf *elf)
{
	size_t n;
	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr header;
		if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_GNU_EH_FRAME)
			return true;
	}
	return false;
}

// Adds the functions that a section describes.
struct listing {
	enum source source;
	uint64_t max_addr;
	struct functions *functions;
};

static void list_function(void *ctx, const struct fm_cfa_function *f)
{
	struct listing *l = ctx;
	// Address 0: the linker dropped the function and left its entry.
	if (f->start && f->start < f->end && f->end <= l->max_addr)
		fm_vec_push(l->functions, ((struct function){ f->start, f->end, l->source, NULL, f->n_program }));
}

// False: the section is damaged, and nothing of it can be believed.
static bool list_described(const struct fm_cfa_section *s, enum source source, uint64_t max_addr, struct functions *ret)
{
	struct listing listing = { source, max_addr, ret };
	return fm_cfa_section_each(s, list_function, &listing);
}

// The offset from the CFA at which a register is saved; *ret_is_lost when it is saved in another
// way.
static int16_t saved_offset(Dwarf_Frame *frame, int reg, bool *ret_is_lost)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	*ret_is_lost = true;
	if (dwarf_frame_register(frame, reg, mem, &ops, &n) != 0)
		return 0;
	if (n == 0) {
		// No operations: the same value, or (ops is not NULL) undefined. libdw's defaults
		// for this CPU leave rbx out of those that calls preserve; no compiler marks it
		// undefined.
		*ret_is_lost = ops != NULL && reg != FM_DW_RBX;
		return 0;
	}
	// libdw puts the CFA before expressions, which may want it on their stack.
	if (reg == FM_DW_RBP && n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_breg6 &&
	    ops[1].number == 0) {
		*ret_is_lost = false;
		return FM_UNWIND_AT_RBP;
	}
	if (n != 2 || ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_plus_uconst)
		return 0;
	int64_t off = (int64_t)ops[1].number;
	if (off <= INT16_MIN || off >= INT16_MAX || off == 0)
		return 0;
	*ret_is_lost = false;
	return (int16_t)off;
}

static void make_row(Dwarf_Frame *frame, bool is_signal, struct fm_unwind_row *row)
{
	Dwarf_Op *ops, mem[3];
	size_t n;
	bool is_lost;
	row->kind = FM_UNWIND_GAP;
	if (is_signal)
		return;
	if (dwarf_frame_register(frame, FM_DW_RA, mem, &ops, &n) == 0 && n == 0 && ops) {
		row->kind = FM_UNWIND_END;
		return;
	}
	if (saved_offset(frame, FM_DW_RA, &is_lost) != -8 || is_lost || dwarf_frame_cfa(frame, &ops, &n) != 0)
		return;
	// libdw says "register + offset" in its own way, and expressions as they are written.
	bool is_reg = n == 1 && ops[0].atom == DW_OP_bregx && ops[0].number < 16;
	bool is_deref = n == 2 && ops[0].atom == DW_OP_breg6 && ops[1].atom == DW_OP_deref;
	if (!is_reg && !is_deref)
		return;
	row->kind = is_reg ? FM_UNWIND_REG : FM_UNWIND_DEREF;
	row->cfa_reg = is_reg ? (uint8_t)ops[0].number : FM_DW_RBP;
	row->cfa_off = (int32_t)(is_reg ? ops[0].number2 : ops[0].number);
	row->rbp_off = saved_offset(frame, FM_DW_RBP, &is_lost);
	row->flags = is_lost ? FM_UNWIND_LOST_RBP : 0;
	row->rbx_off = saved_offset(frame, FM_DW_RBX, &is_lost);
	row->flags |= is_lost ? FM_UNWIND_LOST_RBX : 0;
}

static void add_described(Dwarf_CFI *cfi, const struct function *f, uint64_t base, struct fm_unwind_rows *ret)
{
	uint64_t addr = f->start;
	for (unsigned i = 0;
	     addr < f->end && i < MAX_ROWS_OF_FUNCTION && ret->n < MAX_ROWS && (uint64_t)i * f->n_program < MAX_WORK;
	     i++) {
		Dwarf_Frame *frame;
		Dwarf_Addr start, end;
		bool is_signal = false;
		if (dwarf_cfi_addrframe(cfi, addr, &frame) != 0)
			break;
		struct fm_unwind_row row = { .addr = (uint32_t)(addr - base) };
		if (dwarf_frame_info(frame, &start, &end, &is_signal) != FM_DW_RA || end <= addr)
			end = f->end;
		else
			make_row(frame, is_signal, &row);
		free(frame);
		fm_vec_push(ret, row);
		addr = end;
	}
	fm_vec_push(ret, (struct fm_unwind_row){ .addr = (uint32_t)(f->end - base) });
}

static void list_symbols(Elf *elf, Elf_Scn *scn, struct functions *ret)
{
	GElf_Shdr header;
	Elf_Data *data = elf_getdata(scn, NULL);
	if (!data || !data->d_buf || !gelf_getshdr(scn, &header) || !header.sh_entsize)
		return;
	for (size_t i = 0; i < data->d_size / header.sh_entsize; i++) {
		GElf_Sym sym;
		GElf_Shdr at;
		if (!gelf_getsym(data, (int)i, &sym) || GELF_ST_TYPE(sym.st_info) != STT_FUNC || !sym.st_size ||
		    sym.st_shndx == SHN_UNDEF || sym.st_shndx >= SHN_LORESERVE)
			continue;
		Elf_Scn *text = elf_getscn(elf, sym.st_shndx);
		Elf_Data *code = text ? elf_getdata(text, NULL) : NULL;
		if (!code || !code->d_buf || !gelf_getshdr(text, &at) || !(at.sh_flags & SHF_EXECINSTR) ||
		    sym.st_value < at.sh_addr || sym.st_value - at.sh_addr > code->d_size ||
		    sym.st_size > code->d_size - (sym.st_value - at.sh_addr) || sym.st_value + sym.st_size > UINT32_MAX)
			continue;
		struct function f = { sym.st_value, sym.st_value + sym.st_size, FROM_CODE,
				      (const uint8_t *)code->d_buf + (sym.st_value - at.sh_addr) };
		fm_vec_push(ret, f);
	}
}

// The functions that .symtab names, or .dynsym when that is stripped.
static void list_named(Elf *elf, struct functions *ret)
{
	static const unsigned kinds[] = { SHT_SYMTAB, SHT_DYNSYM };
	size_t before = ret->n;
	for (size_t k = 0; k < FM_ARRAY_LEN(kinds) && ret->n == before; k++)
		for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
			GElf_Shdr header;
			if (gelf_getshdr(scn, &header) && header.sh_type == kinds[k])
				list_symbols(elf, scn, ret);
		}
}

static int compare_functions(const void *pa, const void *pb)
{
	const struct function *a = pa, *b = pb;
	if (a->start != b->start)
		return (a->start > b->start) - (a->start < b->start);
	return (int)a->source - (int)b->source;
}

// The two tables that describe functions. Ended after what was listed from them is done with.
struct tables {
	Dwarf_CFI *eh_cfi, *debug_cfi;
	Dwarf *dwarf;
};

// Lists what they describe up to `max_address`; false when one of them makes no sense.
static bool open_tables(Elf *elf, enum source eh_source, uint64_t max_address, struct tables *ret,
			struct functions *functions)
{
	struct fm_cfa_section section;
	bool is_sane = true;
	*ret = (struct tables){ .eh_cfi = dwarf_getcfi_elf(elf) };
	if (ret->eh_cfi && fm_cfa_section_find(elf, ".eh_frame", &section))
		is_sane = list_described(&section, eh_source, max_address, functions);
	if (fm_cfa_section_find(elf, ".debug_frame", &section)) {
		ret->dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
		ret->debug_cfi = ret->dwarf ? dwarf_getcfi(ret->dwarf) : NULL;
		if (ret->debug_cfi && is_sane)
			is_sane = list_described(&section, FROM_DEBUG_FRAME, max_address, functions);
	}
	return is_sane;
}

static void end_tables(struct tables *t)
{
	dwarf_end(t->dwarf);
	if (t->eh_cfi)
		dwarf_cfi_end(t->eh_cfi);
}

static void add_functions(struct functions *functions, const struct tables *tables, uint64_t base,
			  struct fm_unwind_rows *ret)
{
	uint64_t done = 0;
	if (functions->n)
		qsort(functions->items, functions->n, sizeof(*functions->items), compare_functions);
	for (size_t i = 0; i < functions->n && ret->n < MAX_ROWS; i++) {
		const struct function *f = &functions->items[i];
		// The source that is better knows better where a function ends.
		bool is_cut = i + 1 < functions->n && functions->items[i + 1].start < f->end &&
			      functions->items[i + 1].source < f->source;
		if (f->start < done || is_cut)
			continue;
		done = f->end;
		if (f->source == FROM_IMAGE)
			continue;
		// The GAP that ended the function before gives way when this one begins there.
		if (ret->n && ret->items[ret->n - 1].addr == f->start - base)
			ret->n--;
		if (f->source == FROM_CODE)
			fm_x86_prologue_rows(f->code, f->end - f->start, (uint32_t)(f->start - base), ret);
		else
			add_described(f->source == FROM_EH_FRAME ? tables->eh_cfi : tables->debug_cfi, f, base, ret);
	}
}

enum fm_err fm_unwind_rows_read(const char *path, struct fm_unwind_rows *ret, struct fm_diag *diag)
{
	FM_GUARD_FILES;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "%s: %s", path, strerror(errno));
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP_PRIVATE, NULL);
	GElf_Ehdr header;
	if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header)) {
		elf_end(elf);
		return fm_diag_set(diag, FM_E_CORRUPT, "%s: not an ELF file", path);
	}
	if (header.e_machine == EM_X86_64 && header.e_ident[EI_CLASS] == ELFCLASS64) {
		fm_cfa_make_plain(elf);
		struct functions functions = { 0 };
		struct tables tables;
		if (!open_tables(elf, has_index(elf) ? FROM_IMAGE : FROM_EH_FRAME, UINT32_MAX, &tables, &functions))
			functions.n = 0;
		list_named(elf, &functions);
		add_functions(&functions, &tables, 0, ret);
		fm_vec_deinit(&functions);
		end_tables(&tables);
	}
	elf_end(elf);
	return FM_OK;
}

// What lies more than 4 GiB behind the first function is left out: rows count from there in 32
// bits.
static void keep_near(struct functions *functions, uint64_t *ret_base, uint64_t *ret_end)
{
	uint64_t base = UINT64_MAX, end = 0;
	for (size_t i = 0; i < functions->n; i++)
		base = FM_MIN(base, functions->items[i].start);
	size_t kept = 0;
	for (size_t i = 0; i < functions->n; i++)
		if (functions->items[i].end - base <= UINT32_MAX)
			functions->items[kept++] = functions->items[i];
	functions->n = kept;
	for (size_t i = 0; i < kept; i++)
		end = FM_MAX(end, functions->items[i].end);
	*ret_base = base;
	*ret_end = end;
}

void fm_unwind_rows_of_elf(Elf *elf, struct fm_unwind_rows *ret, uint64_t *ret_base, uint64_t *ret_end)
{
	struct functions functions = { 0 };
	struct tables tables;
	*ret_base = *ret_end = 0;
	if (open_tables(elf, FROM_EH_FRAME, MAX_ADDRESS, &tables, &functions) && functions.n) {
		keep_near(&functions, ret_base, ret_end);
		add_functions(&functions, &tables, *ret_base, ret);
	}
	fm_vec_deinit(&functions);
	end_tables(&tables);
}
