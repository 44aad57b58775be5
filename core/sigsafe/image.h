// Which loaded image a pc belongs to, and first-sight records of images. Signal-safe.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/state.h"

struct fm_sig_image_info {
	uintptr_t start, end;   // mapped range
	uintptr_t eh_frame_hdr; // 0 when it has none
	uintptr_t bias;
	uintptr_t path; // a string that the loader may free: fm_sig_read(). 0 for the executable
};

// False when pc is in no image that the dynamic linker knows (JIT code, a static program on an old libc).
bool fm_sig_image_find(uintptr_t pc, struct fm_sig_image_info *ret);

// Pushes the image's record at its first sight in this process. False: there was no room, a later sight tries again.
bool fm_sig_image_tell(struct fm_sig_thread *t, const struct fm_sig_image_info *image);

// The address of a dynamic symbol exported by the ELF image mapped at start, 0 when it has none. ret_size may be NULL.
// Reads the image's own hash tables: no locks, no dlsym.
uintptr_t fm_sig_elf_symbol(uintptr_t start, uintptr_t end, uintptr_t bias, const char *name, uint64_t *ret_size);

// What the agent saw at its start, for a libc without _dl_find_object. Filled before the first sample, then constant.
#define FM_SIG_N_IMAGES_AT_START 256
extern struct fm_sig_image_info fm_sig_images_at_start[FM_SIG_N_IMAGES_AT_START];
extern uint32_t fm_sig_n_images_at_start;
