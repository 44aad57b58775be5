// SPDX-License-Identifier: Apache-2.0
// What the signal-time code may use instead of libc: system calls (system_call.h), copies without
// memcpy.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/system_call.h"
#include "sigsafe/base/read.h"
#include "sigsafe/base/state.h"

// As the kernel has it, not libc.
struct fm_sig_kernel_action {
	uint64_t handler, flags, restorer, mask;
};

// Between places of our own; what is not ours is read by fm_sig_read().
static FM_ALWAYS_INLINE void fm_sig_copy(void *to, const void *from, size_t len)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	for (; len >= 8; t += 8, f += 8, len -= 8)
		*(fm_sig_u64 *)t = *(const fm_sig_u64 *)f;
	for (; len; len--)
		*t++ = *f++;
}

// The kernel's own code in this process for getcpu(); NULL: it was not found.
extern int (*fm_sig_getcpu_vdso)(unsigned *cpu, unsigned *node, void *unused);

// The CPU that the calling thread is on.
unsigned fm_sig_cpu(void);

// The calling thread's time in the kernel, by the kernel's own account; UINT64_MAX / 2 when it will
// not say.
uint64_t fm_sig_system_ns(void);

static inline uint64_t fm_sig_hash(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

// Where a code object's id is kept, at the nth try.
static inline struct fm_sig_code *fm_sig_code_place(uint64_t code, uint32_t nth)
{
	return &fm_sig.codes[((uint32_t)fm_sig_hash(code >> 4) + nth) & (FM_SIG_CODES - 1)];
}
