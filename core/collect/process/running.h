// SPDX-License-Identifier: Apache-2.0
// How many threads of the whole machine run or could.
#pragma once

#include <stdint.h>

// -1: it cannot be told here.
int fm_running_open(void);
// The caller is one of them.
uint32_t fm_running_count(int fd);
