// SPDX-License-Identifier: Apache-2.0
// The entries of an unwind section (.eh_frame, .debug_frame), one function each. Inside this room
// only.
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct fm_cfa_section {
	Elf *elf;
	Elf_Data *data;
	uint64_t addr;
	bool is_eh;      // .eh_frame, whose entries have encoded addresses
	Elf_Data *index; // .eh_frame_hdr, by which libdw finds entries; NULL: none
	uint64_t index_addr;
};

// The first section of that name that has bytes; unpacked if it was compressed.
bool fm_cfa_section_find(Elf *elf, const char *name, struct fm_cfa_section *ret);

// LLVM's linker marks .eh_frame as the psABI has it, and libdw looks for plain sections only: makes
// them plain, in memory. The file must have been opened with ELF_C_READ_MMAP_PRIVATE, or be in
// memory.
void fm_cfa_make_plain(Elf *elf);

struct fm_cfa_function {
	uint64_t start, end;
	uint64_t off;       // of its entry in the section
	uint32_t n_program; // bytes of its program
};
typedef void (*fm_cfa_function_fn)(void *ctx, const struct fm_cfa_function *f);

// Every function that the section describes. False: libdw must not be asked for any of its rules.
// It has an entry whose program must not be run (below): one function's program, run by
// mistake for another's addresses, would do the harm as well. Or its index leads to what is no
// entry; libdw would take it for one.
bool fm_cfa_section_each(const struct fm_cfa_section *s, fm_cfa_function_fn each, void *ctx);
bool fm_cfa_section_is_sane(const struct fm_cfa_section *s); // the same for its answer only

// LSB, "Exception Frame Header": version 1, three encodings, then pointer to .eh_frame (pcrel
// sdata4), count (udata4) and the sorted table (datarel sdata4). Every linker writes these
// encodings.
#define FM_CFA_INDEX_BYTES 12
#define FM_CFA_INDEX_HEAD 0x3b031b01u
#define FM_CFA_INDEX_EMPTY 0xffff1b01u // no count, no table

// The programs in unwind tables, looked over before libdw runs them: it makes room for every
// register they name, and for all of them again with every state that they remember. A damaged one
// names the hundred-millionth.

// True when all instructions are known and whole, every register is one that a CPU of this kind may
// have, and neither the program nor what it remembers at a time is longer than a compiler would
// make it.
bool fm_cfa_program_is_sane(const uint8_t *start, const uint8_t *end);
