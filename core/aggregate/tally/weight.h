// SPDX-License-Identifier: Apache-2.0
// A sum of samples with what is needed for its interval. Plain data.
#pragma once

#include <math.h>
#include <stdint.h>

#include "format/model.h"

struct fm_weight {
	uint64_t ns[FM_N_CLASSES]; // time per class
	uint64_t n;                // samples of the CPU classes
	double cpu_sq;             // sum of their squared weights, s^2
};

static inline int fm_class_is_cpu(unsigned class)
{
	return class != FM_CLASS_GIL_WAIT && class != FM_CLASS_WAIT;
}

// A sample that stands for ten periods of 1 ms and more shows one moment of a gap in which nobody
// looked. A system call that lasted as long held it back, and used all of that time.
#define FM_GAP_NS 10000000u
static inline int fm_weight_is_gap(uint64_t weight_ns, unsigned class)
{
	return weight_ns > FM_GAP_NS && fm_class_is_cpu(class) && class != FM_CLASS_SYSTEM;
}

static inline uint64_t fm_weight_cpu_ns(const struct fm_weight *w)
{
	return w->ns[FM_CLASS_PYTHON] + w->ns[FM_CLASS_NATIVE] + w->ns[FM_CLASS_SYSTEM] + w->ns[FM_CLASS_GC];
}

static inline void fm_weight_add(struct fm_weight *to, const struct fm_weight *w)
{
	for (unsigned c = 0; c < FM_N_CLASSES; c++)
		to->ns[c] += w->ns[c];
	to->n += w->n;
	to->cpu_sq += w->cpu_sq;
}

static inline double fm_seconds(uint64_t ns)
{
	return (double)ns * 1e-9;
}

// Half of the 95 % interval of an estimate with this variance.
#define FM_Z_95 1.96
static inline double fm_interval(double variance)
{
	return variance > 0 ? FM_Z_95 * sqrt(variance) : 0;
}

// Half of the 95 % interval, in seconds, of a part with this CPU time and squared sum within a
// whole (docs/sampling-math.md):
//   1.96 * sqrt(Sg (1 - 2p) + p^2 S) + 2p (1 - p) M,  p = T / W
// looked_share: the part's share of the samples, whatever they stand for. A few samples that stand
// for most of the time decide p, and their own interval with it; the wider of both counts.
// heavy_sq: the whole's squared weights of samples for a gap (fm_weight_is_gap).
// misplaced_s, M: the part of the whole that sampling itself caused, or moved, and that no sample
// tells the place of.
static inline double fm_plus_minus_s(double part_s, double part_sq, double looked_share, double whole_s,
				     double whole_sq, double heavy_sq, double misplaced_s)
{
	if (whole_s <= 0)
		return 0;
	double p = part_s / whole_s;
	double variance = fmax(part_sq * (1 - 2 * p) + p * p * whole_sq,
			       part_sq * (1 - 2 * looked_share) + looked_share * looked_share * whole_sq);
	// A part that none of a few gaps fell to has small squares of its own for that very reason.
	variance = fmax(variance, looked_share * (1 - looked_share) * heavy_sq);
	double bias_s = p < 1 ? 2 * p * (1 - p) * misplaced_s : 0;
	return fm_interval(variance) + bias_s;
}

// M of fm_plus_minus_s(). disturbed_s: what ticks cost beside their handlers. displaced_s: samples
// met behind a system call that were known to stand for the code before it. system_s: those that
// pass for the call's own time. What passes so is bounded by the kernel's account of system time;
// but what the ticks took in the kernel is on that account, too, and it may be overdrawn by lag_s.
static inline double fm_misplaced_s(double disturbed_s, double displaced_s, double system_s, double lag_s)
{
	return disturbed_s + displaced_s + fmin(system_s, disturbed_s + lag_s);
}
