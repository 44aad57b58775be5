// SPDX-License-Identifier: Apache-2.0
// What a signal interrupted.
#pragma once

#include <stdint.h>
#include <ucontext.h>

static inline uint64_t fm_sig_context_pc(const ucontext_t *uc)
{
#if defined(__x86_64__)
	return (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
#else
	return uc->uc_mcontext.pc;
#endif
}
