// SPDX-License-Identifier: Apache-2.0
// Text inside CSV.
#pragma once

#include <stdio.h>

#include "base/str.h"

// One field with its quotes, on one line whatever is in it. What begins like a formula is one to
// spreadsheets, quotes or not, unless an apostrophe stands before it.
void fm_csv_put(FILE *out, struct fm_str text);
