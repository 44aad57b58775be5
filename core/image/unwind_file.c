// SPDX-License-Identifier: Apache-2.0
#include "image/unwind_file.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/kernel.h"
#include "base/mem.h"
#include "image/cfa_section.h"
#include "image/elf_file.h"
#include "image/unwind_rows.h"
#include "image/dwarf_regs.h"

#define PAGE_MASK 4095ull
// The dynamic linker's beginning describes itself nowhere. It is shorter than this, and nobody calls it.
#define ENTRY_BYTES 64u

// What a called function gives back as it was.
struct fm_unwind_file {
	struct fm_elf elf;
	Elf *plain; // the same file as libdw likes it: fm_cfa_make_plain()
	Dwarf *dwarf;
	Dwarf_CFI *eh_cfi, *debug_cfi; // NULL: none, or not to be believed
	bool did_check_cfi;
	struct fm_unwind_rows rows; // what .eh_frame lacks, as the agent gets it; read when first needed
	bool did_read_rows;
	const uint8_t *starts; // .eh_frame_hdr's sorted table
	size_t n_starts;
	uint64_t starts_base;
	uint64_t start, end, entry;
};

static void find_starts(struct fm_unwind_file *f)
{
	GElf_Shdr header;
	uint32_t words[3];
	Elf_Data *data = fm_elf_section(&f->elf, ".eh_frame_hdr", &header);
	if (!data || data->d_size < FM_CFA_INDEX_BYTES)
		return;
	memcpy(words, data->d_buf, sizeof(words));
	if (words[0] != FM_CFA_INDEX_HEAD)
		return;
	f->starts = (const uint8_t *)data->d_buf + FM_CFA_INDEX_BYTES;
	f->n_starts = FM_MIN((size_t)words[2], (data->d_size - FM_CFA_INDEX_BYTES) / 8);
	f->starts_base = header.sh_addr;
}

static bool find_span(struct fm_unwind_file *f)
{
	size_t n;
	bool is_any = false;
	f->start = UINT64_MAX;
	if (elf_getphdrnum(f->elf.elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr segment;
		if (!gelf_getphdr(f->elf.elf, (int)i, &segment) || segment.p_type != PT_LOAD)
			continue;
		f->start = FM_MIN(f->start, segment.p_vaddr & ~PAGE_MASK);
		f->end = FM_MAX(f->end, segment.p_vaddr + segment.p_memsz);
		is_any = true;
	}
	return is_any && f->end > f->start;
}

enum fm_err fm_unwind_file_open(int fd, struct fm_unwind_file **ret)
{
	FM_GUARD_FILES;
	char path[32];
	struct fm_unwind_file *f = fm_alloc(sizeof(*f));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	GElf_Ehdr header;
	bool is_good = fm_elf_open(path, &f->elf, NULL) == FM_OK;
	close(fd);
	if (!is_good || !gelf_getehdr(f->elf.elf, &header) || header.e_machine != EM_X86_64 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || !find_span(f)) {
		if (is_good)
			fm_elf_close(&f->elf);
		free(f);
		return FM_E_CORRUPT;
	}
	f->entry = header.e_entry;
	find_starts(f);
	*ret = f;
	return FM_OK;
}

enum fm_err fm_unwind_file_open_vdso(struct fm_unwind_file **ret)
{
	const Elf64_Ehdr *vdso = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	if (!vdso)
		return FM_E_NOT_FOUND;
	size_t len = vdso->e_shoff + (size_t)vdso->e_shnum * vdso->e_shentsize; // its sections' headers come last
	int fd = fm_memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0 || write(fd, vdso, len) != (ssize_t)len) {
		if (fd >= 0)
			close(fd);
		return FM_E_NOT_FOUND;
	}
	return fm_unwind_file_open(fd, ret);
}

