// SPDX-License-Identifier: Apache-2.0
// What the signal-time code may use instead of libc: system calls without errno, copies without
// memcpy.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/compiler.h"
#include "sigsafe/base/read.h"
#include "sigsafe/base/state.h"

// A system call that leaves errno alone; returns -errno on failure.
static inline long fm_sig_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "no system call sequence for this CPU"
#endif
}

static inline long fm_sig_syscall(long nr, long a, long b, long c, long d)
{
	return fm_sig_syscall6(nr, a, b, c, d, 0, 0);
}

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
