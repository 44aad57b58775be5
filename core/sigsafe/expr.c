#include "sigsafe/expr.h"

#include "format/model.h"
#include "sigsafe/leb.h"
#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

// The deepest that linkers, compilers and OpenSSL's assembly go is three; loops are not known to occur.
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
	case 0x1a:
		*ret = a & b;
		return true;
	case 0x1b:
		if (sb == 0 || (sb == -1 && sa == INT64_MIN))
			return false;
		*ret = (uint64_t)(sa / sb);
		return true;
	case 0x1c:
		*ret = a - b;
		return true;
	case 0x1d:
		if (b == 0)
			return false;
		*ret = a % b;
		return true;
	case 0x1e:
		*ret = a * b;
		return true;
	case 0x21:
		*ret = a | b;
		return true;
	case 0x22:
		*ret = a + b;
		return true;
	case 0x24:
		*ret = b < 64 ? a << b : 0;
		return true;
	case 0x25:
		*ret = b < 64 ? a >> b : 0;
		return true;
	case 0x26:
		*ret = (uint64_t)(sa >> (b < 64 ? b : 63));
		return true;
	case 0x27:
		*ret = a ^ b;
		return true;
	case 0x29:
		*ret = sa == sb;
		return true;
	case 0x2a:
		*ret = sa >= sb;
		return true;
	case 0x2b:
		*ret = sa > sb;
		return true;
	case 0x2c:
		*ret = sa <= sb;
		return true;
	case 0x2d:
		*ret = sa < sb;
		return true;
	case 0x2e:
		*ret = sa != sb;
		return true;
	}
	return false;
}

static FM_SIGSAFE bool jump(struct fm_sig_reader *r, uintptr_t begin, int16_t distance)
{
	if (distance < (int64_t)(begin - r->pos) || distance > (int64_t)(r->end - r->pos))
		return false;
	r->pos += (uintptr_t)(intptr_t)distance;
	return true;
}

FM_SIGSAFE uint32_t fm_sig_expr_eval(uintptr_t expr, uint32_t len, const struct fm_sig_regs *regs,
				     const uint64_t *first, uint64_t *ret)
{
	struct fm_sig_reader r = { expr, expr + len, false };
	uint64_t stack[MAX_STACK], v;
	unsigned n = 0;
	if (first)
		stack[n++] = *first;
	for (unsigned n_ops = 0; r.pos < r.end; n_ops++) {
		uint8_t op = (uint8_t)fm_sig_read_fixed(&r, 1);
		if (n_ops == MAX_OPS)
			return FM_STACK_BAD_UNWIND_INFO;
		// What pushes one value.
		bool is_push = true;
		if (op >= 0x30 && op <= 0x4f) {
			v = op - 0x30u; // lit
		} else if ((op >= 0x70 && op <= 0x8f) || op == 0x92) {
			uint64_t reg = op == 0x92 ? fm_sig_read_uleb(&r) : op - 0x70u;
			uint64_t off = (uint64_t)fm_sig_read_sleb(&r);
			if (reg >= FM_CFI_N_REGS)
				return FM_STACK_BAD_UNWIND_INFO;
			if (!(regs->known >> reg & 1))
				return FM_SIG_NEEDS_ALL_REGS;
			v = regs->r[reg] + off;
		} else if (op >= 0x08 && op <= 0x0f) { // const1u, const1s, const2u, ...
			unsigned bytes = 1u << ((op - 0x08) >> 1);
			v = fm_sig_read_fixed(&r, bytes);
			if (op & 1)
				v = sign_extend(v, bytes);
		} else if (op == 0x10) {
			v = fm_sig_read_uleb(&r);
		} else if (op == 0x11) {
			v = (uint64_t)fm_sig_read_sleb(&r);
		} else if (op == 0x12 || op == 0x14 || op == 0x15) { // dup, over, pick
			unsigned depth = op == 0x12 ? 0 : op == 0x14 ? 1 : (unsigned)fm_sig_read_fixed(&r, 1);
			if (depth >= n)
				return FM_STACK_BAD_UNWIND_INFO;
			v = stack[n - 1 - depth];
		} else {
			is_push = false;
		}
		if (is_push) {
			if (r.is_bad || n == MAX_STACK)
				return FM_STACK_BAD_UNWIND_INFO;
			stack[n++] = v;
			continue;
		}
		if (op == 0x96) // nop
			continue;
		if (op == 0x2f) { // skip
			if (!jump(&r, expr, (int16_t)fm_sig_read_fixed(&r, 2)))
				return FM_STACK_BAD_UNWIND_INFO;
			continue;
		}
		if (n < 1)
			return FM_STACK_BAD_UNWIND_INFO;
		uint64_t *top = &stack[n - 1];
		switch (op) {
		case 0x06: // deref
			if (!fm_sig_read_u64(*top, top))
				return FM_STACK_UNREADABLE;
			continue;
		case 0x94: { // deref_size
			unsigned bytes = (unsigned)fm_sig_read_fixed(&r, 1);
			if (bytes < 1 || bytes > 8)
				return FM_STACK_BAD_UNWIND_INFO;
			v = 0;
			if (!fm_sig_read(*top, &v, bytes))
				return FM_STACK_UNREADABLE;
			*top = v;
			continue;
		}
		case 0x13: // drop
			n--;
			continue;
		case 0x19: // abs
			*top = (int64_t)*top < 0 ? -*top : *top;
			continue;
		case 0x1f: // neg
			*top = -*top;
			continue;
		case 0x20: // not
			*top = ~*top;
			continue;
		case 0x23: // plus_uconst
			*top += fm_sig_read_uleb(&r);
			continue;
		case 0x28: { // bra
			int16_t distance = (int16_t)fm_sig_read_fixed(&r, 2);
			n--;
			if (*top && !jump(&r, expr, distance))
				return FM_STACK_BAD_UNWIND_INFO;
			continue;
		}
		case 0x16: // swap
			if (n < 2)
				return FM_STACK_BAD_UNWIND_INFO;
			v = top[0];
			top[0] = top[-1];
			top[-1] = v;
			continue;
		case 0x17: // rot: the top goes to the third place
			if (n < 3)
				return FM_STACK_BAD_UNWIND_INFO;
			v = top[0];
			top[0] = top[-1];
			top[-1] = top[-2];
			top[-2] = v;
			continue;
		default:
			if (n < 2 || !binary(op, top[-1], top[0], &v))
				return FM_STACK_BAD_UNWIND_INFO;
			top[-1] = v;
			n--;
		}
	}
	if (r.is_bad || n == 0)
		return FM_STACK_BAD_UNWIND_INFO;
	*ret = stack[n - 1];
	return 0;
}
