// SPDX-License-Identifier: Apache-2.0
// Several captures of the same program added up: what each function and line took and held in every
// run, so that means, spreads and differences between two sets of runs can be told. Pure functions;
// the captures may be closed afterwards.
#pragma once

#include "aggregate/analysis/analysis.h"

// A figure over runs. A run in which it did not occur counts as 0.
struct fm_figure {
	double sum, sum_sq;
	double sampling_var; // sum over the runs, of the figure's own sampling error; 0 = measured, not sampled
};

// What is known of a figure's mean.
struct fm_mean {
	double mean, spread; // spread: standard deviation of single runs, 0 with one run
	double var, df;      // of the mean, and its degrees of freedom
	double plus_minus;   // half the 95 % interval of the mean
};

struct fm_run_row {
	struct fm_str name, file; // file: its last part, so that runs of two checkouts compare
	struct fm_str text;       // lines: the source, without indentation; "" when it is not known
	uint32_t line;            // where it is in the latest run
	struct fm_str path;       // of its file there, as the program has it
	bool is_users;
	struct fm_figure seconds;    // functions: on the stack. Lines: charged to them
	struct fm_figure peak_bytes; // the most that was alive at one time of what it allocated
};

struct fm_run_totals {
	double wall_s, cpu_s, max_rss_bytes;
	struct fm_str command; // arguments joined by NUL; "" = not known
	double block_bytes;    // what one sampled block stands for; 0 = every one was counted
	double used_s;         // CPU time by the kernel's account, of children too; 0 = not known
	double instructions;   // in user space, as the CPU counted them; 0 = not counted
};

struct fm_runs {
	unsigned n;
	unsigned n_with_memory; // of them
	struct fm_str command;  // of the first; "" = not known
	unsigned n_cut;         // of them, without their end: cut off, or still written
	// A file of these runs that is the other side's file of another name (old.py, which became
	// new.py), and that name; "" = none. Set before runs are added, and borrowed.
	struct fm_str renamed, renamed_to;
	struct fm_figure wall_s, cpu_s, max_rss_bytes;
	FM_VEC(struct fm_run_totals) each; // of the runs, in order; without their commands
	double sample_sq;                  // sum over the runs of a sample's mean square, s^2
	double block_sq;                   // the same of a sampled block, bytes^2
	FM_VEC(struct fm_run_row) functions, lines;
	struct fm_intern keys; // functions and lines by name and place
	FM_VEC(uint32_t) rows; // by key: the row's index; keys begin with 'f' or 'l'
	struct fm_arena arena;
};

// A zeroed struct is empty.
void fm_runs_add(struct fm_runs *r, const struct fm_analysis *a, const struct fm_summary *t,
		 const struct fm_run_totals *totals);
// Whether any function of the user's own was seen: one whose were not is compared by all its
// functions.
bool fm_runs_has_users(const struct fm_runs *r);
void fm_runs_deinit(struct fm_runs *r);
// Lends the row of the same name and place as `like`, which is of another set, or NULL.
const struct fm_run_row *fm_runs_find(const struct fm_runs *r, const struct fm_run_row *like, bool is_line);

// The last part of a path: by it files are the same on two machines.
struct fm_str fm_runs_file(struct fm_str path);

struct fm_mean fm_figure_mean(const struct fm_figure *f, unsigned n_runs);
