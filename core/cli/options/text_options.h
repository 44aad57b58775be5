// SPDX-License-Identifier: Apache-2.0
// Options of commands that print tables for people: --top, --width, --color.
#pragma once

#include <stdint.h>

#include "aggregate/tree/view.h"
#include "cli/options/options.h"

struct fm_text_flags {
	uint64_t n_top, width;
	const char *color;
};

#define FM_TEXT_FLAGS_DEFAULT ((struct fm_text_flags){ .color = "auto" })

// Rows of a table of options.
// clang-format off
#define FM_TEXT_OPTIONS(flags, top_help)                                                                             \
	{ "top", 0, FM_OPT_UINT, &(flags)->n_top, "N", top_help },                                                   \
	{ "width", 0, FM_OPT_UINT, &(flags)->width, "COLUMNS", "of the text (default: the terminal's, else 100)" },  \
	{ "color", 0, FM_OPT_CHOICE, &(flags)->color, "auto|never|always",                                           \
	  "auto colours a terminal unless NO_COLOR is set" }
// clang-format on

// After parsing.
void fm_text_flags_apply(const struct fm_text_flags *flags, struct fm_view_options *view);
