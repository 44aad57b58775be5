// A reader for .eh_frame: DWARF call frame instructions run up to one pc.
#include "sigsafe/cfi.h"

#include <stddef.h>

#include "format/model.h"
#include "sigsafe/leb.h"
#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

// remember_state nests one deep in practice; a program that exceeds this is taken for damaged. Each takes 150 bytes of the
// target's stack.
#define MAX_REMEMBERED 4
// Letters that say what else an entry has: "zPLRSB" has them all. What comes after these is skipped by its length.
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

// Runs instructions until the location passes pc. initial is the state after the CIE's own program, for DW_CFA_restore. row->start
// becomes the last location before that, row->end the one that passes it.
static FM_SIGSAFE bool run_program(struct fm_sig_reader r, const struct cie *cie, uint64_t loc, uint64_t pc,
				   const struct fm_cfi_state *initial, struct fm_cfi_row *row)
{
	struct fm_cfi_state remembered[MAX_REMEMBERED];
	unsigned n_remembered = 0;
	for (unsigned n = 0; r.pos < r.end; n++) {
		if (n > MAX_INSTRUCTIONS)
			return false;
		uint8_t op = (uint8_t)fm_sig_read_fixed(&r, 1);
		uint64_t advance = 0, reg;
		switch (op & 0xc0) {
		case 0x40:
			advance = op & 0x3f;
			break;
		case 0x80:
			set_rule(row, op & 0x3f, FM_CFI_AT, scaled(cie, fm_sig_read_uleb(&r)));
			continue;
		case 0xc0:
			reset_rule(row, op & 0x3f, initial);
			continue;
		default:
			switch (op) {
			case 0x00: // nop
				continue;
			case 0x01: // set_loc
				loc = read_encoded(&r, cie->fde_enc);
				break;
			case 0x02:
				advance = fm_sig_read_fixed(&r, 1);
				break;
			case 0x03:
				advance = fm_sig_read_fixed(&r, 2);
				break;
			case 0x04:
				advance = fm_sig_read_fixed(&r, 4);
				break;
			case 0x05: // offset_extended
				reg = fm_sig_read_uleb(&r);
				set_rule(row, reg, FM_CFI_AT, scaled(cie, fm_sig_read_uleb(&r)));
				continue;
			case 0x06: // restore_extended
				reset_rule(row, fm_sig_read_uleb(&r), initial);
				continue;
			case 0x07: // undefined
				set_rule(row, fm_sig_read_uleb(&r), FM_CFI_UNDEFINED, 0);
				continue;
			case 0x08: // same_value
				set_rule(row, fm_sig_read_uleb(&r), FM_CFI_SAME, 0);
				continue;
			case 0x09: // register
				reg = fm_sig_read_uleb(&r);
				set_rule(row, reg, FM_CFI_REGISTER, (int64_t)fm_sig_read_uleb(&r));
				continue;
			case 0x0a:
				if (n_remembered == MAX_REMEMBERED)
					return false;
				fm_sig_copy(&remembered[n_remembered++], &row->state, sizeof(row->state));
				continue;
			case 0x0b:
				if (n_remembered == 0)
					return false;
				fm_sig_copy(&row->state, &remembered[--n_remembered], sizeof(row->state));
				continue;
			case 0x0c: // def_cfa
				reg = fm_sig_read_uleb(&r);
				set_cfa(row, reg, (int64_t)fm_sig_read_uleb(&r));
				continue;
			case 0x0d: // def_cfa_register
				if (row->state.cfa.where != FM_CFI_REGISTER)
					return false; // its offset would be that of an expression; so below
				set_cfa(row, fm_sig_read_uleb(&r), row->state.cfa.off);
				continue;
			case 0x0e: // def_cfa_offset
				if (row->state.cfa.where != FM_CFI_REGISTER)
					return false;
				row->state.cfa.off = (int32_t)fm_sig_read_uleb(&r);
				continue;
			case 0x0f: // def_cfa_expression
				if (!read_expr(&r, row, &row->state.cfa, FM_CFI_VALUE_EXPR))
					return false;
				continue;
			case 0x10: // expression
			case 0x16: // val_expression
				reg = fm_sig_read_uleb(&r);
				if (!read_expr(&r, row, reg < FM_CFI_N_REGS ? &row->state.regs[reg] : NULL,
					       op == 0x10 ? FM_CFI_AT_EXPR : FM_CFI_VALUE_EXPR))
					return false;
				continue;
			case 0x11: // offset_extended_sf
				reg = fm_sig_read_uleb(&r);
				set_rule(row, reg, FM_CFI_AT, scaled(cie, (uint64_t)fm_sig_read_sleb(&r)));
				continue;
			case 0x12: // def_cfa_sf
				reg = fm_sig_read_uleb(&r);
				set_cfa(row, reg, scaled(cie, (uint64_t)fm_sig_read_sleb(&r)));
				continue;
			case 0x13: // def_cfa_offset_sf
				if (row->state.cfa.where != FM_CFI_REGISTER)
					return false;
				row->state.cfa.off = (int32_t)scaled(cie, (uint64_t)fm_sig_read_sleb(&r));
				continue;
			case 0x14: // val_offset
				reg = fm_sig_read_uleb(&r);
				set_rule(row, reg, FM_CFI_VALUE, scaled(cie, fm_sig_read_uleb(&r)));
				continue;
			case 0x15: // val_offset_sf
				reg = fm_sig_read_uleb(&r);
				set_rule(row, reg, FM_CFI_VALUE, scaled(cie, (uint64_t)fm_sig_read_sleb(&r)));
				continue;
			case 0x2d: // GNU_window_save / AARCH64_negate_ra_state
				continue;
			case 0x2e: // GNU_args_size
				fm_sig_read_uleb(&r);
				continue;
			case 0x2f: // GNU_negative_offset_extended
				reg = fm_sig_read_uleb(&r);
				set_rule(row, reg, FM_CFI_AT, scaled(cie, -fm_sig_read_uleb(&r)));
				continue;
			default:
				return false;
			}
		}
		loc += advance * cie->code_align;
		if (loc > pc) {
			row->end = FM_MIN(row->end, loc);
			break;
		}
		row->start = loc;
	}
	return !r.is_bad;
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

// Of the sorted table in .eh_frame_hdr: {start of function, FDE}, both relative to the header. False: not there any more.
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
