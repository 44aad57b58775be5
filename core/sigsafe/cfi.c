// A reader for .eh_frame: DWARF call frame instructions run up to one pc, keeping only what finds the caller: the CFA, the
// return address, rbp, and rbx (the dynamic linker's lazy resolver counts its frame from rbx). No other register feeds the CFA
// of an outer frame in code that compilers emit.
#include "sigsafe/cfi.h"

#include <stddef.h>

#include "format/model.h"
#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

#if defined(__x86_64__)
enum { REG_FP = 6, REG_BASE = 3, REG_RA = 16 };
#else
enum { REG_FP = 29, REG_BASE = 19, REG_RA = 30 };
#endif

// remember_state nests one deep in practice; a program that exceeds this is taken for damaged.
#define MAX_REMEMBERED 8
// Longest run of instructions looked at for one function.
#define MAX_INSTRUCTIONS 20000

struct reader {
	const uint8_t *pos, *end;
	bool is_bad; // sticky
};

static FM_SIGSAFE uint64_t read_fixed(struct reader *r, unsigned bytes)
{
	if ((size_t)(r->end - r->pos) < bytes) {
		r->is_bad = true;
		r->pos = r->end;
		return 0;
	}
	uint64_t v = 0;
	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)r->pos[i] << (8 * i);
	r->pos += bytes;
	return v;
}

static FM_SIGSAFE uint64_t read_uleb(struct reader *r)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = (uint8_t)read_fixed(r, 1);
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	r->is_bad = true;
	return 0;
}

static FM_SIGSAFE int64_t read_sleb(struct reader *r)
{
	uint64_t v = 0;
	unsigned shift = 0;
	while (shift < 64) {
		uint8_t byte = (uint8_t)read_fixed(r, 1);
		v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80)) {
			if (shift < 64 && (byte & 0x40))
				v |= ~0ull << shift;
			return (int64_t)v;
		}
	}
	r->is_bad = true;
	return 0;
}

