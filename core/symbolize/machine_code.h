// SPDX-License-Identifier: Apache-2.0
// The machine code of native functions as text, each instruction with the source line it was made
// of. Read from the image's file as it is on this machine, in a child process.
#pragma once

#include "base/mem.h"
#include "base/str.h"
#include "symbolize/symbolize.h"

struct fm_instruction {
	uint64_t addr;         // ELF virtual address
	struct fm_str text;    // "mov rax, qword ptr [rbx + 8]"
	struct fm_str inlined; // the function that was inlined here; "" = none
	struct fm_str file;    // "" = unknown
	uint32_t line;         // 0 = unknown
	struct fm_str source;  // the line itself, where its file is on this machine
};

// One function's instructions: a run of fm_machine_code.items, by address.
struct fm_listing {
	uint32_t image_id;
	uint64_t start, end;
	size_t first, n;
};

// A zeroed one is empty, once its arena is initialised.
struct fm_machine_code {
	struct fm_arena arena;
	FM_VEC(struct fm_listing) listings;
	FM_VEC(struct fm_instruction) items;
	bool lacks_library; // there is no disassembler on this machine
};

// Adds the functions of an image that hold these rising addresses, those that can be read. Of one
// that is longer than FM_LISTING_BYTES nothing is added.
#define FM_LISTING_BYTES (256u << 10)
void fm_machine_code_add(struct fm_machine_code *m, const struct fm_profile *profile, uint32_t image_id,
			 const uint64_t *addrs, size_t n);
void fm_machine_code_deinit(struct fm_machine_code *m);
