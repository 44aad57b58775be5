// SPDX-License-Identifier: Apache-2.0
// The sections of the text report, in the order they are printed.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "render/shared/facts.h"
#include "render/shared/style.h"
#include "render/shared/verdict.h"

#define FM_TEXT_MAX_WIDTH 100 // of sentences and lists; line tables use what the terminal has

struct fm_text {
	struct fm_style style;
	unsigned table_width, rule; // of line tables; of the rules below headings
	const struct fm_analysis *a;
	const struct fm_heap *heap;
	const struct fm_summary *summary;
	struct fm_facts facts;
	struct fm_own_tree own_tree;
	struct fm_verdict verdict;
	double cpu_s;     // what percentages are of: the CPU time of all samples
	bool is_short;    // too little CPU time for tables: the summary has what is certain
	bool is_all_code; // libraries and native code are listed beside the user's own
};

void fm_text_init(struct fm_text *t, FILE *out, struct fm_analysis *a);
void fm_text_deinit(struct fm_text *t);

void fm_text_screen(struct fm_text *t);                       // render/text/screen.c
void fm_text_call_tree(const struct fm_text *t);              // render/text/call_tree.c
void fm_text_top_functions(struct fm_text *t, size_t n_most); // render/text/functions.c; the screen's list
bool fm_text_is_attached(const struct fm_text *t);            // the program was running when Fathom came
bool fm_text_top_memory(const struct fm_text *t,
			size_t n_most);         // render/text/functions.c; the screen's list; false = none
void fm_text_functions(struct fm_text *t);      // render/text/functions.c; sets the rules' width, too
void fm_text_own_time(const struct fm_text *t); // render/text/functions.c
void fm_text_waiting(const struct fm_text *t);  // render/text/functions.c
void fm_text_memory(const struct fm_text *t);   // render/text/memory.c
void fm_text_memory_on_screen(const struct fm_text *t,
			      bool has_heading);     // the same, below the screen's list if there is one
void fm_text_cells(const struct fm_text *t);         // when it was a notebook
void fm_text_tree(const struct fm_text *t);          // render/text/tree.c
void fm_text_lines(const struct fm_text *t);         // render/text/lines.c
void fm_text_threads(const struct fm_text *t);       // render/text/parts.c
void fm_text_processes(const struct fm_text *t);     // render/text/parts.c
void fm_text_not_seen(const struct fm_text *t);      // render/text/parts.c
void fm_text_much_not_seen(const struct fm_text *t); // render/text/screen.c; in one sentence, if it moves a figure
void fm_text_libraries(const struct fm_text *t);     // render/text/parts.c

// The sentences that both the screen and the whole report begin with; each prints nothing when
// there is nothing to say.
void fm_text_ending(const struct fm_text *t);
void fm_text_logs(const struct fm_text *t);
void fm_text_too_little(const struct fm_text *t);
void fm_text_no_samples(const struct fm_text *t);
void fm_text_verdict(const struct fm_text *t);

// The capture's path, as commands take it: the folder of a run stands for it, and is shorter.
struct fm_str fm_text_path(const struct fm_text *t);

// Commands to go on with.
struct fm_text_next {
	const char *command, *why;
	bool has_path, has_page; // followed by the capture; wants the viewer's page in this build
};
void fm_text_nexts(const struct fm_text *t, const struct fm_text_next *nexts, size_t n);

// A bold line with a rule below, set off by an empty line. note: what stands beside it in plain
// type, "" = nothing.
void fm_text_heading(const struct fm_text *t, const char *note, const char *fmt, ...) FM_PRINTF(3, 4);

// True for functions that the lists show: the user's own, or every one with is_all_code.
bool fm_text_shows(const struct fm_text *t, uint32_t function_id);
// What the tree and the line tables charge to a function, so that all of them add up to the whole.
const struct fm_weight *fm_text_share(const struct fm_text *t, const struct fm_function_row *row);
// The memory row of a function, or NULL.
const struct fm_heap_function_row *fm_text_heap_row(const struct fm_text *t, uint32_t function_id);
// A figure of one or two sampled blocks is not worth printing: it has to be larger than half its
// own interval.
static inline uint64_t fm_text_sure_peak(const struct fm_heap_figures *f)
{
	return (double)f->peak_bytes > fm_heap_plus_minus(f->peak_var) ? f->peak_bytes : 0;
}
static inline uint64_t fm_text_sure_alloc(const struct fm_heap_figures *f)
{
	return (double)f->alloc_bytes > fm_heap_plus_minus(f->alloc_var) ? f->alloc_bytes : 0;
}

static inline double fm_text_percent(const struct fm_text *t, const struct fm_weight *w)
{
	return t->cpu_s > 0 ? 100 * fm_seconds(fm_weight_cpu_ns(w)) / t->cpu_s : 0;
}

// Half the 95 % interval, in points of percent.
static inline double fm_text_plus_minus(const struct fm_text *t, const struct fm_weight *w)
{
	return t->cpu_s > 0 ? 100 * fm_summary_plus_minus_s(t->summary, w) / t->cpu_s : 0;
}

static inline const char *fm_text_sign(const struct fm_text *t)
{
	return t->style.has_utf8 ? "±" : "+-";
}

// The table of calls of a trace.
void fm_calls_print(FILE *out, const struct fm_trace_stats *stats, const struct fm_view_options *options);
// One traced function: its calls, how long they took, who called it and what it called.
void fm_calls_print_one(const struct fm_style *s, const struct fm_trace_stats *stats, uint32_t function,
			bool has_full_names);

// One function or line on one screen.
struct fm_focus;
void fm_text_focus(const struct fm_text *t, const struct fm_focus *f);
void fm_text_focus_markdown(const struct fm_text *t, const struct fm_focus *f);
// "work (app.py:21)"; line 0: where the function begins. FM_NO_ID: no one.
void fm_text_focus_name(struct fm_buf *b, const struct fm_text *t, uint32_t function_id, uint32_t line);

// Every number of the report in plain words: what `fathom report --explain` prints. docs/report.md
// says the same, and tests/e2e/test_explain.py compares the two.
void fm_explain_write(FILE *out, const struct fm_view_options *options);
