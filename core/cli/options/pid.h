// SPDX-License-Identifier: Apache-2.0
// Process ids on the command line: decimal, or hexadecimal with 0x; several by commas, or by the
// option given again.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/options/options.h"

#define FM_MAX_PIDS 1024u

struct fm_pids {
	uint32_t v[FM_MAX_PIDS];
	size_t n;
};

bool fm_pid_parse(const char *text, uint32_t *ret);
// All that were given, each once. FM_E_USAGE: one of them is none.
FM_MUST_CHECK enum fm_err fm_pids_parse(const struct fm_option_texts *texts, struct fm_pids *ret, struct fm_diag *diag);
// Adds one that is not there yet.
void fm_pids_add(struct fm_pids *pids, uint32_t pid);
