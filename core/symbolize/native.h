// SPDX-License-Identifier: Apache-2.0
// The native side of the symbolizer: every image of a profile, resolved when its first frame is
// asked for, all its sampled addresses at once. Inside this room only.
#pragma once

#include "read/reader.h"
#include "symbolize/chains.h"

struct fm_native;
struct fm_native *fm_native_create(const struct fm_profile *profile);
void fm_native_destroy(struct fm_native *n); // NULL is fine

// The chains of the image; borrowed. An address that is not among them has no name.
const struct fm_chains *fm_native_chains(struct fm_native *n, uint32_t image_id);

// What could not be named, and why, of the images asked for so far.
const struct fm_coverage *fm_native_coverage(const struct fm_native *n, size_t *ret_n);

// What would help with the names and lines of the file at this path, when the reason is known and
// is not that it has none. NULL otherwise.
const char *fm_native_remedy(const struct fm_native *n, struct fm_str path);
