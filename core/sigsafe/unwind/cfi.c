// SPDX-License-Identifier: Apache-2.0
// A reader for .eh_frame: DWARF call frame instructions run up to one pc.
#include "sigsafe/unwind/cfi.h"

#include <dwarf.h>

#include <stddef.h>

#include "format/model.h"
#include "sigsafe/unwind/leb.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

// remember_state nests one deep in practice; a program that exceeds this is taken for damaged. Each
// takes 150 bytes of the target's stack.
#define MAX_REMEMBERED 4
// Letters that say what else an entry has: "zPLRSB" has them all. What comes after these is skipped
// by its length.
#define MAX_AUGMENTATION 7
// Longest run of instructions looked at for one function.
#define MAX_INSTRUCTIONS 20000

// A pointer in one of the DW_EH_PE encodings; only those that images use in .eh_frame.
static FM_SIGSAFE uint64_t read_encoded(struct fm_sig_reader *r, uint8_t enc)
{
	uintptr_t here = r->pos;
	uint64_t v;
	switch (enc & 0x0f) {
	case 0x00: // absptr
	case 0x04: // udata8
	case 0x0c: // sdata8
		v = fm_sig_read_fixed(r, 8);
		break;
	case 0x01:
		v = fm_sig_read_uleb(r);
		break;
	case 0x02:
		v = fm_sig_read_fixed(r, 2);
		break;
	case 0x03:
		v = fm_sig_read_fixed(r, 4);
		break;
	case 0x09:
		v = (uint64_t)fm_sig_read_sleb(r);
		break;
	case 0x0a:
		v = (uint64_t)(int16_t)fm_sig_read_fixed(r, 2);
		break;
	case 0x0b:
		v = (uint64_t)(int32_t)fm_sig_read_fixed(r, 4);
		break;
	default:
		r->is_bad = true;
		return 0;
	}
	if ((enc & 0x70) == 0x10) // pcrel
		v += here;
	else if (enc & 0x70)
		r->is_bad = true;
	return v;
}

struct cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t fde_enc;
	bool has_augmentation_data, is_signal_frame;
	struct fm_sig_reader program;
};

static FM_SIGSAFE bool read_cie(struct fm_sig_reader r, struct cie *ret)
{
	uint32_t len = (uint32_t)fm_sig_read_fixed(&r, 4);
	if (r.is_bad || len == 0 || len >= 0xfffffff0 || len > r.end - r.pos)
		return false;
	r.end = r.pos + len;
	if (fm_sig_read_fixed(&r, 4) != 0) // a CIE's id in .eh_frame
		return false;
	uint8_t version = (uint8_t)fm_sig_read_fixed(&r, 1);
	if (version != 1 && version != 3)
		return false;
	char aug[MAX_AUGMENTATION + 1] = { 0 };
	for (unsigned n = 0; (aug[FM_MIN(n, MAX_AUGMENTATION)] = (char)fm_sig_read_fixed(&r, 1)); n++)
		if (r.is_bad)
			return false;
	aug[MAX_AUGMENTATION] = 0;
	ret->code_align = fm_sig_read_uleb(&r);
	ret->data_align = fm_sig_read_sleb(&r);
	if (version == 1)
		fm_sig_read_fixed(&r, 1);
	else
		fm_sig_read_uleb(&r);
	ret->fde_enc = 0;
	ret->is_signal_frame = false;
	ret->has_augmentation_data = aug[0] == 'z';
	if (aug[0] == 'z') {
		uint64_t aug_len = fm_sig_read_uleb(&r);
		if (r.is_bad || aug_len > r.end - r.pos)
			return false;
		uintptr_t aug_end = r.pos + aug_len;
		for (const char *a = aug + 1; *a; a++) {
			if (*a == 'R')
				ret->fde_enc = (uint8_t)fm_sig_read_fixed(&r, 1);
			else if (*a == 'L')
				fm_sig_read_fixed(&r, 1);
			else if (*a == 'P') {
				uint8_t enc = (uint8_t)fm_sig_read_fixed(&r, 1);
				read_encoded(&r, enc & 0x0f); // only its length matters
			} else if (*a == 'S')
				ret->is_signal_frame = true;
			else if (*a != 'B' && *a != 'G')
				break; // unknown: what follows is skipped by the length
		}
		r.pos = aug_end;
	} else if (aug[0] != 0) {
		return false; // "eh" of very old compilers
	}
	ret->program.pos = r.pos;
	ret->program.end = r.end;
	ret->program.is_bad = r.is_bad;
	return !r.is_bad;
}

