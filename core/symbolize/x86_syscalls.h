// SPDX-License-Identifier: Apache-2.0
// Names of Linux's system calls on x86-64.
#pragma once

#include <stdint.h>

// "read" for 0; NULL for a number that is none, or newer than this build.
const char *fm_x86_syscall_name(uint64_t number);
