// SPDX-License-Identifier: Apache-2.0
// The first reading of perf.data: how often each event happened, and what that makes of a sample's
// weight. A capture's weights are nanoseconds; of perf's events only two clocks are.
#include "import/perf_data.h"

#include <stdlib.h>

static void count_time(struct fm_perf_scan *ret, uint64_t time_ns)
{
	if (!time_ns || time_ns == UINT64_MAX)
		return;
	ret->first_ns = ret->first_ns ? FM_MIN(ret->first_ns, time_ns) : time_ns;
	ret->last_ns = FM_MAX(ret->last_ns, time_ns);
}

static void count_sample(struct fm_perf_file *f, struct fm_perf_scan *ret, const struct fm_perf_record *r)
{
	struct fm_perf_sample s;
	if (fm_perf_sample_read(f, r, &s) || !s.attr) {
		ret->n_broken++;
		return;
	}
	struct fm_perf_attr *a = &f->attrs.items[s.attr - f->attrs.items];
	fm_perf_event_count(&a->event, s.tid, s.has_time ? s.time_ns : 0, s.period);
	count_time(ret, s.has_time ? s.time_ns : 0);
}

static void count_record(struct fm_perf_file *f, struct fm_perf_scan *ret, const struct fm_perf_record *r)
{
	struct fm_cursor c = r->body;
	ret->n_records++;
	switch (r->type) {
	case PERF_RECORD_SAMPLE:
		count_sample(f, ret, r);
		break;
	case PERF_RECORD_LOST:
		fm_cursor_u64(&c);
		ret->n_lost += fm_cursor_u64(&c);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		ret->n_lost_samples += fm_cursor_u64(&c);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		ret->has_switches = true;
		break;
	case FM_PERF_AUXTRACE:
		ret->has_aux = true;
		break;
	default:
		fm_perf_pipe_record(f, r);
	}
}

static struct fm_str name_of(const struct fm_perf_attr *a)
{
	static const char *const software[] = { "cpu-clock",        "task-clock",       "page-faults",
						"context-switches", "cpu-migrations",   "minor-faults",
						"major-faults",     "alignment-faults", "emulation-faults" };
	static const char *const hardware[] = { "cycles",       "instructions",        "cache-references",
						"cache-misses", "branch-instructions", "branch-misses",
						"bus-cycles" };
	uint32_t config = (uint32_t)a->config;
	if (a->event.name.len)
		return a->event.name;
	if (a->type == PERF_TYPE_SOFTWARE && config < FM_ARRAY_LEN(software))
		return fm_str_of(software[config]);
	return a->type == PERF_TYPE_HARDWARE && config < FM_ARRAY_LEN(hardware) ? fm_str_of(hardware[config])
										: FM_STR_LIT("an event");
}

static void weigh(struct fm_perf_file *f, struct fm_import *in)
{
	FM_VEC(struct fm_perf_event *) events = { 0 };
	for (size_t i = 0; i < f->attrs.n; i++) {
		struct fm_perf_attr *a = &f->attrs.items[i];
		a->event.name = name_of(a);
		// A pipe names its events late, and not all of them.
		if (a->event.kind == FM_PERF_OTHER)
			a->event.kind = fm_perf_kind_of(a->event.name);
		a->event.rate_hz = a->is_freq                                   ? (double)a->period
				   : a->event.kind == FM_PERF_TIME && a->period ? 1e9 / (double)a->period
										: 0;
		fm_vec_push(&events, &a->event);
	}
	fm_perf_events_weigh(in, events.items, events.n);
	fm_vec_deinit(&events);
}

enum fm_err fm_perf_scan(struct fm_perf_file *f, struct fm_import *in, struct fm_perf_scan *ret)
{
	struct fm_perf_record r;
	enum fm_err err;
	fm_perf_file_to_data(f);
	while (!(err = fm_perf_file_next(f, &r)))
		count_record(f, ret, &r);
	if (err == FM_E_END && !f->is_pipe && !f->is_unfinished)
		fm_perf_features_read(f);
	weigh(f, in);
	return err == FM_E_END ? FM_OK : err;
}
