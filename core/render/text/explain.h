// SPDX-License-Identifier: Apache-2.0
// Every number of the text report in plain words: what `fathom report --explain` prints.
// docs/report.md says the same, and tests/e2e/test_explain.py compares the two.
#pragma once

#include <stdio.h>

#include "aggregate/tree/view.h"

void fm_explain_write(FILE *out, const struct fm_view_options *options);
