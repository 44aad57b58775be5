// SPDX-License-Identifier: Apache-2.0
// What `fathom dump` prints: the threads of a profile of one look, for people and for machines.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "aggregate/analysis/analysis.h"
#include "collect/remote/remote.h"
#include "format/redact.h"

struct fm_dump {
	const struct fm_analysis *analysis;
	const struct fm_locals *locals; // NULL = they were not asked for
	const struct fm_redact *redact; // what is masked in them
	bool is_outermost_first;
	bool is_of_core; // nobody runs: the kernel is not asked
};

void fm_dump_print_text(const struct fm_dump *d, FILE *out);
void fm_dump_print_json(const struct fm_dump *d); // fathom.dump/1
