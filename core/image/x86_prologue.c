// SPDX-License-Identifier: Apache-2.0
// A function's beginning is followed instruction by instruction as long as it is of the kinds that
// set up frames:
//   push; sub $n, %rsp; mov %reg, n(%rsp); mov %rsp, %reg; and $-n, %rsp; and loads and vector saves, which change
//   nothing.
// From the first other instruction on the frame is taken for built. At the end pops and ret are
// followed backwards.
#include "image/unwind_rows.h"

#include <stdbool.h>
#include <string.h>

enum { RBX = 3, RSP = 4, RBP = 5 }; // numbers in instructions; DWARF's are other
// Longest beginning looked at: OpenBLAS saves ten vector registers on some systems.
#define MAX_PROLOGUE_BYTES 256
// A frame larger than this is a constant misread as one.
#define MAX_FRAME_BYTES (16 << 20)

struct frame {
	uint8_t cfa_reg; // number in instructions
	int32_t cfa_off;
	int16_t rbp_off, rbx_off; // as in rows
	int alias;                // a register that holds an older rsp; -1 = none
	int32_t alias_off;        // CFA - that register
};

static bool is_same_frame(const struct frame *a, const struct frame *b)
{
	return a->cfa_reg == b->cfa_reg && a->cfa_off == b->cfa_off && a->rbp_off == b->rbp_off &&
	       a->rbx_off == b->rbx_off && a->alias == b->alias && a->alias_off == b->alias_off;
}

static uint8_t dwarf_number(unsigned reg)
{
	static const uint8_t numbers[16] = { 0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15 };
	return numbers[reg & 15];
}

static void put_row(const struct frame *f, uint32_t addr, struct fm_unwind_rows *ret)
{
	struct fm_unwind_row row = { .addr = addr,
				     .cfa_off = f->cfa_off,
				     .rbp_off = f->rbp_off,
				     .rbx_off = f->rbx_off,
				     .cfa_reg = dwarf_number(f->cfa_reg),
				     .kind = FM_UNWIND_REG,
				     .flags = FM_UNWIND_GUESSED };
	fm_vec_push(ret, row);
}

// The first save counts: later ones spill another value.
static void save(struct frame *f, unsigned reg, int64_t off)
{
	if (off >= 0 || off <= INT16_MIN)
		return;
	if (reg == RBP && !f->rbp_off)
		f->rbp_off = (int16_t)off;
	if (reg == RBX && !f->rbx_off)
		f->rbx_off = (int16_t)off;
}

static int32_t read_i32(const uint8_t *p)
{
	int32_t v;
	memcpy(&v, p, 4);
	return v;
}

// Length of a ModRM byte with what follows it; *ret_disp the displacement, *ret_is_rsp when the
// address is that from rsp.
static size_t modrm_len(const uint8_t *p, int32_t *ret_disp, bool *ret_is_rsp)
{
	unsigned mod = p[0] >> 6, rm = p[0] & 7;
	size_t len = 1;
	*ret_is_rsp = mod != 3 && rm == 4 && p[1] == 0x24;
	if (mod != 3 && rm == 4)
		len++;
	*ret_disp = mod == 1 ? (int8_t)p[len] : mod == 2 ? read_i32(p + len) : 0;
	return len + (mod == 1 ? 1 : mod == 2 || (mod == 0 && (rm == 5 || (rm == 4 && (p[1] & 7) == 5))) ? 4 : 0);
}

