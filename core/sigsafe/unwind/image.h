// SPDX-License-Identifier: Apache-2.0
// Which loaded image a pc belongs to, and first-sight records of images. Signal-safe.
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/base/state.h"

struct fm_sig_image_info {
	uintptr_t start, end;   // mapped range
	uintptr_t eh_frame_hdr; // 0 when it has none
	uintptr_t bias;
	uintptr_t path; // a string that the loader may free: fm_sig_read(). 0 for the executable
};

// False when pc is in no image that the dynamic linker knows (JIT code, a static program on an old
// libc).
bool fm_sig_image_find(uintptr_t pc, struct fm_sig_image_info *ret);

// Pushes the image's record at its first sight in this process. False: there was no room, a later
// sight tries again.
bool fm_sig_image_publish(struct fm_sig_thread *t, const struct fm_sig_image_info *image);

// Looks whether the image mapped at start is a CPython, and if so fills fm_sig.python
// (sigsafe/python/find.c). Any thread, any time, once.
void fm_sig_find_python(uintptr_t start, uintptr_t end, uintptr_t bias);

// The address of a dynamic symbol exported by the ELF image mapped at start, 0 when it has none.
// ret_size may be NULL. Reads the image's own hash tables: no locks, no dlsym.
uintptr_t fm_sig_elf_symbol(uintptr_t start, uintptr_t end, uintptr_t bias, const char *name, uint64_t *ret_size);

// The program header of a type of the image whose ELF header is at start, from the nth on; false:
// there is none, or the image is gone.
bool fm_sig_elf_header(uintptr_t start, uint32_t type, uint32_t *nth, ElfW(Phdr) * ret);

// Bias and path by the loader's entry of an image; of one that another thread is closing it may be
// gone, and then it is not the executable.
void fm_sig_link_map_read(uintptr_t link_map, struct fm_sig_image_info *ret);

// What the agent saw at its start. Filled before the first sample, then constant.
#define FM_SIG_N_IMAGES_AT_START 256
extern struct fm_sig_image_info fm_sig_images_at_start[FM_SIG_N_IMAGES_AT_START];
extern uint32_t fm_sig_n_images_at_start;

// _dl_find_object is there and shall not be asked: FATHOM_LOADER_LIST in the target's environment,
// by which tests take the way of older libcs (loaded.h).
extern bool fm_sig_images_by_list;

// libc has no _dl_find_object, or is not to be asked: images are found by loaded.h.
bool fm_sig_image_needs_list(void);
