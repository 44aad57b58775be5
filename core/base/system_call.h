// SPDX-License-Identifier: Apache-2.0
// System calls as the CPU makes them. Another preloaded library may stand in front of libc's
// functions, syscall() among them: whoever runs in a handler of ours, or in front of an allocator,
// asks the kernel itself. errno stays as it is, and no thread is cancelled in one.
#pragma once

#include <sys/syscall.h>

// Returns -errno on failure.
static inline long fm_system_call6(long nr, long a, long b, long c, long d, long e, long f)
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

static inline long fm_system_call(long nr, long a, long b, long c, long d)
{
	return fm_system_call6(nr, a, b, c, d, 0, 0);
}
