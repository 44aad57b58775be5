// SPDX-License-Identifier: Apache-2.0
// What looks like a secret in command lines and sources, and is masked before it gets into a
// capture (--redact). Too much rather than too little: a word or line that is masked without need
// costs a look at the file, one that is not costs a password.
#pragma once

#include "base/err.h"
#include "base/str.h"

#define FM_REDACTED "***"

struct fm_redact;

// also: a regular expression (POSIX, extended) for what else is one; NULL = nothing. diag says what
// is wrong with it.
FM_MUST_CHECK enum fm_err fm_redact_create(const char *also, struct fm_redact **ret, struct fm_diag *diag);
void fm_redact_destroy(struct fm_redact *r);

// Both append to `out` and return how many words or lines were masked. Arguments joined by NUL
// bytes: values of options and assignments that are named like a secret ("--password X", "TOKEN=X",
// "Authorization: X"), passwords in addresses, and what has the shape of well-known keys.
uint32_t fm_redact_command(const struct fm_redact *r, struct fm_str nul_joined, struct fm_buf *out);
// A source text; lines that hold one are masked as a whole, and stay lines.
uint32_t fm_redact_source(const struct fm_redact *r, struct fm_str text, struct fm_buf *out);