static FM_SIGSAFE void set_rule(struct fm_cfi_row *row, uint64_t reg, uint8_t where, int64_t off)
{
	if (reg >= FM_CFI_N_REGS)
		return; // vector registers and the like never find a caller
	row->state.regs[reg].where = where;
	row->state.regs[reg].off = (int32_t)off;
}

static FM_SIGSAFE void set_cfa(struct fm_cfi_row *row, uint64_t reg, int64_t off)
{
	row->state.cfa.where = FM_CFI_REGISTER;
	row->state.cfa.off = (int32_t)off;
	row->state.cfa_reg = reg < FM_CFI_N_REGS ? (uint8_t)reg : FM_CFI_N_REGS;
}

// DW_CFA_restore: back to what the CIE said.
static FM_SIGSAFE void reset_rule(struct fm_cfi_row *row, uint64_t reg, const struct fm_cfi_state *initial)
{
	if (initial && reg < FM_CFI_N_REGS)
		fm_sig_copy(&row->state.regs[reg], &initial->regs[reg], sizeof(struct fm_cfi_rule));
}

// n in units of the CIE's data alignment. Unsigned: a damaged entry may overflow.
static FM_SIGSAFE int64_t scaled(const struct cie *cie, uint64_t n)
{
	return (int64_t)(n * (uint64_t)cie->data_align);
}

// An expression's place and length; the reader moves past it.
static FM_SIGSAFE bool read_expr(struct fm_sig_reader *r, const struct fm_cfi_row *row, struct fm_cfi_rule *ret,
				 uint8_t where)
{
	uint64_t len = fm_sig_read_uleb(r);
	int64_t off = (int64_t)(r->pos - row->origin);
	if (r->is_bad || len > UINT8_MAX || len > r->end - r->pos || off != (int32_t)off)
		return false;
	r->pos += len;
	if (ret) {
		ret->where = where;
		ret->off = (int32_t)off;
		ret->expr_len = (uint8_t)len;
	}
	return true;
}

// A program that is being run, and the row that it makes.
struct program {
	struct fm_sig_reader r;
	const struct cie *cie;
	const struct fm_cfi_state *initial; // after the CIE's own program, for DW_CFA_restore; NULL = this is it
	struct fm_cfi_row *row;
	unsigned n_remembered;
	struct fm_cfi_state remembered[MAX_REMEMBERED];
};

static FM_SIGSAFE bool remember(struct program *p)
{
	if (p->n_remembered == MAX_REMEMBERED)
		return false;
	fm_sig_copy(&p->remembered[p->n_remembered++], &p->row->state, sizeof(p->row->state));
	return true;
}

static FM_SIGSAFE bool restore(struct program *p)
{
	if (p->n_remembered == 0)
		return false;
	fm_sig_copy(&p->row->state, &p->remembered[--p->n_remembered], sizeof(p->row->state));
	return true;
}

// What says where the CFA is. An offset alone counts from the register that was said before: after
// an expression there is none.
static FM_SIGSAFE bool run_cfa(struct program *p, uint8_t op)
{
	struct fm_cfi_rule *cfa = &p->row->state.cfa;
	uint64_t reg;
	switch (op) {
	case DW_CFA_def_cfa:
		reg = fm_sig_read_uleb(&p->r);
		set_cfa(p->row, reg, (int64_t)fm_sig_read_uleb(&p->r));
		return true;
	case DW_CFA_def_cfa_sf:
		reg = fm_sig_read_uleb(&p->r);
		set_cfa(p->row, reg, scaled(p->cie, (uint64_t)fm_sig_read_sleb(&p->r)));
		return true;
	case DW_CFA_def_cfa_register:
		if (cfa->where != FM_CFI_REGISTER)
			return false;
		set_cfa(p->row, fm_sig_read_uleb(&p->r), cfa->off);
		return true;
	case DW_CFA_def_cfa_offset:
		cfa->off = (int32_t)fm_sig_read_uleb(&p->r);
		return cfa->where == FM_CFI_REGISTER;
	case DW_CFA_def_cfa_offset_sf:
		cfa->off = (int32_t)scaled(p->cie, (uint64_t)fm_sig_read_sleb(&p->r));
		return cfa->where == FM_CFI_REGISTER;
	case DW_CFA_def_cfa_expression:
		return read_expr(&p->r, p->row, cfa, FM_CFI_VALUE_EXPR);
	}
	return false;
}