// A pointer in one of the DW_EH_PE encodings; only those that images use in .eh_frame.
static FM_SIGSAFE uint64_t read_encoded(struct reader *r, uint8_t enc)
{
	uintptr_t here = (uintptr_t)r->pos;
	uint64_t v;
	switch (enc & 0x0f) {
	case 0x00: // absptr
	case 0x04: // udata8
	case 0x0c: // sdata8
		v = read_fixed(r, 8);
		break;
	case 0x01:
		v = read_uleb(r);
		break;
	case 0x02:
		v = read_fixed(r, 2);
		break;
	case 0x03:
		v = read_fixed(r, 4);
		break;
	case 0x09:
		v = (uint64_t)read_sleb(r);
		break;
	case 0x0a:
		v = (uint64_t)(int16_t)read_fixed(r, 2);
		break;
	case 0x0b:
		v = (uint64_t)(int32_t)read_fixed(r, 4);
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
	struct reader program;
};

static FM_SIGSAFE bool read_cie(struct reader r, struct cie *ret)
{
	uint32_t len = (uint32_t)read_fixed(&r, 4);
	if (r.is_bad || len == 0 || len >= 0xfffffff0 || len > (size_t)(r.end - r.pos))
		return false;
	r.end = r.pos + len;
	if (read_fixed(&r, 4) != 0) // a CIE's id in .eh_frame
		return false;
	uint8_t version = (uint8_t)read_fixed(&r, 1);
	if (version != 1 && version != 3)
		return false;
	const uint8_t *aug = r.pos;
	while (read_fixed(&r, 1) != 0)
		if (r.is_bad)
			return false;
	ret->code_align = read_uleb(&r);
	ret->data_align = read_sleb(&r);
	if (version == 1)
		read_fixed(&r, 1);
	else
		read_uleb(&r);
	ret->fde_enc = 0;
	ret->is_signal_frame = false;
	ret->has_augmentation_data = aug[0] == 'z';
	if (aug[0] == 'z') {
		uint64_t aug_len = read_uleb(&r);
		if (r.is_bad || aug_len > (size_t)(r.end - r.pos))
			return false;
		const uint8_t *aug_end = r.pos + aug_len;
		for (const uint8_t *a = aug + 1; *a; a++) {
			if (*a == 'R')
				ret->fde_enc = (uint8_t)read_fixed(&r, 1);
			else if (*a == 'L')
				read_fixed(&r, 1);
			else if (*a == 'P') {
				uint8_t enc = (uint8_t)read_fixed(&r, 1);
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

// The part of a row that remember_state saves.
struct saved_state {
	bool cfa_is_expr;
	uint8_t cfa_reg;
	int32_t cfa_off;
	const uint8_t *expr, *expr_end;
	uint8_t where[3]; // rbp, rbx, return address
	int32_t off[3];
};

static FM_SIGSAFE struct fm_cfi_rule *rule_of(struct fm_cfi_row *row, uint64_t reg)
{
	return reg == REG_FP ? &row->rbp : reg == REG_BASE ? &row->rbx : reg == REG_RA ? &row->ra : NULL;
}

static FM_SIGSAFE void save(struct saved_state *s, const struct fm_cfi_row *row)
{
	s->cfa_is_expr = row->cfa_is_expr;
	s->cfa_reg = row->cfa_reg;
	s->cfa_off = row->cfa_off;
	s->expr = row->expr;
	s->expr_end = row->expr_end;
	s->where[0] = row->rbp.where;
	s->where[1] = row->rbx.where;
	s->where[2] = row->ra.where;
	s->off[0] = row->rbp.off;
	s->off[1] = row->rbx.off;
	s->off[2] = row->ra.off;
}

static FM_SIGSAFE void restore(struct fm_cfi_row *row, const struct saved_state *s)
{
	row->cfa_is_expr = s->cfa_is_expr;
	row->cfa_reg = s->cfa_reg;
	row->cfa_off = s->cfa_off;
	row->expr = s->expr;
	row->expr_end = s->expr_end;
	row->rbp.where = s->where[0];
	row->rbx.where = s->where[1];
	row->ra.where = s->where[2];
	row->rbp.off = s->off[0];
	row->rbx.off = s->off[1];
	row->ra.off = s->off[2];
}

static FM_SIGSAFE void set_rule(struct fm_cfi_row *row, uint64_t reg, uint8_t where, int64_t off)
{
	struct fm_cfi_rule *rule = rule_of(row, reg);
	if (rule) {
		rule->where = where;
		rule->off = (int32_t)off;
	}
}

// DW_CFA_restore: back to what the CIE said.
static FM_SIGSAFE void reset_rule(struct fm_cfi_row *row, uint64_t reg, const struct saved_state *initial)
{
	unsigned i = reg == REG_FP ? 0 : reg == REG_BASE ? 1 : 2;
	if (initial)
		set_rule(row, reg, initial->where[i], initial->off[i]);
}

// Runs instructions until the location passes pc. initial is the state after the CIE's own program, for DW_CFA_restore.
static FM_SIGSAFE bool run_program(struct reader r, const struct cie *cie, uint64_t loc, uint64_t pc,
				   const struct saved_state *initial, struct fm_cfi_row *row)
{
	struct saved_state remembered[MAX_REMEMBERED];
	unsigned n_remembered = 0;
	for (unsigned n = 0; r.pos < r.end; n++) {
		if (n > MAX_INSTRUCTIONS)
			return false;
		uint8_t op = (uint8_t)read_fixed(&r, 1);
		uint64_t advance = 0, reg;
		switch (op & 0xc0) {
		case 0x40:
			advance = op & 0x3f;
			break;
		case 0x80:
			set_rule(row, op & 0x3f, FM_CFI_AT, (int64_t)read_uleb(&r) * cie->data_align);
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
				if (loc > pc)
					return !r.is_bad;
				continue;
			case 0x02:
				advance = read_fixed(&r, 1);
				break;
			case 0x03:
				advance = read_fixed(&r, 2);
				break;
			case 0x04:
				advance = read_fixed(&r, 4);
				break;
			case 0x05: // offset_extended
				reg = read_uleb(&r);
				set_rule(row, reg, FM_CFI_AT, (int64_t)read_uleb(&r) * cie->data_align);
				continue;
			case 0x06: // restore_extended
				reset_rule(row, read_uleb(&r), initial);
				continue;
			case 0x07: // undefined
				set_rule(row, read_uleb(&r), FM_CFI_UNDEFINED, 0);
				continue;
			case 0x08: // same_value
				set_rule(row, read_uleb(&r), FM_CFI_SAME, 0);
				continue;
			case 0x09: // register
				set_rule(row, read_uleb(&r), FM_CFI_OTHER, 0);
				read_uleb(&r);
				continue;
			case 0x0a:
				if (n_remembered == MAX_REMEMBERED)
					return false;
				save(&remembered[n_remembered++], row);
				continue;
			case 0x0b:
				if (n_remembered == 0)
					return false;
				restore(row, &remembered[--n_remembered]);
				continue;
			case 0x0c: // def_cfa
				row->cfa_reg = (uint8_t)read_uleb(&r);
				row->cfa_off = (int32_t)read_uleb(&r);
				row->cfa_is_expr = false;
				continue;
			case 0x0d:
				row->cfa_reg = (uint8_t)read_uleb(&r);
				row->cfa_is_expr = false;
				continue;
			case 0x0e:
				row->cfa_off = (int32_t)read_uleb(&r);
				continue;
			case 0x0f: { // def_cfa_expression
				uint64_t len = read_uleb(&r);
				if (r.is_bad || len > (size_t)(r.end - r.pos))
					return false;
				row->cfa_is_expr = true;
				row->expr = r.pos;
				row->expr_end = r.pos += len;
				continue;
			}
			case 0x10: // expression
			case 0x16: { // val_expression
				reg = read_uleb(&r);
				uint64_t len = read_uleb(&r);
				if (r.is_bad || len > (size_t)(r.end - r.pos))
					return false;
				// gcc saves rbp of functions that realign their stack as "at rbp + 0": DW_OP_breg6 0.
				bool is_at_rbp = op == 0x10 && len == 2 && r.pos[0] == 0x76 && r.pos[1] == 0 && reg == REG_FP;
				set_rule(row, reg, FM_CFI_OTHER, is_at_rbp ? 1 : 0);
				r.pos += len;
				continue;
			}
			case 0x11: // offset_extended_sf
				reg = read_uleb(&r);
				set_rule(row, reg, FM_CFI_AT, read_sleb(&r) * cie->data_align);
				continue;
			case 0x12: // def_cfa_sf
				row->cfa_reg = (uint8_t)read_uleb(&r);
				row->cfa_off = (int32_t)(read_sleb(&r) * cie->data_align);
				row->cfa_is_expr = false;
				continue;
			case 0x13: // def_cfa_offset_sf
				row->cfa_off = (int32_t)(read_sleb(&r) * cie->data_align);
				continue;
			case 0x14: // val_offset
			case 0x15:
				set_rule(row, read_uleb(&r), FM_CFI_OTHER, 0);
				read_uleb(&r);
				continue;
			case 0x2d: // GNU_window_save / AARCH64_negate_ra_state
				continue;
			case 0x2e: // GNU_args_size
				read_uleb(&r);
				continue;
			case 0x2f: // GNU_negative_offset_extended
				reg = read_uleb(&r);
				set_rule(row, reg, FM_CFI_AT, -(int64_t)read_uleb(&r) * cie->data_align);
				continue;
			default:
				return false;
			}
		}
		loc += advance * cie->code_align;
		if (loc > pc)
			break;
	}
	return !r.is_bad;
}

FM_SIGSAFE uint32_t fm_sig_cfi_decode(const uint8_t *fde, const uint8_t *base, const uint8_t *end, uintptr_t pc,
				      struct fm_cfi_row *ret)
{
	struct reader r = { fde, end, false };
	uint32_t len = (uint32_t)read_fixed(&r, 4);
	if (r.is_bad || len == 0 || len >= 0xfffffff0 || len > (size_t)(r.end - r.pos))
		return FM_STACK_BAD_UNWIND_INFO;
	r.end = r.pos + len;
	const uint8_t *id_pos = r.pos;
	uint32_t cie_distance = (uint32_t)read_fixed(&r, 4);
	if (cie_distance == 0 || cie_distance > (size_t)(id_pos - base))
		return FM_STACK_BAD_UNWIND_INFO;
	struct cie cie;
	struct reader at_cie = { id_pos - cie_distance, end, false };
	if (!read_cie(at_cie, &cie))
		return FM_STACK_BAD_UNWIND_INFO;
	uint64_t begin = read_encoded(&r, cie.fde_enc);
	uint64_t range = read_encoded(&r, cie.fde_enc & 0x0f);
	if (r.is_bad)
		return FM_STACK_BAD_UNWIND_INFO;
	if (pc < begin || pc - begin >= range)
		return FM_STACK_NO_UNWIND_INFO;
	if (cie.has_augmentation_data) {
		uint64_t aug_len = read_uleb(&r);
		if (r.is_bad || aug_len > (size_t)(r.end - r.pos))
			return FM_STACK_BAD_UNWIND_INFO;
		r.pos += aug_len;
	}
	ret->is_signal_frame = cie.is_signal_frame;
	ret->cfa_is_expr = false;
	ret->cfa_reg = 0;
	ret->cfa_off = 0;
	ret->expr = ret->expr_end = NULL;
	ret->rbp.where = FM_CFI_SAME;
	ret->rbp.off = 0;
	ret->rbx.where = FM_CFI_SAME;
	ret->rbx.off = 0;
	ret->ra.where = FM_CFI_SAME;
	ret->ra.off = 0;
	struct saved_state initial;
	if (!run_program(cie.program, &cie, 0, UINT64_MAX, NULL, ret))
		return FM_STACK_BAD_UNWIND_INFO;
	save(&initial, ret);
	if (!run_program(r, &cie, begin, pc, &initial, ret))
		return FM_STACK_BAD_UNWIND_INFO;
	return 0;
}

FM_SIGSAFE uint32_t fm_sig_cfi_find(const struct fm_sig_image_info *image, uintptr_t pc, struct fm_cfi_row *ret)
{
	uintptr_t hdr = image->eh_frame_hdr;
	if (hdr < image->start || hdr + 12 > image->end)
		return FM_STACK_NO_UNWIND_INFO;
	struct reader r = { (const uint8_t *)hdr, (const uint8_t *)image->end, false };
	uint8_t version = (uint8_t)read_fixed(&r, 1), ptr_enc = (uint8_t)read_fixed(&r, 1);
	uint8_t count_enc = (uint8_t)read_fixed(&r, 1), table_enc = (uint8_t)read_fixed(&r, 1);
	if (version != 1 || table_enc != 0x3b) // datarel sdata4: what every linker writes
		return FM_STACK_NO_UNWIND_INFO;
	read_encoded(&r, ptr_enc);
	uint64_t count = read_encoded(&r, count_enc);
	if (r.is_bad || count == 0 || count > (size_t)(r.end - r.pos) / 8)
		return FM_STACK_BAD_UNWIND_INFO;
	const int32_t *table = (const void *)r.pos; // {start of function, FDE}, both relative to hdr, sorted
	int64_t want = (int64_t)(pc - hdr);
	if (want < table[0])
		return FM_STACK_NO_UNWIND_INFO;
	uint64_t lo = 0, hi = count;
	while (hi - lo > 1) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (table[2 * mid] <= want)
			lo = mid;
		else
			hi = mid;
	}
	const uint8_t *fde = (const uint8_t *)hdr + table[2 * lo + 1];
	if (fde < (const uint8_t *)image->start || fde >= (const uint8_t *)image->end)
		return FM_STACK_BAD_UNWIND_INFO;
	return fm_sig_cfi_decode(fde, (const uint8_t *)image->start, (const uint8_t *)image->end, pc, ret);
}