// One instruction; returns its length, 0 when it is none of a beginning. At least 16 bytes can be
// read.
static size_t step(const uint8_t *p, struct frame *f)
{
	bool is_from_rsp = f->cfa_reg == RSP;
	uint8_t rex = (p[0] & 0xf0) == 0x40 ? p[0] : 0;
	const uint8_t *op = p + (rex != 0);
	size_t head = (size_t)(op - p);
	int32_t disp;
	bool is_rsp;
	if (p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa)
		return 4;                     // endbr64
	if (op[0] >= 0x50 && op[0] <= 0x57) { // push
		if (is_from_rsp) {
			f->cfa_off += 8;
			save(f, (op[0] & 7) | (rex & 1) << 3, -(int64_t)f->cfa_off);
		}
		return head + 1;
	}
	if (rex == 0x48 && (op[0] == 0x83 || op[0] == 0x81) && (op[1] == 0xec || op[1] == 0xe4)) {
		bool is_short = op[0] == 0x83;
		int32_t n = is_short ? (int8_t)op[2] : read_i32(op + 2);
		if (op[1] == 0xec && is_from_rsp) { // sub $n, %rsp
			if (n < 0 || n > MAX_FRAME_BYTES)
				return 0;
			f->cfa_off += n;
		} else if (op[1] == 0xe4 && is_from_rsp) { // and $n, %rsp
			if (f->alias < 0)
				return 0;
			f->cfa_reg = (uint8_t)f->alias;
			f->cfa_off = f->alias_off;
		}
		return head + (is_short ? 3 : 6);
	}
	if ((rex & 0xf8) == 0x48 && (op[0] == 0x89 || op[0] == 0x8b || op[0] == 0x8d)) { // mov, lea
		unsigned reg = (op[1] >> 3 & 7) | (rex & 4) << 1, rm = (op[1] & 7) | (rex & 1) << 3;
		bool is_between_registers = op[1] >= 0xc0;
		if (op[0] == 0x89 && is_between_registers && reg == RSP) { // mov %rsp, %rm
			if (is_from_rsp) {
				f->alias = (int)rm;
				f->alias_off = f->cfa_off;
			}
			if (is_from_rsp && rm == RBP) // a frame pointer: what happens to rsp no longer matters
				f->cfa_reg = RBP;
			return head + 2;
		}
		size_t len = head + 1 + modrm_len(op + 1, &disp, &is_rsp);
		unsigned target = op[0] == 0x89 ? rm : reg;
		bool is_written = op[0] != 0x89 || is_between_registers;
		// A new value for one of those that the frame hangs on: the beginning is over.
		if (is_written && (target == RSP || target == RBP || target == RBX || (int)target == f->alias))
			return 0;
		if (op[0] == 0x89 && is_rsp && is_from_rsp)
			save(f, reg, (int64_t)disp - f->cfa_off);
		return len;
	}
	if (p[0] == 0xc5 && p[1] == 0xf8 && p[2] == 0x77)
		return 3;                                      // vzeroupper
	if (op[0] == 0x0f && (op[1] == 0x29 || op[1] == 0x11)) // movaps, movups to memory
		return head + 2 + modrm_len(op + 2, &disp, &is_rsp);
	if (p[0] == 0xc5 && (p[2] == 0x29 || p[2] == 0x11)) // the same with AVX
		return 3 + modrm_len(p + 3, &disp, &is_rsp);
	return 0;
}

// Rows for pops and ret at the very end.
static void add_epilogue(const uint8_t *code, size_t len, size_t body, uint32_t addr, const struct frame *f,
			 struct fm_unwind_rows *ret)
{
	size_t starts[16], n = 0, at = len;
	if (len < body + 1 || code[len - 1] != 0xc3)
		return;
	starts[n++] = --at;
	while (n < 16 && at > body && code[at - 1] >= 0x58 && code[at - 1] <= 0x5f) {
		at -= at - 1 > body && code[at - 2] == 0x41 ? 2 : 1;
		starts[n++] = at;
	}
	struct frame end = *f;
	end.cfa_reg = RSP;
	while (n-- > 0) {
		end.cfa_off = (int32_t)(8 * (n + 1));
		put_row(&end, addr + (uint32_t)starts[n], ret);
	}
}

// True when a frame pointer is set up behind where we stopped: mov %rsp, %rbp soon after. Such a
// body is left to the agent, which follows frame pointers.
static bool has_frame_pointer_later(const uint8_t *code, size_t len, size_t at)
{
	for (size_t end = FM_MIN(len, at + 64); at + 3 <= end; at++)
		if (code[at] == 0x48 &&
		    ((code[at + 1] == 0x89 && code[at + 2] == 0xe5) || (code[at + 1] == 0x8b && code[at + 2] == 0xec)))
			return true;
	return false;
}

void fm_x86_prologue_rows(const uint8_t *code, size_t len, uint32_t addr, struct fm_unwind_rows *ret)
{
	struct frame f = { .cfa_reg = RSP, .cfa_off = 8, .alias = -1 };
	size_t at = 0;
	put_row(&f, addr, ret);
	while (at < len && at < MAX_PROLOGUE_BYTES) {
		uint8_t window[16] = { 0 };
		memcpy(window, code + at, FM_MIN(len - at, sizeof(window)));
		struct frame before = f;
		size_t step_len = step(window, &f);
		if (!step_len || step_len > len - at) {
			f = before;
			break;
		}
		at += step_len;
		if (!is_same_frame(&before, &f) && at < len)
			put_row(&f, addr + (uint32_t)at, ret);
	}
	if (f.cfa_reg == RSP && f.rbp_off && has_frame_pointer_later(code, len, at)) {
		if (ret->items[ret->n - 1].addr == addr + at)
			ret->n--;
		fm_vec_push(ret, (struct fm_unwind_row){ .addr = addr + (uint32_t)at });
	}
	add_epilogue(code, len, at, addr, &f, ret);
	fm_vec_push(ret, (struct fm_unwind_row){ .addr = addr + (uint32_t)len });
}
