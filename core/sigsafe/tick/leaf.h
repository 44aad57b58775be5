// SPDX-License-Identifier: Apache-2.0
// Whether a sample met Python or native code.
#pragma once

#include <stdint.h>

#include "sigsafe/base/state.h"

// FM_CLASS_PYTHON or FM_CLASS_NATIVE of the stack that was just merged; the class given where it
// does not tell.
uint8_t fm_sig_leaf_class(const struct fm_sig_thread *t, uint8_t class);
