// SPDX-License-Identifier: Apache-2.0
// One ELF file as a walker of another process's stacks needs it: where its segments go, what it
// exports, and how to get from an address in it to the caller. Rules are made one by one, when
// asked for: a stack needs a few dozen of a file's hundred thousand. Files are untrusted; a damaged
// one gives fewer answers, never a crash.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fm_unwind_file;

// Takes over fd. FM_E_CORRUPT: no ELF file for this machine.
FM_MUST_CHECK enum fm_err fm_unwind_file_open(int fd, struct fm_unwind_file **ret);
// The vDSO that the kernel gives to this process; it has no file. FM_E_NOT_FOUND: none.
FM_MUST_CHECK enum fm_err fm_unwind_file_open_vdso(struct fm_unwind_file **ret);
void fm_unwind_file_close(struct fm_unwind_file *f); // NULL is fine

struct fm_unwind_file_info {
	uint64_t start, end; // ELF virtual addresses of what is loaded; start at a page
	const uint8_t *build_id;
	uint32_t build_id_len;
};
void fm_unwind_file_get(const struct fm_unwind_file *f, struct fm_unwind_file_info *ret);
// The ELF virtual address of what a mapping shows that begins at this offset of the file.
// FM_E_NOT_FOUND: no segment is there.
FM_MUST_CHECK enum fm_err fm_unwind_file_map(const struct fm_unwind_file *f, uint64_t map_off, uint64_t *ret);
// Bytes that a segment loads from the file, at this ELF virtual address: all of them or nothing.
bool fm_unwind_file_read(const struct fm_unwind_file *f, uint64_t addr, void *to, size_t len);
// A symbol that the file exports. *ret_size may be 0, and ret_size NULL.
FM_MUST_CHECK enum fm_err fm_unwind_file_symbol(const struct fm_unwind_file *f, const char *name, uint64_t *ret,
						uint64_t *ret_size);

enum fm_unwind_rule_kind {
	FM_RULE_NONE = 0, // no unwind information here, or in a way that is not understood
	FM_RULE_REG,      // CFA = register + cfa_off
	FM_RULE_DEREF,    // CFA = *(register + cfa_off)
	FM_RULE_END,      // outermost frame
	FM_RULE_PLT,      // CFA = rsp + 8, plus 8 from byte cfa_off of a 16-byte PLT entry on
	FM_RULE_SIGNAL,   // the registers of what was interrupted lie at the stack pointer
};

#define FM_RULE_N_REGS 16        // DWARF numbers; the return address is not among them
#define FM_RULE_SAME 0           // in saved[]: as it is
#define FM_RULE_LOST INT32_MIN   // not to be had
#define FM_RULE_AT_RBP INT32_MAX // where rbp points to: realigned stacks

struct fm_unwind_rule {
	uint8_t kind, cfa_reg;
	bool is_guessed; // from the code itself: what it finds must look like a return address
	int32_t cfa_off;
	int32_t ra_at_sp;              // the return address is at the stack pointer + this; 0 = right below the CFA
	int32_t saved[FM_RULE_N_REGS]; // from the CFA
};
// Where the function that holds the address begins, as the unwind information tells. FM_E_NOT_FOUND
// when it does not.
FM_MUST_CHECK enum fm_err fm_unwind_file_function(struct fm_unwind_file *f, uint64_t addr, uint64_t *ret);
// The rule of the instruction at this ELF virtual address.
void fm_unwind_file_rule(struct fm_unwind_file *f, uint64_t addr, struct fm_unwind_rule *ret);