// This process must outlive every file that it looks into, so libdw gets to run only what was
// looked over. All of it at once: in a damaged file the entry that it runs may be any. It takes
// some milliseconds for a hundred thousand functions.
static void open_cfi(struct fm_unwind_file *f)
{
	struct fm_cfa_section section;
	if (f->did_check_cfi)
		return;
	f->did_check_cfi = true;
	f->plain = elf_begin(f->elf.fd, ELF_C_READ_MMAP_PRIVATE, NULL);
	if (!f->plain)
		return;
	fm_cfa_make_plain(f->plain);
	if (fm_cfa_section_find(f->plain, ".eh_frame", &section) && fm_cfa_section_is_sane(&section))
		f->eh_cfi = dwarf_getcfi_elf(f->plain);
	if (fm_cfa_section_find(f->plain, ".debug_frame", &section) && fm_cfa_section_is_sane(&section)) {
		f->dwarf = dwarf_begin_elf(f->plain, DWARF_C_READ, NULL);
		f->debug_cfi = f->dwarf ? dwarf_getcfi(f->dwarf) : NULL;
	}
}

void fm_unwind_file_close(struct fm_unwind_file *f)
{
	if (!f)
		return;
	dwarf_end(f->dwarf); // debug_cfi is its
	if (f->eh_cfi)
		dwarf_cfi_end(f->eh_cfi);
	elf_end(f->plain);
	fm_vec_deinit(&f->rows);
	fm_elf_close(&f->elf);
	free(f);
}

void fm_unwind_file_get(const struct fm_unwind_file *f, struct fm_unwind_file_info *ret)
{
	*ret = (struct fm_unwind_file_info){ f->start, f->end, f->elf.build_id, f->elf.build_id_len };
}

enum fm_err fm_unwind_file_map(const struct fm_unwind_file *f, uint64_t map_off, uint64_t *ret)
{
	FM_GUARD_FILES;
	size_t n = 0;
	elf_getphdrnum(f->elf.elf, &n);
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr segment;
		if (!gelf_getphdr(f->elf.elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		uint64_t first = segment.p_offset & ~PAGE_MASK;
		// Protections may have been changed for a part of it: a mapping need not begin
		// where the segment does.
		if (map_off >= first && map_off < segment.p_offset + segment.p_filesz) {
			*ret = (segment.p_vaddr & ~PAGE_MASK) + (map_off - first);
			return FM_OK;
		}
	}
	return FM_E_NOT_FOUND;
}

bool fm_unwind_file_read(const struct fm_unwind_file *f, uint64_t addr, void *to, size_t len)
{
	FM_GUARD_FILES;
	size_t n = 0, size = 0;
	const char *bytes = elf_rawfile(f->elf.elf, &size);
	elf_getphdrnum(f->elf.elf, &n);
	for (size_t i = 0; bytes && i < n; i++) {
		GElf_Phdr segment;
		if (!gelf_getphdr(f->elf.elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    addr < segment.p_vaddr || addr - segment.p_vaddr >= segment.p_filesz)
			continue;
		uint64_t into = addr - segment.p_vaddr;
		if (len > segment.p_filesz - into || segment.p_offset > size || into > size - segment.p_offset ||
		    len > size - segment.p_offset - into)
			return false;
		memcpy(to, bytes + segment.p_offset + into, len);
		return true;
	}
	return false;
}

enum fm_err fm_unwind_file_symbol(const struct fm_unwind_file *f, const char *name, uint64_t *ret, uint64_t *ret_size)
{
	FM_GUARD_FILES;
	GElf_Sym symbol;
	if (!fm_elf_find_symbol(&f->elf, SHT_DYNSYM, name, &symbol) &&
	    !fm_elf_find_symbol(&f->elf, SHT_SYMTAB, name, &symbol))
		return FM_E_NOT_FOUND;
	*ret = symbol.st_value;
	if (ret_size)
		*ret_size = symbol.st_size;
	return FM_OK;
}

static int32_t saved_at(Dwarf_Frame *frame, int reg)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	if (dwarf_frame_register(frame, reg, mem, &ops, &n) != 0)
		return FM_RULE_LOST;
	if (n == 0) // the same value, or (ops is not NULL) undefined; libdw leaves rbx out of those that calls preserve
		return ops == NULL || reg == FM_DW_RBX ? FM_RULE_SAME : FM_RULE_LOST;
	if (reg == FM_DW_RBP && n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_breg6 &&
	    ops[1].number == 0)
		return FM_RULE_AT_RBP;
	if (n != 2 || ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_plus_uconst)
		return FM_RULE_LOST;
	int64_t off = (int64_t)ops[1].number;
	return off <= INT32_MIN || off >= INT32_MAX || off == 0 ? FM_RULE_LOST : (int32_t)off;
}

// Hand-written code (also some of ours: sigsafe/base/x86_resume.c) keeps the return address at a place
// of the stack.
static bool is_at_sp(Dwarf_Frame *frame, int32_t *ret)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	// libdw puts the CFA before expressions, which may want it on their stack.
	if (dwarf_frame_register(frame, FM_DW_RA, mem, &ops, &n) != 0 || n != 2 ||
	    ops[0].atom != DW_OP_call_frame_cfa || ops[1].atom != DW_OP_breg7 || ops[1].number > INT16_MAX)
		return false;
	*ret = (int32_t)ops[1].number;
	return *ret != 0;
}

