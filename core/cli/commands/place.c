// SPDX-License-Identifier: Apache-2.0
// fathom place: what files and folders of ours are called, and which folders are believed, for the
// Python package: these rules stand here only. Not for people.
//
// The answer is one line on standard output, "ok TEXT" or "error TEXT".
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/project/project.h"
#include "cli/run/results.h"

// name NAME PID: with the letters behind percent signs filled in.
static enum fm_err answer_name(char **words, char *ret, size_t cap, struct fm_diag *diag)
{
	return fm_output_name_expand(words[0], (uint32_t)strtoul(words[1], NULL, 10), ret, cap, diag);
}

// results OUTPUT_DIR STEM: a new folder for results; OUTPUT_DIR "" = the usual one.
static enum fm_err answer_results(char **words, char *ret, size_t cap, struct fm_diag *diag)
{
	char usual[PATH_MAX];
	bool is_usual = !*words[0];
	const char *output_dir = is_usual ? fm_output_dir_usual(usual, sizeof(usual)) : words[0];
	return fm_results_folder_make(output_dir, is_usual, words[1], ret, cap, diag);
}

// distrust FOLDER: what speaks against writing there, as the end of a sentence; "" = nothing.
static enum fm_err answer_distrust(char **words, char *ret, size_t cap, struct fm_diag *diag)
{
	(void)diag;
	const char *why = fm_results_folder_distrust(words[0]);
	snprintf(ret, cap, "%s", why ? why : "");
	return FM_OK;
}

static const struct question {
	const char *name;
	int n_words;
	enum fm_err (*answer)(char **words, char *ret, size_t cap, struct fm_diag *diag);
} questions[] = {
	{ "name", 2, answer_name },
	{ "results", 2, answer_results },
	{ "distrust", 1, answer_distrust },
};

int fm_cmd_place(int argc, char **argv)
{
	const struct fm_option options[] = { { 0 } };
	const struct fm_usage usage = {
		.command = "place",
		.operands = "name NAME PID | results OUTPUT_DIR STEM | distrust FOLDER",
		.about = "Say where the Python package is to write.",
		.options = options,
		.min_operands = 1,
		.max_operands = 3,
		.missing_operand = "name the question",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	for (size_t i = 0; i < FM_ARRAY_LEN(questions); i++) {
		char text[PATH_MAX];
		struct fm_diag diag;
		if (strcmp(ops.v[0], questions[i].name) != 0 || ops.n != 1 + questions[i].n_words)
			continue;
		if (!questions[i].answer(ops.v + 1, text, sizeof(text), &diag)) {
			printf("ok %s\n", text);
			return FM_EXIT_OK;
		}
		printf("error %s\n", diag.text);
		return FM_EXIT_FAILED;
	}
	fm_say("'fathom place' has no such question");
	return FM_EXIT_USAGE;
}
