// SPDX-License-Identifier: Apache-2.0
// What is true of a capture as a whole, gathered from its meta facts, processes and threads for
// both reports.
#pragma once

#include "aggregate/analysis/analysis.h"

struct fm_facts {
	struct fm_str command; // arguments joined by NUL
	struct fm_str python, started, engine;
	double wall_s, cpu_s, overhead_s;
	double sampled_s; // of cpu_s, what samples stand for
	double no_cpu_s;  // how long the main thread could have run but had no CPU; 0 where waiting was not counted
	uint64_t rate_hz, max_rss_bytes, n_samples, n_dropped;
	uint64_t n_waits; // of the samples: looks at threads that waited
	int exit_code;    // -1 = unknown
	int exit_signal;  // 0 = none
};

void fm_facts_gather(struct fm_facts *f, const struct fm_analysis *a);
// The command alone, without looking at anything else.
struct fm_str fm_facts_command(const struct fm_profile *p);
// The same for comparing; "" where it is not the user's own words alone: a notebook's names the
// folder of its results.
struct fm_str fm_facts_own_command(const struct fm_profile *p);

// Of a capture that is several runs added up (fathom run --repeat): a run's mean, how much runs
// differ, and half the 95 % interval of the mean.
struct fm_facts_mean {
	double mean, spread, plus_minus;
};
struct fm_facts_runs {
	uint64_t n; // 0 = it is one run
	struct fm_facts_mean cpu_s, wall_s, max_rss_bytes;
};
void fm_facts_runs(struct fm_facts_runs *ret, const struct fm_profile *p);

// Exec gives a process another record, but makes it no other process: one of a shell script is seldom one program.
unsigned fm_facts_n_processes(const struct fm_profile *p);

// From its start to its end, as far as known; samples fill in for what is not.
double fm_facts_thread_wall_s(const struct fm_analysis *a, uint32_t thread_id);
// The first thread of the process that was started; UINT32_MAX where it is not known. A shell that
// has become the program by exec had the same number: the one that lived longer is meant.
uint32_t fm_facts_main_thread(const struct fm_analysis *a);
// The sampled threads' real CPU time where it is known, the samples' weight where not.
double fm_facts_thread_cpu_s(const struct fm_analysis *a, uint32_t thread_id, const struct fm_weight *sampled);
// How long the thread was ready and had no CPU, as the kernel counted it; and how long nobody knows
// what it did. Both 0 where waiting was not counted.
double fm_facts_thread_no_cpu_s(const struct fm_analysis *a, uint32_t thread_id);
double fm_facts_thread_unseen_s(const struct fm_analysis *a, uint32_t thread_id);

// CPU time that the program used and no sample stands for. False: too little to speak of.
struct fm_facts_unseen {
	double s, of_s;
	const char *where; // in few words, for the screen
	const char *why;   // and how to see it
};
bool fm_facts_unseen(struct fm_facts_unseen *ret, const struct fm_analysis *a, const struct fm_facts *f);

// A meta fact that is a number; 0 when it is not there.
uint64_t fm_facts_meta_u64(const struct fm_profile *p, const char *key);

// Everything that was not seen, from the capture, the file and the names, one call each.
void fm_facts_coverage(const struct fm_analysis *a, const struct fm_facts *f, const struct fm_summary *t,
		       void (*each)(void *ctx, struct fm_str what, struct fm_str why), void *ctx);
