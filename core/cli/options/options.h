// SPDX-License-Identifier: Apache-2.0
// The one parser of command-line options: a command lists its options in a table, help is printed
// from the same rows.
//
//	const char *out = NULL;
//	bool json = false;
//	const struct fm_option options[] = {
//		{ "output", 'o', FM_OPT_TEXT, &out, "FILE", "write there (default: standard output)" },
//		{ "json", 0, FM_OPT_FLAG, &json, NULL, "for machines" },
//		{ 0 },
//	};
//	const struct fm_usage usage = { .command = "report", .operands = "FILE", .options = options, ... };
//	struct fm_operands ops;
//	int exit_code;
//	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
//		return exit_code;
//
// Understood: --name VALUE, --name=VALUE, -l VALUE, -lVALUE, -l=VALUE, bundled letters (-tn), and
// -- (the rest are operands). --help and -h are always there. A wrong option is one line on stderr
// and exit code 2.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum fm_option_kind {
	FM_OPT_NONE = 0,      // ends the table
	FM_OPT_FLAG,          // bool: becomes true
	FM_OPT_NO_FLAG,       // bool: becomes false (--no-native over a bool that starts as true)
	FM_OPT_TEXT,          // const char *: borrowed from argv
	FM_OPT_TEXTS,         // struct fm_option_texts: the same, as often as it is given
	FM_OPT_OPTIONAL_TEXT, // const char *: "" for a bare --name, else what follows '='; never eats the next argument
	FM_OPT_CHOICE,        // const char *: one of the words in .argument, which are separated by '|'
	FM_OPT_UINT,          // uint64_t: decimal, with an optional k or M ("10k")
	FM_OPT_INT,           // int64_t: decimal, may be negative
	FM_OPT_REAL,          // double: not negative; a trailing % or s is allowed ("5%", "10s")
	FM_OPT_IGNORED,       // a flag taken for compatibility; does nothing
};

#define FM_OPTION_MAX_TEXTS 256
struct fm_option_texts {
	const char *v[FM_OPTION_MAX_TEXTS];
	unsigned n;
};

struct fm_option {
	const char *name; // without dashes; NULL = letter only
	char letter;      // 0 = none
	enum fm_option_kind kind;
	void *target;
	const char *argument; // what help calls the value; for FM_OPT_CHOICE the words themselves
	const char *help;     // NULL = understood but left out of --help
};

struct fm_usage {
	const char *command;  // "report"
	const char *operands; // "FILE"; as shown in the usage line
	const char *about;    // one or two sentences
	const struct fm_option *options;
	const char *examples;       // whole lines, indented by two; may be NULL
	bool stop_at_first_operand; // "run script.py --flag": what follows the script belongs to it
	// "record -F 999": a flag's letter that with a number behind it is this option; perf and
	// py-spy disagree. 0 = none.
	char number_letter;
	const char *number_option;
	char last_option; // "run -m module -v": what follows this option's value belongs to the module; 0 = none
	unsigned min_operands, max_operands; // max 0 = none allowed, UINT_MAX = any number
	const char *missing_operand;         // the line when there are too few: "name a profile to report"
};

// Borrowed from argv, which is reordered so that operands are contiguous; v[n] is NULL when
// argv[argc] is.
struct fm_operands {
	char **v;
	int n;
};

// True: go on. False: help was printed or a line said what is wrong, and *ret_exit is the exit
// code. argv[0] is the command's own name.
bool fm_options_parse(const struct fm_usage *usage, int argc, char **argv, struct fm_operands *ret, int *ret_exit);

// Gives the option's target a value, as the command line would (NULL for flags). NULL, or what was
// expected instead.
const char *fm_option_store(const struct fm_option *o, const char *value);

// What --help prints, at the given width.
void fm_options_help(const struct fm_usage *usage, FILE *out, unsigned width);

// The first of the words, up to a "--", that is written as one of the options; NULL = none. For
// what stands behind a target.
const char *fm_options_misplaced(const struct fm_option *options, char **words, int n);

// One row per command; help and dispatch come from the table in main.c. A command gets its own name
// as argv[0].
struct fm_command {
	const char *name;
	int (*run)(int argc, char **argv); // returns the exit code
	const char *summary;
};

// Exit codes of the contract: 0 fine, 1 the job failed (one line says why), 2 wrong usage.
enum { FM_EXIT_OK = 0, FM_EXIT_FAILED = 1, FM_EXIT_USAGE = 2 };

// What an option is when the command line does not say: FATHOM_* variables, then [tool.fathom] in
// the project's pyproject.toml.

// To be called before the command line is parsed, which then wins. FATHOM_MAX_OVERHEAD and
// max-overhead (or max_overhead) are --max-overhead; flags are true or false. A file that somebody
// else can change is not obeyed, which a line says; keys that decide what runs, who may watch and
// where files go are for the other two. A wrong value is one line in diag. Keys that `options` does
// not have are refused when is_strict: for the command that has them all.
FM_MUST_CHECK enum fm_err fm_defaults_apply(const struct fm_option *options, bool is_strict, struct fm_diag *diag);

// Process ids on the command line: decimal, or hexadecimal with 0x; several by commas, or by the
// option given again.
#define FM_MAX_PIDS 1024u

struct fm_pids {
	uint32_t v[FM_MAX_PIDS];
	size_t n;
};

bool fm_pid_parse(const char *text, uint32_t *ret);
// All that were given, each once. FM_E_USAGE: one of them is none.
FM_MUST_CHECK enum fm_err fm_pids_parse(const struct fm_option_texts *texts, struct fm_pids *ret, struct fm_diag *diag);
// Adds one that is not there yet.
void fm_pids_add(struct fm_pids *pids, uint32_t pid);
