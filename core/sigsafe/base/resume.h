// SPDX-License-Identifier: Apache-2.0
// The rest of a system call that our signal cut short.
#pragma once

#include <assert.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Each finishes a call and goes back to where it was made. On entry the registers are those of the
// call for the rest, and the stack pointer stands at this.
struct fm_sig_resume {
	uint64_t done;   // bytes so far
	uint64_t pc, sp; // to go back to
	// writev, sendmsg and their kin that read only, which go on by write, sendto, read and recvfrom,
	// piece by piece:
	uint64_t pieces, n_pieces;      // struct iovec, behind the one that was cut
	uint64_t rsi, rdx, r10, r8, r9; // of the call that was made
	// A socket keeps an error for the call that finds it first, and that is not to be ours: what
	// is waited for before each call (no events: nothing), and what ends it.
	struct pollfd wait;
	uint64_t stop;
	uint64_t saved[3]; // rdi, rsi and rdx while it waits
	uint64_t unused;
};
static_assert(offsetof(struct fm_sig_resume, wait) == 80 && offsetof(struct fm_sig_resume, stop) == 88 &&
		      offsetof(struct fm_sig_resume, saved) == 96,
	      "as x86_resume.c has them");
static_assert(sizeof(struct fm_sig_resume) % 16 == 0, "a stack pointer's alignment");
extern const char fm_sig_resume_write[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_sendto[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_read[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_recvfrom[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_getrandom[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_writev[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_sendmsg[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_sendfile[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_readv[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_recvmsg[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_copy_file_range[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_sendmmsg[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_recvmmsg[] __attribute__((visibility("hidden")));
extern const char fm_sig_resume_connect[] __attribute__((visibility("hidden")));
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