// As linkers write it: rsp + 8 + ((rip & 15) >= N) * 8.
static bool is_plt_rule(const Dwarf_Op *ops, size_t n)
{
	static const uint8_t atoms[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
					 DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,   DW_OP_plus };
	for (size_t i = 0; n == FM_ARRAY_LEN(atoms) && i < n; i++)
		if (atoms[i] && ops[i].atom != atoms[i])
			return false;
	return n == FM_ARRAY_LEN(atoms) && ops[0].number == 8 && ops[4].atom >= DW_OP_lit0 &&
	       ops[4].atom <= DW_OP_lit31;
}

static bool rule_of(Dwarf_CFI *cfi, uint64_t addr, struct fm_unwind_rule *ret)
{
	Dwarf_Frame *frame;
	Dwarf_Addr start, end;
	bool is_signal = false;
	if (!cfi || dwarf_cfi_addrframe(cfi, addr, &frame) != 0)
		return false;
	Dwarf_Op *ops, mem[3];
	size_t n;
	if (dwarf_frame_info(frame, &start, &end, &is_signal) != FM_DW_RA) {
		free(frame);
		return false;
	}
	if (is_signal) {
		ret->kind = FM_RULE_SIGNAL;
	} else if (dwarf_frame_register(frame, FM_DW_RA, mem, &ops, &n) == 0 && n == 0 && ops) {
		ret->kind = FM_RULE_END;
	} else if ((saved_at(frame, FM_DW_RA) == -8 || is_at_sp(frame, &ret->ra_at_sp)) &&
		   dwarf_frame_cfa(frame, &ops, &n) == 0) {
		// libdw says "register + offset" in its own way, and expressions as they are
		// written.
		bool is_reg = n == 1 && ops[0].atom == DW_OP_bregx && ops[0].number < FM_RULE_N_REGS;
		bool is_deref = n == 2 && ops[0].atom >= DW_OP_breg0 && ops[0].atom < DW_OP_breg16 &&
				ops[1].atom == DW_OP_deref;
		if (is_plt_rule(ops, n)) {
			ret->kind = FM_RULE_PLT;
			ret->cfa_reg = FM_DW_RSP;
			ret->cfa_off = (int32_t)(ops[4].atom - DW_OP_lit0);
			for (int reg = 0; reg < FM_RULE_N_REGS; reg++)
				ret->saved[reg] = FM_DW_CALLEE_SAVED >> reg & 1 ? FM_RULE_SAME : FM_RULE_LOST;
		} else if (is_reg || is_deref) {
			ret->kind = is_reg ? FM_RULE_REG : FM_RULE_DEREF;
			ret->cfa_reg = (uint8_t)(is_reg ? ops[0].number : (Dwarf_Word)(ops[0].atom - DW_OP_breg0));
			ret->cfa_off = (int32_t)(is_reg ? ops[0].number2 : ops[0].number);
			for (int reg = 0; reg < FM_RULE_N_REGS; reg++)
				ret->saved[reg] = FM_DW_CALLEE_SAVED >> reg & 1 ? saved_at(frame, reg) : FM_RULE_LOST;
		}
	}
	free(frame);
	return true;
}