// What says where a register is saved: its number comes first.
static FM_SIGSAFE bool run_register(struct program *p, uint8_t op)
{
	struct fm_cfi_row *row = p->row;
	uint64_t reg = fm_sig_read_uleb(&p->r);
	switch (op) {
	case DW_CFA_offset_extended:
		set_rule(row, reg, FM_CFI_AT, scaled(p->cie, fm_sig_read_uleb(&p->r)));
		return true;
	case DW_CFA_offset_extended_sf:
		set_rule(row, reg, FM_CFI_AT, scaled(p->cie, (uint64_t)fm_sig_read_sleb(&p->r)));
		return true;
	case DW_CFA_GNU_negative_offset_extended:
		set_rule(row, reg, FM_CFI_AT, scaled(p->cie, -fm_sig_read_uleb(&p->r)));
		return true;
	case DW_CFA_restore_extended:
		reset_rule(row, reg, p->initial);
		return true;
	case DW_CFA_undefined:
		set_rule(row, reg, FM_CFI_UNDEFINED, 0);
		return true;
	case DW_CFA_same_value:
		set_rule(row, reg, FM_CFI_SAME, 0);
		return true;
	case DW_CFA_register:
		set_rule(row, reg, FM_CFI_REGISTER, (int64_t)fm_sig_read_uleb(&p->r));
		return true;
	case DW_CFA_val_offset:
		set_rule(row, reg, FM_CFI_VALUE, scaled(p->cie, fm_sig_read_uleb(&p->r)));
		return true;
	case DW_CFA_val_offset_sf:
		set_rule(row, reg, FM_CFI_VALUE, scaled(p->cie, (uint64_t)fm_sig_read_sleb(&p->r)));
		return true;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		return read_expr(&p->r, row, reg < FM_CFI_N_REGS ? &row->state.regs[reg] : NULL,
				 op == DW_CFA_expression ? FM_CFI_AT_EXPR : FM_CFI_VALUE_EXPR);
	}
	return false;
}

// What changes the row. False: damaged, or not known.
static FM_SIGSAFE bool run_rule(struct program *p, uint8_t op)
{
	if ((op & 0xc0) == DW_CFA_offset) {
		set_rule(p->row, op & 0x3f, FM_CFI_AT, scaled(p->cie, fm_sig_read_uleb(&p->r)));
		return true;
	}
	if ((op & 0xc0) == DW_CFA_restore) {
		reset_rule(p->row, op & 0x3f, p->initial);
		return true;
	}
	switch (op) {
	case DW_CFA_nop:
	case DW_CFA_GNU_window_save: // on aarch64: DW_CFA_AARCH64_negate_ra_state
		return true;
	case DW_CFA_GNU_args_size:
		fm_sig_read_uleb(&p->r);
		return true;
	case DW_CFA_remember_state:
		return remember(p);
	case DW_CFA_restore_state:
		return restore(p);
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_offset_sf:
	case DW_CFA_def_cfa_expression:
		return run_cfa(p, op);
	}
	return run_register(p, op);
}

// True for an instruction that moves the location, which it does.
static FM_SIGSAFE bool run_location(struct program *p, uint8_t op, uint64_t *loc)
{
	uint64_t advance;
	if ((op & 0xc0) == DW_CFA_advance_loc) {
		advance = op & 0x3f;
	} else if (op == DW_CFA_advance_loc1 || op == DW_CFA_advance_loc2 || op == DW_CFA_advance_loc4) {
		advance = fm_sig_read_fixed(&p->r, 1u << (op - DW_CFA_advance_loc1));
	} else if (op == DW_CFA_set_loc) {
		*loc = read_encoded(&p->r, p->cie->fde_enc);
		return true;
	} else {
		return false;
	}
	*loc += advance * p->cie->code_align;
	return true;
}

// Runs instructions until the location passes pc. row->start becomes the last location before that,
// row->end the one that passes it.
static FM_SIGSAFE bool run_program(struct fm_sig_reader r, const struct cie *cie, uint64_t loc, uint64_t pc,
				   const struct fm_cfi_state *initial, struct fm_cfi_row *row)
{
	struct program p; // not filled with zeros: remembered is large
	p.r = r;
	p.cie = cie;
	p.initial = initial;
	p.row = row;
	p.n_remembered = 0;
	for (unsigned n = 0; p.r.pos < p.r.end; n++) {
		if (n > MAX_INSTRUCTIONS)
			return false;
		uint8_t op = (uint8_t)fm_sig_read_fixed(&p.r, 1);
		if (!run_location(&p, op, &loc)) {
			if (!run_rule(&p, op))
				return false;
			continue;
		}
		if (loc > pc) {
			row->end = FM_MIN(row->end, loc);
			break;
		}
		row->start = loc;
	}
	return !p.r.is_bad;
}

