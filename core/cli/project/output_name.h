// SPDX-License-Identifier: Apache-2.0
// Names of output files that become another one for each run.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// %p: the process id; %t: the time, UTC, as yyyymmdd_HHMMSS; %r: the rank that mpirun or srun gave
// to this process; %%: a percent sign. FM_E_USAGE: another letter, no rank, or too long.
FM_MUST_CHECK enum fm_err fm_output_name_expand(const char *name, uint32_t pid, char *ret, size_t cap,
						struct fm_diag *diag);