// The rows that the collector makes for agents: code that .eh_frame does not describe. The index of
// the address's row, or -1.
static ptrdiff_t find_row(struct fm_unwind_file *f, uint64_t addr)
{
	if (!f->did_read_rows) {
		char path[32];
		f->did_read_rows = true;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", f->elf.fd);
		if (fm_unwind_rows_read(path, &f->rows, NULL))
			f->rows.n = 0;
	}
	if (addr > UINT32_MAX)
		return -1;
	return (ptrdiff_t)fm_bisect(f->rows.n, i, f->rows.items[i].addr <= addr) - 1;
}

static void rule_of_rows(struct fm_unwind_file *f, uint64_t addr, struct fm_unwind_rule *ret)
{
	ptrdiff_t at = find_row(f, addr);
	if (at < 0)
		return;
	const struct fm_unwind_row *row = &f->rows.items[at];
	ret->kind = row->kind == FM_UNWIND_REG     ? FM_RULE_REG
		    : row->kind == FM_UNWIND_DEREF ? FM_RULE_DEREF
		    : row->kind == FM_UNWIND_END   ? FM_RULE_END
						   : FM_RULE_NONE;
	ret->is_guessed = row->flags & FM_UNWIND_GUESSED;
	ret->cfa_reg = row->cfa_reg;
	ret->cfa_off = row->cfa_off;
	for (int reg = 0; reg < FM_RULE_N_REGS; reg++)
		ret->saved[reg] = FM_RULE_LOST;
	ret->saved[FM_DW_RBP] = row->flags & FM_UNWIND_LOST_RBP    ? FM_RULE_LOST
				: row->rbp_off == FM_UNWIND_AT_RBP ? FM_RULE_AT_RBP
								   : row->rbp_off;
	ret->saved[FM_DW_RBX] = row->flags & FM_UNWIND_LOST_RBX ? FM_RULE_LOST : row->rbx_off;
}

void fm_unwind_file_rule(struct fm_unwind_file *f, uint64_t addr, struct fm_unwind_rule *ret)
{
	FM_GUARD_FILES;
	*ret = (struct fm_unwind_rule){ .kind = FM_RULE_NONE };
	open_cfi(f);
	if (rule_of(f->eh_cfi, addr, ret) || rule_of(f->debug_cfi, addr, ret))
		return;
	if (f->entry && addr >= f->entry && addr - f->entry < ENTRY_BYTES)
		ret->kind = FM_RULE_END;
	else
		rule_of_rows(f, addr, ret);
}

static uint64_t start_at(const struct fm_unwind_file *f, size_t i)
{
	int32_t off;
	memcpy(&off, f->starts + i * 8, sizeof(off));
	return f->starts_base + (uint64_t)(int64_t)off;
}

enum fm_err fm_unwind_file_function(struct fm_unwind_file *f, uint64_t addr, uint64_t *ret)
{
	FM_GUARD_FILES;
	struct fm_unwind_rule rule = { .kind = FM_RULE_NONE };
	open_cfi(f);
	if (f->n_starts && rule_of(f->eh_cfi, addr, &rule)) {
		size_t low = fm_bisect(f->n_starts, i, start_at(f, i) <= addr); // the first start past addr
		if (low == 0)
			return FM_E_NOT_FOUND;
		*ret = start_at(f, low - 1);
		return FM_OK;
	}
	for (ptrdiff_t at = find_row(f, addr); at >= 0 && f->rows.items[at].kind != FM_UNWIND_GAP; at--)
		if (f->rows.items[at].kind == FM_UNWIND_REG && f->rows.items[at].cfa_reg == FM_DW_RSP &&
		    f->rows.items[at].cfa_off == 8) {
			*ret = f->rows.items[at].addr;
			return FM_OK;
		}
	return FM_E_NOT_FOUND;
}
