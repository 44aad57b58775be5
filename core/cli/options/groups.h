// SPDX-License-Identifier: Apache-2.0
// Groups of options that several commands share: what to capture and how, and how tables are
// printed.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/tree/view.h"
#include "base/err.h"
#include "cli/options/options.h"
#include "collect/capture/capture.h"

struct fm_capture_flags {
	uint64_t rate_hz;
	double duration_s, max_overhead_pct;
	const char *engine;
	bool native, children, kernel;
	bool is_cpu;            // --cpu: time only
	bool is_memory_wanted;  // when neither --cpu nor --memory says
	const char *memory;     // --memory[=exact]; "" = sampled, NULL = not given
	const char *memory_log; // --memory-log[=BYTES]; NULL = not given
	int64_t precision;
	bool is_redacted;
	const char *redact_also;    // implies it
	const char *listen, *token; // --listen [HOST:]PORT, --token; NULL = not given
};

#define FM_CAPTURE_FLAGS_DEFAULT                                                                            \
	{                                                                                                   \
		.rate_hz = 1000, .max_overhead_pct = 10, .engine = "auto", .native = true, .children = true \
	}

// Rows of a table of options: what to capture; memory; what is masked; who may watch.
// clang-format off
#define FM_CAPTURE_OPTIONS(flags)                                                                                    \
	{ "no-native", 0, FM_OPT_NO_FLAG, &(flags)->native, NULL, "Python frames only" },                            \
	{ "kernel", 0, FM_OPT_FLAG, &(flags)->kernel, NULL,                                                          \
	  "the kernel's functions inside system calls, where the system permits it" },                               \
	{ "no-children", 0, FM_OPT_NO_FLAG, &(flags)->children, NULL, "the first process only" },                    \
	{ "max-overhead", 0, FM_OPT_REAL, &(flags)->max_overhead_pct, "PCT",                                         \
	  "sample less often rather than cost more (default 10; 0 = no limit)" },                                    \
	{ "engine", 0, FM_OPT_CHOICE, &(flags)->engine, "auto|perf|ticker",                                          \
	  "what triggers samples (default: ticker; perf tells no system time)" }
#define FM_MEMORY_OPTIONS(flags, memory_help)                                                                        \
	{ "memory", 0, FM_OPT_OPTIONAL_TEXT, &(flags)->memory, "HOW", memory_help },                                 \
	{ "memory-log", 0, FM_OPT_OPTIONAL_TEXT, &(flags)->memory_log, "SIZE",                                       \
	  "=exact, and every single event, until the file has SIZE (default 1G)" },                                  \
	{ "precision", 0, FM_OPT_INT, &(flags)->precision, "N",                                                      \
	  "memory: finer (up to 10) or coarser (down to -10) than one byte in 128 KiB" }
#define FM_REDACT_OPTIONS(flags)                                                                                     \
	{ "redact", 0, FM_OPT_FLAG, &(flags)->is_redacted, NULL,                                                     \
	  "mask arguments and source lines that look like secrets" },                                                \
	{ "redact-also", 0, FM_OPT_TEXT, &(flags)->redact_also, "REGEX", "--redact, and mask what matches this regular expression, too" }
#define FM_LISTEN_OPTIONS(flags)                                                                                     \
	{ "listen", 0, FM_OPT_TEXT, &(flags)->listen, "[HOST:]PORT",                                                 \
	  "let 'fathom live' and a browser watch while it runs (8086 by convention; default: nobody)" },             \
	{ "token", 0, FM_OPT_TEXT, &(flags)->token, "TOKEN",                                                         \
	  "the secret that other machines need to watch (default: a random one, printed)" }
// clang-format on

// "512M" in bytes; 0 when it is no size.
uint64_t fm_size_parse(const char *text);
// Checks the values and fills what the collector wants but argv and output_path. One line in diag
// when a value is wrong.
FM_MUST_CHECK enum fm_err fm_capture_flags_apply(const struct fm_capture_flags *flags, struct fm_capture_options *ret,
						 struct fm_diag *diag);

// Options of commands that print tables for people: --top, --width, --color.

struct fm_text_flags {
	uint64_t n_top, width;
	const char *color;
};

#define FM_TEXT_FLAGS_DEFAULT ((struct fm_text_flags){ .color = "auto" })

// Rows of a table of options.
// clang-format off
#define FM_TEXT_OPTIONS(flags, top_help)                                                                             \
	{ "top", 0, FM_OPT_UINT, &(flags)->n_top, "N", top_help },                                                   \
	{ "width", 0, FM_OPT_UINT, &(flags)->width, "COLUMNS", "width of the text (default: the terminal's, else 100)" },  \
	{ "color", 0, FM_OPT_CHOICE, &(flags)->color, "auto|never|always",                                           \
	  "auto colours a terminal unless NO_COLOR is set" }
// clang-format on

// After parsing.
void fm_text_flags_apply(const struct fm_text_flags *flags, struct fm_view_options *view);
