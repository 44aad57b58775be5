// SPDX-License-Identifier: Apache-2.0
// What each thread did when, as runs of equal samples: a picture of any capture in bounded room.
//
// Neighbours in one node and class are one run. When there are too many, the shortest are merged
// into a neighbour: the longer of the two gives its name, so that what is left out is what a
// picture of that many runs could not show. A thread's sum of weights stays.
#pragma once

#include "aggregate/analysis/analysis.h"
#include "aggregate/trace/zones.h"

struct fm_timeline_run {
	uint64_t start_ns, end_ns; // on the clock of the samples
	uint64_t weight_ns;        // less than the time between them where the thread also did not run
	uint64_t longest_ns;       // weight of the longest of what was merged: whose node and class these are
	uint32_t node;             // of the view; its stack until fm_timeline_name()
	uint8_t class;
};

struct fm_timeline_thread {
	FM_VEC(struct fm_timeline_run) runs; // in order of time
};

struct fm_timeline {
	FM_VEC(struct fm_timeline_thread) threads; // by thread id
	size_t n_runs;
	uint64_t n_merged; // samples that gave up their name
	uint64_t grain_ns; // runs shorter than this were merged; 0 = none
};

// Samples, in memory for some max_runs, and the zones of the trace, if there is one: of everything
// that its observer is told of. fm_timeline_finish() ends it.
struct fm_timeline_builder {
	struct fm_timeline *timeline; // zeroed
	struct fm_zones *zones;       // zeroed
	size_t max_runs;
};
struct fm_observer fm_timeline_observer(struct fm_timeline_builder *builder);
void fm_timeline_finish(struct fm_timeline_builder *builder);
// Gives the runs their nodes, and drops threads that the analysis does not know.
void fm_timeline_name(struct fm_timeline *t, const struct fm_analysis *a);
void fm_timeline_deinit(struct fm_timeline *t);

// The parts, for tests. A sample's weight is the time before it.
void fm_timeline_add(struct fm_timeline *t, uint32_t thread_id, uint64_t time_ns, uint64_t weight_ns, uint32_t node,
		     uint8_t class);
void fm_timeline_thin(struct fm_timeline *t, size_t max_runs);
