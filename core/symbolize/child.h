// SPDX-License-Identifier: Apache-2.0
// Work on untrusted files in a child process: what it maps must not stay in ours, and a damaged file
// that crashes or stalls a library costs its own answer and nothing else.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

// Writes its answer into out.
typedef void (*fm_child_fn)(const void *ctx, struct fm_buf *out);

// Appends the answer to ret: cut off or empty when the child died over it. False: the deadline
// (CLOCK_MONOTONIC) passed. Where no child can be had the work is done here and now.
bool fm_child_run(fm_child_fn work, const void *ctx, uint64_t deadline_ns, struct fm_buf *ret);
