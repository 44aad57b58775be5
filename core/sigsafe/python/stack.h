// SPDX-License-Identifier: Apache-2.0
// What ticks and allocator hooks do alike with a stack before and after it is walked. Signal-safe.
#pragma once

#include <stdint.h>

#include "sigsafe/base/state.h"

// Before a walk: forgets what may no longer be true.
void fm_sig_stack_refresh(struct fm_sig_thread *t);

// How many outermost frames of t->out are those of the stack that was pushed last. Most of a stack
// is as it was a millisecond ago: only the frames inside of the common part are written.
uint32_t fm_sig_stack_n_shared(const struct fm_sig_thread *t);
// t->out is in the ring: it is now the one that was pushed last.
void fm_sig_stack_published(struct fm_sig_thread *t, uint32_t n_shared);
