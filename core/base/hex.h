// SPDX-License-Identifier: Apache-2.0
// Hexadecimal digits.
#pragma once

#define FM_NO_DIGIT 16u

// 0 to 15, of either case, or FM_NO_DIGIT.
static inline unsigned fm_hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
	       : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
	       : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
				      : FM_NO_DIGIT;
}
