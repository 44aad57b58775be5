// SPDX-License-Identifier: Apache-2.0
// A core file: the memory, mappings and threads of a process that is over, as the kernel wrote them
// (core(5); the notes are those of <sys/procfs.h> and of the kernel's fs/binfmt_elf.c). Nothing in
// it is believed: it may be cut short, or made up.
//
// What the kernel left out because it lies in a file as well is read from that file, if it is still
// the one that was mapped.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "collect/process/memory.h"

struct fm_core_thread {
	uint32_t tid;
	const void *registers; // struct user_regs_struct of the machine that it ran on
	size_t registers_bytes;
};

struct fm_core;
FM_MUST_CHECK enum fm_err fm_core_open(const char *path, struct fm_core **ret, struct fm_diag *diag);
void fm_core_close(struct fm_core *core); // NULL is fine

uint32_t fm_core_pid(const struct fm_core *core);
int fm_core_signal(const struct fm_core *core);            // that ended it; 0: none, a debugger wrote the file
struct fm_str fm_core_command(const struct fm_core *core); // as ps(1) has it, cut at 80 bytes
// The one that the signal came to is the first.
size_t fm_core_n_threads(const struct fm_core *core);
const struct fm_core_thread *fm_core_thread_at(const struct fm_core *core, size_t i);

// Bytes read, which may be fewer than len: what follows is not known any more.
size_t fm_core_read(struct fm_core *core, uint64_t addr, void *to, size_t len);
// As fm_process_maps(): those of files, and what is in the core and can be executed.
void fm_core_maps(struct fm_core *core, fm_process_map_fn each, void *ctx);
// The file of a mapping; the caller closes it. -1: it is not there, or another one by now.
int fm_core_open_file(struct fm_core *core, const char *path);
// Mapped files that are not the ones that were mapped: how many, and the first one's path.
uint32_t fm_core_n_replaced(const struct fm_core *core, const char **ret_first);
bool fm_core_is_cut(const struct fm_core *core); // memory is missing at its end
