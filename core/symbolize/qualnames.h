// SPDX-License-Identifier: Apache-2.0
// What a code object is called: "Class.method" also where the interpreter (up to 3.10) kept "method"
// alone, as the capture's sources tell.
#pragma once

#include "base/str.h"
#include "read/reader.h"

struct fm_qualnames;
// Borrows the profile, which may grow.
struct fm_qualnames *fm_qualnames_create(const struct fm_profile *profile);
void fm_qualnames_destroy(struct fm_qualnames *q); // NULL is fine

// Lives as long as q and the profile. Its plain name where the source is not there or has no such
// definition; "[unnamed]" without one.
struct fm_str fm_qualnames_of(struct fm_qualnames *q, const struct fm_code_info *code);
