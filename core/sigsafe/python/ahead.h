// SPDX-License-Identifier: Apache-2.0
// Asks for the memory that a sample is about to need, all at once.
#pragma once

#include <ucontext.h>

#include "sigsafe/base/state.h"

// Hints only: nothing is read or changed.
void fm_sig_ahead(struct fm_sig_thread *t, const ucontext_t *uc);
