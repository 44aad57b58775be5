// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/unwind/expr.h"

#include <dwarf.h>

#include "format/model.h"
#include "sigsafe/unwind/leb.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

// The deepest that linkers, compilers and OpenSSL's assembly go is three; loops are not known to
// occur.
#define MAX_STACK 16
#define MAX_OPS 256

static FM_SIGSAFE uint64_t sign_extend(uint64_t v, unsigned bytes)
{
	unsigned shift = (64 - 8 * bytes) & 63;
	return (uint64_t)((int64_t)(v << shift) >> shift);
}

// a is below b on the stack. False: not an operator of two values, or a division by zero.
static FM_SIGSAFE bool binary(uint8_t op, uint64_t a, uint64_t b, uint64_t *ret)
{
	int64_t sa = (int64_t)a, sb = (int64_t)b;
	switch (op) {
	case DW_OP_and:
		*ret = a & b;
		return true;
	case DW_OP_div:
		if (sb == 0 || (sb == -1 && sa == INT64_MIN))
			return false;
		*ret = (uint64_t)(sa / sb);
		return true;
	case DW_OP_minus:
		*ret = a - b;
		return true;
	case DW_OP_mod:
		if (b == 0)
			return false;
		*ret = a % b;
		return true;
	case DW_OP_mul:
		*ret = a * b;
		return true;
	case DW_OP_or:
		*ret = a | b;
		return true;
	case DW_OP_plus:
		*ret = a + b;
		return true;
	case DW_OP_shl:
		*ret = b < 64 ? a << b : 0;
		return true;
	case DW_OP_shr:
		*ret = b < 64 ? a >> b : 0;
		return true;
	case DW_OP_shra:
		*ret = (uint64_t)(sa >> (b < 64 ? b : 63));
		return true;
	case DW_OP_xor:
		*ret = a ^ b;
		return true;
	case DW_OP_eq:
		*ret = sa == sb;
		return true;
	case DW_OP_ge:
		*ret = sa >= sb;
		return true;
	case DW_OP_gt:
		*ret = sa > sb;
		return true;
	case DW_OP_le:
		*ret = sa <= sb;
		return true;
	case DW_OP_lt:
		*ret = sa < sb;
		return true;
	case DW_OP_ne:
		*ret = sa != sb;
		return true;
	}
	return false;
}

// An expression that is being evaluated.
struct machine {
	struct fm_sig_reader r;
	uintptr_t begin;
	const struct fm_sig_regs *regs;
	unsigned n;
	uint64_t stack[MAX_STACK];
};

// What an operator may return beside 0 and the errors of fm_sig_expr_eval: it is none of this kind.
#define NOT_OF_THIS_KIND UINT32_MAX

static FM_SIGSAFE uint32_t jump(struct machine *m, int16_t distance)
{
	if (distance < (int64_t)(m->begin - m->r.pos) || distance > (int64_t)(m->r.end - m->r.pos))
		return FM_STACK_BAD_UNWIND_INFO;
	m->r.pos += (uintptr_t)(intptr_t)distance;
	return 0;
}

static FM_SIGSAFE uint32_t read_register(struct machine *m, uint64_t reg, uint64_t *ret)
{
	uint64_t off = (uint64_t)fm_sig_read_sleb(&m->r);
	if (reg >= FM_CFI_N_REGS)
		return FM_STACK_BAD_UNWIND_INFO;
	if (!(m->regs->known >> reg & 1))
		return FM_SIG_NEEDS_ALL_REGS;
	*ret = m->regs->r[reg] + off;
	return 0;
}

// What pushes one value.
static FM_SIGSAFE uint32_t push(struct machine *m, uint8_t op)
{
	uint64_t v = 0;
	uint32_t err = 0;
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		v = op - DW_OP_lit0;
	} else if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
		err = read_register(m, op - DW_OP_breg0, &v);
	} else if (op == DW_OP_bregx) {
		uint64_t reg = fm_sig_read_uleb(&m->r);
		err = read_register(m, reg, &v);
	} else if (op >= DW_OP_const1u && op <= DW_OP_const8s) { // const1u, const1s, const2u, ...
		unsigned bytes = 1u << ((op - DW_OP_const1u) >> 1);
		v = fm_sig_read_fixed(&m->r, bytes);
		if (op & 1)
			v = sign_extend(v, bytes);
	} else if (op == DW_OP_constu) {
		v = fm_sig_read_uleb(&m->r);
	} else if (op == DW_OP_consts) {
		v = (uint64_t)fm_sig_read_sleb(&m->r);
	} else if (op == DW_OP_dup || op == DW_OP_over || op == DW_OP_pick) {
		unsigned depth = op == DW_OP_dup ? 0 : op == DW_OP_over ? 1 : (unsigned)fm_sig_read_fixed(&m->r, 1);
		if (depth >= m->n)
			return FM_STACK_BAD_UNWIND_INFO;
		v = m->stack[m->n - 1 - depth];
	} else {
		return NOT_OF_THIS_KIND;
	}
	if (err || m->r.is_bad || m->n == MAX_STACK)
		return err ? err : FM_STACK_BAD_UNWIND_INFO;
	m->stack[m->n++] = v;
	return 0;
}

