// SPDX-License-Identifier: Apache-2.0
// What a capture says in one to three sentences: rules over the analysis, each silent unless its
// figure is large enough to act on. The text report, --json and the page show the same ones.
#pragma once

#include "aggregate/tree/own_tree.h"
#include "render/shared/facts.h"

#define FM_VERDICT_MAX 3

struct fm_verdict_line {
	const char *rule; // "line", "imports", ...: stable, for machines
	struct fm_buf text;
	struct fm_str file; // where it is proved; "" = nowhere in particular
	uint32_t line;
	double share; // of the run, 0 to 1: how much of it the sentence is about
};

struct fm_verdict {
	struct fm_verdict_line lines[FM_VERDICT_MAX];
	unsigned n; // the most important first
};

void fm_verdict_find(struct fm_verdict *v, const struct fm_analysis *a, const struct fm_facts *f,
		     const struct fm_summary *t, const struct fm_own_tree *tree);
void fm_verdict_deinit(struct fm_verdict *v);
