// The sections of the text report, in the order they are printed.
#pragma once

#include "aggregate/analysis.h"
#include "render/facts.h"
#include "render/style.h"

struct fm_text {
	struct fm_style style;
	const struct fm_analysis *a;
	struct fm_summary summary;
	struct fm_facts facts;
	double cpu_s; // what percentages are of: the CPU time of all samples
};

void fm_text_lines(const struct fm_text *t); // text_lines.c

static inline double fm_text_percent(const struct fm_text *t, const struct fm_weight *w)
{
	return t->cpu_s > 0 ? 100 * fm_seconds(fm_weight_cpu_ns(w)) / t->cpu_s : 0;
}
