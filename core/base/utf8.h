// SPDX-License-Identifier: Apache-2.0
// Names come from files and foreign memory: any bytes. One decoder decides what is a character and
// what is not.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/str.h"

#define FM_UTF8_BAD 0xfffdu // U+FFFD, what an undecodable byte is shown as

// The character at *p, which moves on by at least one byte; *p < end. Overlong forms, surrogates
// and cut-off sequences give FM_UTF8_BAD for one byte each, so that decoding always meets the next
// good character.
uint32_t fm_utf8_next(const char **p, const char *end);

// Appends the character's bytes.
void fm_utf8_put(struct fm_buf *b, uint32_t code_point);

// How many terminal cells the character takes: 0, 1 or 2. Control characters take none.
unsigned fm_utf8_width(uint32_t code_point);

// Whether a character does more than show itself: controls (which drive a terminal), what ends a
// line, and marks that turn the writing direction of what follows. Every output replaces or escapes
// these.
bool fm_utf8_is_unfit(uint32_t code_point);

// Appends s as one line that is fit for a terminal and for any format that goes by lines: tabs
// become spaces, what is unfit '?', undecodable bytes U+FFFD.
void fm_utf8_clean(struct fm_buf *b, struct fm_str s);
void fm_utf8_print(FILE *out, struct fm_str s);
