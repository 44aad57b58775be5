// SPDX-License-Identifier: Apache-2.0
// Which images the loader has, for a libc without _dl_find_object (glibc before 2.35, musl): a
// sorted table of what stands in the loader's list for debuggers (<link.h>, struct r_debug), which
// is read without its lock.
//
// The table is filled by the agent, outside of signals, at its start and after a dlclose(). What
// was opened since is added by the first sample that meets a pc it does not find; the list only
// grows at its end between two dlclose().
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sigsafe/unwind/image.h"

// 0 until the agent has found the list: then nothing here finds anything. Written before the first
// sample.
extern uintptr_t fm_sig_loader_list;

// Signal-safe, from any thread. An image whose header is not where its addresses begin (an
// executable at fixed ones) is not found.
bool fm_sig_loaded_find(uintptr_t pc, struct fm_sig_image_info *ret);

// Reads the whole list anew. Not at signal time: it takes as long as there are images.
void fm_sig_loaded_refill(void);

// In the child of a fork: whoever was about to change the table is not here.
void fm_sig_loaded_fork(void);