FM_SIGSAFE uint32_t fm_sig_cfi_decode(uintptr_t fde, uintptr_t base, uintptr_t end, uintptr_t pc,
				      struct fm_cfi_row *ret)
{
	struct fm_sig_reader r = { fde, end, false };
	uint32_t len = (uint32_t)fm_sig_read_fixed(&r, 4);
	if (r.is_bad || len == 0 || len >= 0xfffffff0 || len > r.end - r.pos)
		return FM_STACK_BAD_UNWIND_INFO;
	r.end = r.pos + len;
	uintptr_t id_pos = r.pos;
	uint32_t cie_distance = (uint32_t)fm_sig_read_fixed(&r, 4);
	if (cie_distance == 0 || cie_distance > id_pos - base)
		return FM_STACK_BAD_UNWIND_INFO;
	struct cie cie;
	struct fm_sig_reader at_cie = { id_pos - cie_distance, end, false };
	if (!read_cie(at_cie, &cie))
		return FM_STACK_BAD_UNWIND_INFO;
	uint64_t begin = read_encoded(&r, cie.fde_enc);
	uint64_t range = read_encoded(&r, cie.fde_enc & 0x0f);
	if (r.is_bad)
		return FM_STACK_BAD_UNWIND_INFO;
	if (pc < begin || pc - begin >= range)
		return FM_STACK_NO_UNWIND_INFO;
	if (cie.has_augmentation_data) {
		uint64_t aug_len = fm_sig_read_uleb(&r);
		if (r.is_bad || aug_len > r.end - r.pos)
			return FM_STACK_BAD_UNWIND_INFO;
		r.pos += aug_len;
	}
	ret->is_signal_frame = cie.is_signal_frame;
	ret->origin = fde;
	for (unsigned i = 0; i < FM_CFI_N_REGS; i++)
		set_rule(ret, i, FM_CFI_SAME, 0);
	set_cfa(ret, FM_CFI_N_REGS, 0); // no rule yet
	struct fm_cfi_state initial;
	if (!run_program(cie.program, &cie, 0, UINT64_MAX, NULL, ret))
		return FM_STACK_BAD_UNWIND_INFO;
	fm_sig_copy(&initial, &ret->state, sizeof(initial));
	ret->start = begin;
	ret->end = begin + range;
	if (!run_program(r, &cie, begin, pc, &initial, ret))
		return FM_STACK_BAD_UNWIND_INFO;
	return 0;
}

// Of the sorted table in .eh_frame_hdr: {start of function, FDE}, both relative to the header.
// False: not there any more.
static FM_SIGSAFE bool read_entry(uintptr_t table, uint64_t i, int32_t *ret_start, int32_t *ret_fde)
{
	uint64_t both;
	if (!fm_sig_read_u64(table + 8 * i, &both))
		return false;
	*ret_start = (int32_t)(uint32_t)both;
	*ret_fde = (int32_t)(both >> 32);
	return true;
}

FM_SIGSAFE uint32_t fm_sig_cfi_find(const struct fm_sig_image_info *image, uintptr_t pc, struct fm_cfi_row *ret)
{
	uintptr_t hdr = image->eh_frame_hdr;
	if (hdr < image->start || hdr + 12 > image->end)
		return FM_STACK_NO_UNWIND_INFO;
	struct fm_sig_reader r = { hdr, image->end, false };
	uint8_t version = (uint8_t)fm_sig_read_fixed(&r, 1), ptr_enc = (uint8_t)fm_sig_read_fixed(&r, 1);
	uint8_t count_enc = (uint8_t)fm_sig_read_fixed(&r, 1), table_enc = (uint8_t)fm_sig_read_fixed(&r, 1);
	if (version != 1 || table_enc != 0x3b) // datarel sdata4: what every linker writes
		return FM_STACK_NO_UNWIND_INFO;
	read_encoded(&r, ptr_enc);
	uint64_t count = read_encoded(&r, count_enc);
	if (r.is_bad || count == 0 || count > (r.end - r.pos) / 8)
		return FM_STACK_BAD_UNWIND_INFO;
	uintptr_t table = r.pos;
	int64_t want = (int64_t)(pc - hdr);
	int32_t start, fde;
	if (!read_entry(table, 0, &start, &fde))
		return FM_STACK_BAD_UNWIND_INFO;
	if (want < start)
		return FM_STACK_NO_UNWIND_INFO;
	uint64_t lo = 0, hi = count;
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (!read_entry(table, mid, &start, &fde))
			return FM_STACK_BAD_UNWIND_INFO;
		if (start <= want)
			lo = mid;
		else
			hi = mid;
	}
	if (!read_entry(table, lo, &start, &fde))
		return FM_STACK_BAD_UNWIND_INFO;
	uintptr_t at = hdr + (uintptr_t)(intptr_t)fde;
	if (at < image->start || at >= image->end)
		return FM_STACK_BAD_UNWIND_INFO;
	return fm_sig_cfi_decode(at, image->start, image->end, pc, ret);
}
