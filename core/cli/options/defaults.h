// SPDX-License-Identifier: Apache-2.0
// What an option is when the command line does not say: FATHOM_* variables, then [tool.fathom] in
// the project's pyproject.toml.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "cli/options/options.h"

// To be called before the command line is parsed, which then wins. FATHOM_MAX_OVERHEAD and
// max-overhead (or max_overhead) are --max-overhead; flags are true or false. A file that somebody
// else can change is not obeyed, which a line says; keys that decide what runs, who may watch and
// where files go are for the other two. A wrong value is one line in diag. Keys that `options` does
// not have are refused when is_strict: for the command that has them all.
FM_MUST_CHECK enum fm_err fm_defaults_apply(const struct fm_option *options, bool is_strict, struct fm_diag *diag);
