// SPDX-License-Identifier: Apache-2.0
// x86-64 instructions that unwinding recognises by their bytes. Pure, for the agent's own memory
// and for another process's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline int32_t fm_x86_i32(const uint8_t *p)
{
	return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}

// The bytes before a return address: the longest call has 7.
#define FM_X86_CALL_BYTES 8

// call rel32: *ret_target is where it leads, for the address behind it.
static inline bool fm_x86_is_near_call(const uint8_t *behind, uint64_t ra, uint64_t *ret_target)
{
	*ret_target = ra + (uint64_t)(int64_t)fm_x86_i32(behind - 4);
	return behind[-5] == 0xe8;
}

// call *slot(%rip), as -fno-plt has it: *ret_slot is the address of the pointer.
static inline bool fm_x86_is_slot_call(const uint8_t *behind, uint64_t ra, uint64_t *ret_slot)
{
	*ret_slot = ra + (uint64_t)(int64_t)fm_x86_i32(behind - 4);
	return behind[-6] == 0xff && behind[-5] == 0x15;
}

// call *register, *memory.
static inline bool fm_x86_is_pointer_call(const uint8_t *behind)
{
	bool is_call = false;
	for (int len = 2; len <= 7; len++)
		is_call |= behind[-len] == 0xff && (behind[-len + 1] & 0x38) == 0x10;
	return is_call;
}

static inline bool fm_x86_is_endbr64(const uint8_t *p)
{
	return p[0] == 0xf3 && p[1] == 0x0f && p[2] == 0x1e && p[3] == 0xfa;
}

// A PLT entry at addr, of which FM_X86_PLT_BYTES were read: *ret_slot is the address of the pointer
// by which it jumps on.
#define FM_X86_PLT_BYTES 12
static inline bool fm_x86_is_plt(const uint8_t *code, uint64_t addr, uint64_t *ret_slot)
{
	unsigned at = fm_x86_is_endbr64(code) ? 4 : 0;
	at += code[at] == 0xf2;                       // bnd
	if (code[at] != 0xff || code[at + 1] != 0x25) // jmp *slot(%rip)
		return false;
	*ret_slot = addr + at + 6 + (uint64_t)(int64_t)fm_x86_i32(code + at + 2);
	return true;
}

// One instruction of an epilogue, which takes a frame down. Its length; 0 = none of these.
// FM_X86_EPILOGUE_BYTES were read.
#define FM_X86_EPILOGUE_BYTES 8
struct fm_x86_epilogue {
	uint32_t n_popped; // bytes that it takes off the stack
	bool pops_rbp, is_ret;
};
static inline unsigned fm_x86_epilogue_step(const uint8_t *p, struct fm_x86_epilogue *ret)
{
	*ret = (struct fm_x86_epilogue){ 0, false, false };
	if (p[0] == 0xc3) {
		ret->is_ret = true;
		return 1;
	}
	if (p[0] == 0x48 && p[1] == 0x83 && p[2] == 0xc4 && p[3] < 0x80) { // add $imm8, %rsp
		ret->n_popped = p[3];
		return 4;
	}
	if (p[0] == 0x48 && p[1] == 0x81 && p[2] == 0xc4 && p[6] < 0x80) { // add $imm32, %rsp
		ret->n_popped = (uint32_t)fm_x86_i32(p + 3);
		return 7;
	}
	bool is_high = p[0] == 0x41; // pop %r8 to %r15
	uint8_t op = p[is_high];
	if (op < 0x58 || op > 0x5f || (!is_high && op == 0x5c)) // pop %rsp moves the stack
		return 0;
	ret->n_popped = 8;
	ret->pops_rbp = !is_high && op == 0x5d;
	return is_high ? 2 : 1;
}
