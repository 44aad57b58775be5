// SPDX-License-Identifier: Apache-2.0
// Reads of memory that is not ours: stacks, frames, code, tables of images. Any of it may be gone:
// an interpreter frees the frame that it still calls current, another thread closes the library
// that is being unwound. So no such read can end the program. A load that faults goes on at its
// fix-up (fault.h), which costs nothing while nothing faults. Where the fault would not come to us,
// the kernel is asked to copy instead, about a microsecond each.
//
// There is no other way: nothing in this room dereferences a foreign pointer, and no page is
// believed to be readable.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

// Words at any address: both our CPUs take them; the types tell the compiler, which may assume
// otherwise.
typedef uint16_t __attribute__((aligned(1), may_alias)) fm_sig_u16;
typedef uint32_t __attribute__((aligned(1), may_alias)) fm_sig_u32;
typedef uint64_t __attribute__((aligned(1), may_alias)) fm_sig_u64;

// Whether a fault of a load below comes to fm_sig_fault(), as far as this thread knew when it last
// asked (fm_sig_fault_check). initial-exec: reading it never allocates.
extern __thread bool fm_sig_is_recoverable __attribute__((tls_model("initial-exec")));

// Asks the kernel for a copy. False: not all of it is there.
bool fm_sig_read_by_kernel(uintptr_t addr, void *to, size_t len);

#ifdef FM_INJECT_FAULTS
// The address to read instead: now and then one that is nobody's (fault.c).
uintptr_t fm_sig_inject(uintptr_t addr);
#else
#define fm_sig_inject(addr) (addr)
#endif

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
// Bounds are what a fuzzer looks for: a load that the sanitizer sees, and nobody mends.
#define FM_SIG_LOAD(insn, type, addr, to_, fault_) \
	do {                                       \
		if (!(addr))                       \
			goto fault_;               \
		to_ = *(const type *)(addr);       \
	} while (0)
#else
// One load with a way out. `insn` loads %[from] into %[to]; the table names the load and where to
// go on when it faults.
#define FM_SIG_LOAD(insn, type, addr, to_, fault_)                             \
	__asm__ volatile goto("1:	" insn "\n"                            \
			      "	.pushsection fm_fixups, \"a\", @progbits\n"    \
			      "	.long 1b - ., %l[" #fault_ "] - .\n"           \
			      "	.popsection\n"                                 \
			      : [to] "=r"(to_)                                 \
			      : [from] "m"(*(const type *)fm_sig_inject(addr)) \
			      :                                                \
			      : fault_)
#endif

#if defined(__x86_64__)
#define FM_SIG_LOAD_8 "movzbl %[from], %k[to]"
#define FM_SIG_LOAD_16 "movzwl %[from], %k[to]"
#define FM_SIG_LOAD_32 "movl %[from], %k[to]"
#define FM_SIG_LOAD_64 "movq %[from], %[to]"
#else
#define FM_SIG_LOAD_8 "ldrb %w[to], %[from]"
#define FM_SIG_LOAD_16 "ldrh %w[to], %[from]"
#define FM_SIG_LOAD_32 "ldr %w[to], %[from]"
#define FM_SIG_LOAD_64 "ldr %[to], %[from]"
#endif

// Below the first page and above the user half nothing is: pointers torn in two end up there. It
// saves the fault.
static FM_ALWAYS_INLINE bool fm_sig_is_user_address(uintptr_t addr)
{
	return FM_LIKELY(addr - 4096 < (1ull << 47) - 2 * 4096);
}

#define FM_SIG_DEFINE_READ(name, bits, loaded)                                               \
	static FM_ALWAYS_INLINE FM_MUST_CHECK bool name(uintptr_t addr, uint##bits##_t *ret) \
	{                                                                                    \
		uint64_t v;                                                                  \
		if (!fm_sig_is_user_address(addr))                                           \
			return false;                                                        \
		if (FM_UNLIKELY(!fm_sig_is_recoverable))                                     \
			return fm_sig_read_by_kernel(addr, ret, sizeof(*ret));               \
		FM_SIG_LOAD(FM_SIG_LOAD_##bits, loaded, addr, v, fault);                     \
		*ret = (uint##bits##_t)v;                                                    \
		return true;                                                                 \
	fault:                                                                               \
		return false;                                                                \
	}
FM_SIG_DEFINE_READ(fm_sig_read_u8, 8, uint8_t)
FM_SIG_DEFINE_READ(fm_sig_read_u16, 16, fm_sig_u16)
FM_SIG_DEFINE_READ(fm_sig_read_u32, 32, fm_sig_u32)
FM_SIG_DEFINE_READ(fm_sig_read_u64, 64, fm_sig_u64)

// The bare load, for loops that have asked fm_sig_is_recoverable before and take no wild pointers.
static FM_ALWAYS_INLINE FM_MUST_CHECK bool fm_sig_load_u64(uintptr_t addr, uint64_t *ret)
{
	FM_SIG_LOAD(FM_SIG_LOAD_64, fm_sig_u64, addr, *ret, fault);
	return true;
fault:
	return false;
}

// Copies len bytes. False: not all of them are there, and what `to` holds is of no use.
FM_MUST_CHECK bool fm_sig_read(uintptr_t addr, void *to, size_t len);

// Bytes of a string up to its 0, at most max; what cannot be read ends it.
size_t fm_sig_read_length(uintptr_t addr, size_t max);
