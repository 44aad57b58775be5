// SPDX-License-Identifier: Apache-2.0
// What is mapped where in another process, and the unwind rules of its code. Files are opened when
// a pc first falls into them, and shared by all processes that map them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "image/unwind_file.h"

struct fm_remote_files; // what all processes share: opened files, by their inode, and room for the pages of one look
struct fm_remote_files *fm_remote_files_create(void);
struct fm_core;
// For the process that a core file is of, in place of one that runs; lent.
struct fm_remote_files *fm_remote_files_create_for_core(struct fm_core *core);
void fm_remote_files_destroy(struct fm_remote_files *files);
struct fm_remote_memory *fm_remote_files_memory(struct fm_remote_files *files); // lent

struct fm_remote_image {
	uint64_t map_start, map_end, map_off; // of the executable mapping
	char *path;
	bool is_looked_at;           // the rest is filled in
	struct fm_unwind_file *file; // NULL: none, or not readable
	uint64_t start, end, bias;   // of the whole image; pc - bias is the ELF virtual address
};

struct fm_remote_images;
struct fm_remote_images *fm_remote_images_create(uint32_t pid, struct fm_remote_files *files);
void fm_remote_images_destroy(struct fm_remote_images *images); // NULL is fine

// Reads the maps again if that is due (now_ns: see base/clock.h). True when they have changed.
bool fm_remote_images_refresh(struct fm_remote_images *images, uint64_t now_ns);
// The image that holds the pc, or NULL; file may be NULL. Good until the next refresh.
const struct fm_remote_image *fm_remote_images_find(struct fm_remote_images *images, uint64_t pc);
// True when the pc lies in memory that can be executed.
bool fm_remote_images_is_code(const struct fm_remote_images *images, uint64_t pc);
// The rule for the instruction at pc; FM_RULE_NONE also when it is in no image. Good until the next
// call.
const struct fm_unwind_rule *fm_remote_images_rule(struct fm_remote_images *images, uint64_t pc);
// The executable mappings in order of their addresses, NULL at the end; files are not opened for
// it.
const struct fm_remote_image *fm_remote_images_at(const struct fm_remote_images *images, size_t i);
