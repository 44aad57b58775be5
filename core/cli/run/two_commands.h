// SPDX-License-Identifier: Apache-2.0
// The two commands of `fathom compare`, from the words of a command line.
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "cli/options/options.h"
#include "cli/run/pairs.h"

// What the options say; NULL = not given.
struct fm_two_words {
	const char *base, *head; // commands for a shell
	const char *base_ref;    // one command, and a state of the repository for the base
};

struct fm_two_commands {
	char **argv[FM_N_SIDES]; // borrowed from the operands, or from here
	bool has_shells;
	char *shells[FM_N_SIDES][4]; // "sh -c COMMAND"
	char program[4200];          // what the base's first word stands for, where that is not there
};

// FM_E_USAGE: the words do not say which commands are meant.
FM_MUST_CHECK enum fm_err fm_two_commands_take(struct fm_two_commands *t, const struct fm_two_words *words,
					       const struct fm_operands *ops, struct fm_diag *diag);
// Of a base that runs in another folder: a program that only this one has (a virtual environment is in
// no commit) is this one's on both sides.
void fm_two_commands_find_program(struct fm_two_commands *t, const char *base_folder);
// As a line for a shell. redact: what is masked in it; NULL = nothing.
void fm_two_commands_name(const struct fm_two_commands *t, enum fm_side side, const struct fm_redact *redact,
			  struct fm_buf *ret);
// "python old.py" and "python new.py": true where commands of as many words differ by one script, which
// is then one file with two names.
bool fm_two_commands_renamed(const struct fm_two_commands *t, struct fm_str *ret_base, struct fm_str *ret_head);
