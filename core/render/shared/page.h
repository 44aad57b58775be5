// SPDX-License-Identifier: Apache-2.0
// The viewer's page, built from web/ by scripts/build_page.py and carried by the program: one
// self-contained HTML text. Empty when the program was built where Node could not be had.
#pragma once

#include <stddef.h>

extern const char fm_page[];
extern const size_t fm_page_len;

// Where the page wants its data: the single file has the bundle in its place.
#define FM_PAGE_MARKER "<!--fathom-bundle-->"
