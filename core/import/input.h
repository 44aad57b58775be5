// SPDX-License-Identifier: Apache-2.0
// The bytes of a foreign file, front to back through a window of bounded size; gzip and zstd are
// unpacked on the way.
//
//	const uint8_t *p = fm_input_peek(s, 4, &n);  // fewer than 4: the file ends there
//	fm_input_skip(s, 4);
//	while (fm_input_line(s, &line)) ...
//
// Damage (packed data that does not unpack, a line or a peek beyond the limits) is an early end:
// fm_input_error() tells it from the file's own.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

// What one peek or one line may ask for: no record of any format is longer, and a file without
// line ends is no text.
#define FM_INPUT_MAX_PEEK ((size_t)64 << 20)
#define FM_INPUT_MAX_LINE ((size_t)16 << 20)

struct fm_input;

// FM_E_NOT_FOUND: cannot be opened; FM_E_UNSUPPORTED: no regular file.
FM_MUST_CHECK enum fm_err fm_input_open(const char *path, struct fm_input **ret, struct fm_diag *diag);
void fm_input_close(struct fm_input *s); // NULL is fine

// At least `want` bytes from here on, or fewer where the file ends; *ret_n is how many lie there.
// They live until the next call.
const uint8_t *fm_input_peek(struct fm_input *s, size_t want, size_t *ret_n);
void fm_input_skip(struct fm_input *s, uint64_t n);
// The next line, without its end ("\n" or "\r\n"). False: there is none.
bool fm_input_line(struct fm_input *s, struct fm_str *ret);
// From the first byte again.
void fm_input_rewind(struct fm_input *s);

uint64_t fm_input_offset(const struct fm_input *s);      // of the next byte, unpacked
uint64_t fm_input_line_number(const struct fm_input *s); // of the line that fm_input_line() gave last, from 1
bool fm_input_is_packed(const struct fm_input *s);
uint64_t fm_input_file_size(const struct fm_input *s); // bytes on disk
// Of what a format packs inside of its file: whether so many bytes from so few are no profile's.
bool fm_input_is_bomb(uint64_t unpacked, uint64_t packed);
// Ends the input early once this process has more memory than a file of that size can be worth. It
// looks by itself as bytes are read: asked where few of them make much.
void fm_input_check_memory(struct fm_input *s);
int fm_input_fd(const struct fm_input *s); // lent; for a format that has to be read in any order
// Why it ended early, as the end of a sentence; NULL = it did not.
const char *fm_input_error(const struct fm_input *s);
