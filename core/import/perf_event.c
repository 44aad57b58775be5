// SPDX-License-Identifier: Apache-2.0
#include "import/perf_event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// So many gaps between samples are enough to know the middle one.
#define MAX_GAPS 65536u
#define MAX_THREADS (1u << 20)
#define MAX_WEIGHT_NS ((uint64_t)1 << 62) // no sample stands for 146 years

void fm_perf_event_deinit(struct fm_perf_event *e)
{
	fm_map_deinit(&e->last_ns);
	fm_vec_deinit(&e->gaps);
}

enum fm_perf_kind fm_perf_kind_of(struct fm_str name)
{
	if (fm_str_starts_with(name, "cpu-clock") || fm_str_starts_with(name, "task-clock"))
		return FM_PERF_TIME;
	if (fm_str_starts_with(name, "sched:sched_switch") || fm_str_starts_with(name, "context-switches") ||
	    fm_str_eq(name, FM_STR_LIT("cs")))
		return FM_PERF_SWITCH;
	// On a machine with several kinds of CPU, and by raw numbers, it has other things around it.
	return name.len >= 6 && memmem(name.p, name.len, "cycles", 6) ? FM_PERF_CYCLES : FM_PERF_OTHER;
}

void fm_perf_event_count(struct fm_perf_event *e, uint32_t tid, uint64_t time_ns, uint64_t period)
{
	bool is_new;
	e->n_samples++;
	e->periods += (double)period;
	if (!time_ns || e->last_ns.n >= MAX_THREADS || e->gaps.n >= MAX_GAPS)
		return;
	uint64_t *last = fm_map_at(&e->last_ns, tid, &is_new);
	if (!is_new && time_ns > *last)
		fm_vec_push(&e->gaps, time_ns - *last);
	*last = time_ns;
}

uint64_t fm_perf_event_weight(const struct fm_perf_event *e, uint64_t period)
{
	double ns = (e->periods > 0 ? (double)period : 1) * e->ns_per_period;
	return ns < MAX_WEIGHT_NS ? (uint64_t)(ns + 0.5) : MAX_WEIGHT_NS;
}

static int by_value(const void *pa, const void *pb)
{
	uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
	return (a > b) - (a < b);
}

static double middle_gap(struct fm_perf_event *e)
{
	if (!e->gaps.n)
		return 0;
	qsort(e->gaps.items, e->gaps.n, sizeof(*e->gaps.items), by_value);
	return (double)e->gaps.items[e->gaps.n / 2];
}

// How good an event is as a measure of time.
static int rank_of(const struct fm_perf_event *e)
{
	return !e->n_samples               ? -1
	       : e->kind == FM_PERF_TIME   ? 3
	       : e->kind == FM_PERF_CYCLES ? 2
					   : e->kind == FM_PERF_OTHER;
}

static void tell_passed_over(struct fm_import *in, const struct fm_perf_event *e, const struct fm_perf_event *best)
{
	char what[160], why[200];
	if (!e->n_samples || e->ns_per_period > 0 || e->kind == FM_PERF_SWITCH)
		return;
	snprintf(what, sizeof(what), "%" PRIu64 " samples of %.*s", e->n_samples, (int)FM_MIN(e->name.len, 80u),
		 e->name.p);
	snprintf(why, sizeof(why), "the file has several events; Fathom shows %.*s, which is closest to time",
		 (int)FM_MIN(best->name.len, 80u), best->name.p);
	fm_import_missing(in, what, why);
}

static void weigh(struct fm_import *in, struct fm_perf_event *e)
{
	char what[160], why[240];
	double each_ns = FM_IMPORT_SAMPLE_NS, gap_ns = middle_gap(e);
	const char *by = "1 ms for each sample, because the file has no times";
	if (e->kind == FM_PERF_TIME && e->periods > 0) {
		e->ns_per_period = 1;
		return;
	}
	if (e->kind == FM_PERF_OTHER || e->kind == FM_PERF_SWITCH) {
		by = "1 ms for each sample, because the event does not measure time";
	} else if (e->rate_hz > 0) {
		each_ns = 1e9 / e->rate_hz;
		by = "the rate that was requested of perf";
	} else if (gap_ns > 0) {
		each_ns = gap_ns;
		by = "the usual time between two samples of a thread";
	}
	e->ns_per_period = each_ns * (double)e->n_samples / (e->periods > 0 ? e->periods : (double)e->n_samples);
	snprintf(what, sizeof(what), "how long %.*s took", (int)FM_MIN(e->name.len, 80u), e->name.p);
	snprintf(why, sizeof(why), "perf counted them, not time: shares are right, seconds are derived from %s", by);
	fm_import_missing(in, what, why);
}

void fm_perf_events_weigh(struct fm_import *in, struct fm_perf_event *const *events, size_t n)
{
	struct fm_perf_event *best = NULL;
	for (size_t i = 0; i < n; i++)
		if (!best || rank_of(events[i]) > rank_of(best) ||
		    (rank_of(events[i]) == rank_of(best) && events[i]->n_samples > best->n_samples))
			best = events[i];
	if (!best || !best->n_samples)
		return;
	// A machine with several kinds of CPU counts the cycles of each.
	for (size_t i = 0; i < n; i++)
		if (events[i] == best ||
		    (events[i]->kind == FM_PERF_CYCLES && best->kind == FM_PERF_CYCLES && events[i]->n_samples))
			weigh(in, events[i]);
	fm_writer_meta(in->w, "event", best->name);
	if (best->rate_hz > 0) {
		char rate[32];
		snprintf(rate, sizeof(rate), "%.0f", best->rate_hz);
		fm_writer_meta(in->w, "rate_hz", fm_str_of(rate));
	}
	for (size_t i = 0; i < n; i++)
		tell_passed_over(in, events[i], best);
}
