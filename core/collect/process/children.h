// SPDX-License-Identifier: Apache-2.0
// Who descends from whom, as the kernel tells it now.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Calls each() for the processes that this one started and that have not ended, as far as they are
// still its own.
void fm_process_children(uint32_t pid, void (*each)(void *ctx, uint32_t child), void *ctx);
// Calls each() for all processes that are visible here.
void fm_process_all(void (*each)(void *ctx, uint32_t pid), void *ctx);