// What changes the topmost value.
static FM_SIGSAFE uint32_t change_top(struct machine *m, uint8_t op)
{
	uint64_t *top = &m->stack[m->n - 1], v = 0;
	switch (op) {
	case DW_OP_deref:
		return fm_sig_read_u64(*top, top) ? 0 : FM_STACK_UNREADABLE;
	case DW_OP_deref_size: {
		unsigned bytes = (unsigned)fm_sig_read_fixed(&m->r, 1);
		if (bytes < 1 || bytes > 8)
			return FM_STACK_BAD_UNWIND_INFO;
		if (!fm_sig_read(*top, &v, bytes))
			return FM_STACK_UNREADABLE;
		*top = v;
		return 0;
	}
	case DW_OP_abs:
		*top = (int64_t)*top < 0 ? -*top : *top;
		return 0;
	case DW_OP_neg:
		*top = -*top;
		return 0;
	case DW_OP_not:
		*top = ~*top;
		return 0;
	case DW_OP_plus_uconst:
		*top += fm_sig_read_uleb(&m->r);
		return 0;
	}
	return NOT_OF_THIS_KIND;
}

// What takes values away, or puts them in another order.
static FM_SIGSAFE uint32_t shuffle(struct machine *m, uint8_t op)
{
	uint64_t *top = &m->stack[m->n - 1], v;
	switch (op) {
	case DW_OP_drop:
		m->n--;
		return 0;
	case DW_OP_bra: {
		int16_t distance = (int16_t)fm_sig_read_fixed(&m->r, 2);
		m->n--;
		return *top ? jump(m, distance) : 0;
	}
	case DW_OP_swap:
		if (m->n < 2)
			return FM_STACK_BAD_UNWIND_INFO;
		v = top[0];
		top[0] = top[-1];
		top[-1] = v;
		return 0;
	case DW_OP_rot: // the top goes to the third place
		if (m->n < 3)
			return FM_STACK_BAD_UNWIND_INFO;
		v = top[0];
		top[0] = top[-1];
		top[-1] = top[-2];
		top[-2] = v;
		return 0;
	}
	if (m->n < 2 || !binary(op, top[-1], top[0], &v))
		return FM_STACK_BAD_UNWIND_INFO;
	top[-1] = v;
	m->n--;
	return 0;
}

static FM_SIGSAFE uint32_t execute(struct machine *m, uint8_t op)
{
	uint32_t err = push(m, op);
	if (err != NOT_OF_THIS_KIND)
		return err;
	if (op == DW_OP_nop)
		return 0;
	if (op == DW_OP_skip)
		return jump(m, (int16_t)fm_sig_read_fixed(&m->r, 2));
	if (m->n < 1)
		return FM_STACK_BAD_UNWIND_INFO;
	err = change_top(m, op);
	return err != NOT_OF_THIS_KIND ? err : shuffle(m, op);
}

FM_SIGSAFE uint32_t fm_sig_expr_eval(uintptr_t expr, uint32_t len, const struct fm_sig_regs *regs,
				     const uint64_t *first, uint64_t *ret)
{
	struct machine m; // not filled with zeros: values are written before they are read
	m.r = (struct fm_sig_reader){ expr, expr + len, false };
	m.begin = expr;
	m.regs = regs;
	m.n = 0;
	if (first)
		m.stack[m.n++] = *first;
	for (unsigned n_ops = 0; m.r.pos < m.r.end; n_ops++) {
		if (n_ops == MAX_OPS)
			return FM_STACK_BAD_UNWIND_INFO;
		uint32_t err = execute(&m, (uint8_t)fm_sig_read_fixed(&m.r, 1));
		if (err)
			return err;
	}
	if (m.r.is_bad || m.n == 0)
		return FM_STACK_BAD_UNWIND_INFO;
	*ret = m.stack[m.n - 1];
	return 0;
}
