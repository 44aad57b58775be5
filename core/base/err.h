// SPDX-License-Identifier: Apache-2.0
// Every way a Fathom operation can fail, with a stable number and one sentence.
// The numbers are part of the file format and of exit messages: retired ones stay, marked so.
#pragma once

#include "base/compiler.h"

#define FM_ERRORS(X)                                                            \
	X(FM_OK, 0, "success")                                                  \
	X(FM_E_IO, 2, "reading or writing failed")                              \
	X(FM_E_USAGE, 3, "wrong usage")                                         \
	X(FM_E_TRUNCATED, 10, "the file ends inside a record")                  \
	X(FM_E_BAD_MAGIC, 11, "not a Fathom profile")                           \
	X(FM_E_BAD_VERSION, 12, "the profile was written by a newer Fathom")    \
	X(FM_E_BAD_CHECKSUM, 13, "a chunk's checksum does not match its bytes") \
	X(FM_E_CORRUPT, 14, "a record holds impossible values")                 \
	X(FM_E_END, 15, "end of data")                                          \
	X(FM_E_NOT_FOUND, 16, "not found")                                      \
	X(FM_E_REFUSED, 17, "the system refused")                               \
	X(FM_E_UNSUPPORTED, 18, "not supported")                                \
	X(FM_E_TOO_LARGE, 19, "more than any profile holds")

enum fm_err {
#define X(name, number, text) name = number,
	FM_ERRORS(X)
#undef X
};

// The sentence for an error; never NULL.
const char *fm_err_text(enum fm_err err);

// What a human is told when an operation fails: one line, cause and remedy. Filled only on failure.
struct fm_diag {
	char text[512];
};

// Writes the line and hands err back, so that a failing path is one statement:
//   return fm_diag_set(diag, FM_E_IO, "cannot open %s: %s", path, strerror(errno));
// diag may be NULL.
enum fm_err fm_diag_set(struct fm_diag *diag, enum fm_err err, const char *fmt, ...) FM_PRINTF(3, 4);
