// SPDX-License-Identifier: Apache-2.0
// The viewer in one file, to keep or to send.
#pragma once

#include <stdio.h>

#include "aggregate/analysis/analysis.h"

// base: the capture to compare with, or NULL. One line in diag on failure; write errors stay in the
// FILE.
FM_MUST_CHECK enum fm_err fm_html_write(FILE *out, struct fm_analysis *base, struct fm_analysis *a,
					struct fm_diag *diag);
