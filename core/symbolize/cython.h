// SPDX-License-Identifier: Apache-2.0
// The Python names in what Cython generates.
#pragma once

#include <stdbool.h>

#include "base/str.h"

// Appends "numpy.random._mt19937.MT19937.jumped (Cython)" for
// __pyx_pw_5numpy_6random_8_mt19937_7MT19937_5jumped. False:
// no name of Cython's, or none that says whose it is; nothing was appended.
bool fm_cython_name(struct fm_buf *b, struct fm_str symbol);
