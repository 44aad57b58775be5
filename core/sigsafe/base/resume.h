// SPDX-License-Identifier: Apache-2.0
// The rest of a write that our signal cut short.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Finishes a write(2) or sendto(2) and goes back to where it was called. On entry the registers are
// those of the call for the rest, and the stack pointer stands at this.
struct fm_sig_resume {
	uint64_t done;   // bytes written so far
	uint64_t pc, sp; // to go back to
	uint64_t unused; // 16-byte alignment
};
extern const char fm_sig_resume_write[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_sendto[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_end[] __attribute__((visibility("hidden")));

static inline bool fm_sig_is_resuming(uint64_t pc)
{
#if defined(__x86_64__)
	return pc >= (uint64_t)fm_sig_resume_write && pc < (uint64_t)fm_sig_resume_end;
#else
	(void)pc;
	return false;
#endif
}
