// SPDX-License-Identifier: Apache-2.0
// The Firefox Profiler's processed profile: every sample of every thread with its time, its weight and
// the colour of its class; zones and marks as markers, memory and counters as tracks.
//
// Version 63 of the format, which later ones of the profiler upgrade as they load it: its
// docs-developer/CHANGELOG-formats.md, src/types/profile.ts.
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "render/export/gecko_markers.h"
#include "render/export/runs.h"
#include "render/export/sample_sums.h"
#include "render/export/slices.h"
#include "render/shared/facts.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"

#define FORMAT_VERSION 63
#define GECKO_VERSION 32  // of what Firefox itself hands out, which this was never
#define MAX_RUNS 1000000u // samples of all threads

struct gecko {
	struct fm_json j;
	struct fm_analysis *a;
	struct fm_facts facts;
	uint64_t origin_ns;
	struct fm_gecko_tables tables;
	struct fm_gecko_markers markers;
	struct fm_spool spool;
	FM_VEC(uint32_t) threads; // ids, in the order of the profile's list
	uint32_t *main_threads;   // by process: places in that list
};

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

void fm_gecko_pid(struct fm_buf *b, const struct fm_analysis *a, uint32_t process_id)
{
	uint32_t n_before = 0, pid = process_id == FM_NO_ID ? 0 : a->profile->processes.items[process_id].info.pid;
	for (uint32_t i = 0; process_id != FM_NO_ID && i < process_id; i++)
		n_before += a->profile->processes.items[i].info.pid == pid;
	fm_buf_printf(b, "%u", pid);
	if (n_before)
		fm_buf_printf(b, ".%u", n_before);
}

// ---- the head ----

static void write_categories(struct fm_json *j)
{
	static const struct {
		const char *name, *color;
	} categories[FM_N_GECKO_CATEGORIES] = {
		[FM_GECKO_OTHER] = { "Other", "grey" }, // the default is known by its colour
		[FM_GECKO_PYTHON] = { "Python", "yellow" },
		[FM_GECKO_NATIVE] = { "Native", "blue" },
		[FM_GECKO_SYSTEM] = { "System", "orange" },
		[FM_GECKO_GC] = { "GC", "purple" },
		[FM_GECKO_GIL] = { "Waiting for the GIL", "red" },
		[FM_GECKO_IDLE] = { "Idle", "transparent" }, // and waiting by this name
	};
	fm_json_newline(j);
	fm_json_array(j, "categories");
	for (size_t i = 0; i < FM_ARRAY_LEN(categories); i++) {
		fm_json_object(j, NULL);
		fm_json_str(j, "name", fm_str_of(categories[i].name));
		fm_json_str(j, "color", fm_str_of(categories[i].color));
		fm_json_array(j, "subcategories");
		fm_json_str(j, NULL, FM_STR_LIT("Other"));
		fm_json_end(j);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void write_sentence(void *ctx, struct fm_str what, struct fm_str why)
{
	struct fm_json *j = ctx;
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_str(j, "label", what);
	fm_json_str(j, "format", FM_STR_LIT("string"));
	fm_json_str(j, "value", why);
	fm_json_end(j);
}

static void write_extra(struct gecko *g)
{
	fm_json_newline(&g->j);
	fm_json_array(&g->j, "extra");
	fm_json_object(&g->j, NULL);
	fm_json_str(&g->j, "label", FM_STR_LIT("Not seen, and why"));
	fm_json_array(&g->j, "entries");
	fm_facts_coverage(g->a, &g->facts, fm_analysis_summary(g->a), write_sentence, &g->j);
	fm_json_end(&g->j);
	fm_json_end(&g->j);
	fm_json_end(&g->j);
}

// A range ends before its end: what happens last would be outside of it.
static uint64_t after_all_ns(const struct gecko *g)
{
	uint64_t last_ns = g->origin_ns;
	for (size_t i = 0; i < g->a->tally.threads.n; i++)
		last_ns = FM_MAX(last_ns, g->a->tally.threads.items[i].last_ns);
	for (size_t i = 0; i < g->a->profile->processes.n; i++)
		last_ns = FM_MAX(last_ns, g->a->profile->processes.items[i].end_ns);
	for (size_t i = 0; i < g->markers.threads.n; i++)
		for (size_t k = 0; k < g->markers.threads.items[i].items.n; k++)
			last_ns = FM_MAX(last_ns, g->markers.threads.items[i].items.items[k].end_ns);
	for (size_t i = 0; i < g->markers.counters.n; i++)
		for (size_t k = 0; k < g->markers.counters.items[i].points.n; k++)
			last_ns = FM_MAX(last_ns, g->markers.counters.items[i].points.items[k].ns);
	return last_ns < UINT64_MAX ? last_ns + 1 : last_ns;
}

static void write_meta(struct gecko *g)
{
	struct fm_buf command = { 0 };
	struct fm_json *j = &g->j;
	fm_label_command(&command, g->facts.command);
	fm_json_object(j, "meta");
	fm_json_real(j, "interval", g->facts.rate_hz ? 1000.0 / (double)g->facts.rate_hz : 1);
	fm_json_real(j, "startTime", (double)fm_sums_started_ns(g->a) / 1e6);
	fm_json_u64(j, "profilingStartTime", 0);
	fm_json_real(j, "profilingEndTime", fm_gecko_ms(after_all_ns(g), g->origin_ns));
	fm_json_u64(j, "processType", 0);
	fm_json_str(j, "product", FM_STR_LIT("Python"));
	fm_json_str(j, "importedFrom", FM_STR_LIT("fathom " FM_VERSION));
	fm_json_str(j, "arguments", str_of(&command));
	fm_json_str(j, "platform", FM_STR_LIT("X11")); // its word for Unix
	fm_json_str(j, "oscpu", FM_STR_LIT("Linux x86_64"));
	fm_json_u64(j, "stackwalk", 1);
	fm_json_u64(j, "version", GECKO_VERSION);
	fm_json_u64(j, "preprocessedProfileVersion", FORMAT_VERSION);
	fm_json_bool(j, "symbolicated", true);
	fm_json_bool(j, "symbolicationNotSupported", true);
	fm_json_bool(j, "usesOnlyOneStackType", true);
	fm_json_bool(j, "sourceCodeIsNotOnSearchfox", true);
	fm_json_object(j, "sampleUnits");
	fm_json_str(j, "time", FM_STR_LIT("ms"));
	fm_json_str(j, "eventDelay", FM_STR_LIT("ms"));
	fm_json_str(j, "threadCPUDelta", FM_STR_LIT("ns"));
	fm_json_end(j);
	write_categories(j);
	fm_gecko_write_schema(j);
	write_extra(g);
	fm_json_end(j);
	fm_buf_deinit(&command);
}

// ---- threads ----

// Hands out a thread's runs in order.
typedef void each_run(struct gecko *g, const struct fm_run *run);

static enum fm_err write_column(struct gecko *g, const char *key, uint32_t thread_id, each_run *value,
				struct fm_diag *diag)
{
	struct fm_run runs[FM_SPOOL_BLOCK];
	uint32_t n;
	enum fm_err err = FM_E_END;
	fm_json_newline(&g->j);
	fm_json_array(&g->j, key);
	if (thread_id < g->spool.threads.n)
		for (size_t b = 0; !(err = fm_spool_read(&g->spool, thread_id, b, runs, &n, diag)); b++)
			for (uint32_t i = 0; i < n; i++)
				value(g, &runs[i]);
	fm_json_end(&g->j);
	return err == FM_E_END ? FM_OK : err;
}

static void write_stack(struct gecko *g, const struct fm_run *run)
{
	fm_json_u64(&g->j, NULL, fm_gecko_stack(&g->tables, run->node, run->class));
}

static void write_time(struct gecko *g, const struct fm_run *run)
{
	fm_json_real(&g->j, NULL, fm_gecko_ms(run->end_ns, g->origin_ns));
}

static void write_weight(struct gecko *g, const struct fm_run *run)
{
	fm_json_real(&g->j, NULL, (double)run->weight_ns / 1e6);
}

static void write_cpu(struct gecko *g, const struct fm_run *run)
{
	fm_json_u64(&g->j, NULL, fm_class_is_cpu(run->class) ? run->weight_ns : 0);
}

static enum fm_err write_samples(struct gecko *g, uint32_t thread_id, struct fm_diag *diag)
{
	uint64_t n = thread_id < g->spool.threads.n ? g->spool.threads.items[thread_id].n_runs : 0;
	fm_json_newline(&g->j);
	fm_json_object(&g->j, "samples");
	fm_json_u64(&g->j, "length", n);
	fm_json_str(&g->j, "weightType", FM_STR_LIT("tracing-ms"));
	enum fm_err err = write_column(g, "stack", thread_id, write_stack, diag);
	if (!err)
		err = write_column(g, "time", thread_id, write_time, diag);
	if (!err)
		err = write_column(g, "weight", thread_id, write_weight, diag);
	if (!err)
		err = write_column(g, "threadCPUDelta", thread_id, write_cpu, diag);
	fm_json_end(&g->j);
	return err;
}

static void write_end(struct gecko *g, const char *key, uint64_t end_ns)
{
	if (end_ns)
		fm_json_real(&g->j, key, fm_gecko_ms(end_ns, g->origin_ns));
	else
		fm_json_null(&g->j, key);
}

static uint32_t tid_at(const struct gecko *g, uint32_t place)
{
	uint32_t id = g->threads.items[place];
	return id < g->a->profile->threads.n ? g->a->profile->threads.items[id].tid : 0;
}

// Readers take threads of one number for the same one; the system may give it again.
static void write_tid(struct gecko *g, uint32_t place, uint32_t tid)
{
	uint32_t n_before = 0;
	for (uint32_t i = 0; i < place; i++)
		n_before += tid_at(g, i) == tid;
	struct fm_buf text = { 0 };
	fm_buf_printf(&text, "%u.%u", tid, n_before);
	if (n_before)
		fm_json_str(&g->j, "tid", str_of(&text));
	else
		fm_json_u64(&g->j, "tid", tid);
	fm_buf_deinit(&text);
}

static void write_thread_head(struct gecko *g, uint32_t place)
{
	static const struct fm_process no_process;
	static const struct fm_thread no_thread;
	const struct fm_profile *p = g->a->profile;
	uint32_t id = g->threads.items[place], process_id = fm_label_process_of(g->a, id);
	const struct fm_thread *thread = id < p->threads.n ? &p->threads.items[id] : &no_thread;
	const struct fm_process *process = process_id != FM_NO_ID ? &p->processes.items[process_id] : &no_process;
	bool is_main = process_id != FM_NO_ID && g->main_threads[process_id] == place;
	struct fm_buf pid = { 0 }, name = { 0 };
	fm_gecko_pid(&pid, g->a, process_id);
	fm_json_str(&g->j, "processType", FM_STR_LIT("default"));
	fm_label_worker(&name, &process->info);
	fm_json_str(&g->j, "processName", str_of(&name));
	name.len = 0;
	fm_json_real(&g->j, "processStartupTime", fm_gecko_ms(process->info.start_ns, g->origin_ns));
	write_end(g, "processShutdownTime", process->end_ns);
	fm_json_real(&g->j, "registerTime", fm_gecko_ms(thread->start_ns, g->origin_ns));
	write_end(g, "unregisterTime", thread->end_ns);
	fm_json_array(&g->j, "pausedRanges");
	fm_json_end(&g->j);
	fm_json_bool(&g->j, "showMarkersInTimeline", true);
	if (thread->name.len)
		fm_buf_bytes(&name, thread->name.p, thread->name.len);
	else
		fm_label_thread(&name, g->a, id);
	fm_json_str(&g->j, "name", str_of(&name));
	fm_json_bool(&g->j, "isMainThread", is_main);
	fm_json_str(&g->j, "pid", str_of(&pid));
	write_tid(g, place, thread->tid);
	fm_buf_deinit(&pid);
	fm_buf_deinit(&name);
}

static bool has_markers(const struct gecko *g, uint32_t thread_id)
{
	return thread_id < g->markers.threads.n && g->markers.threads.items[thread_id].items.n;
}

// The threads of one process stand together, its busiest first; each process has one that its
// counters can hang on.
static void choose_threads(struct gecko *g)
{
	const struct fm_profile *p = g->a->profile;
	size_t n;
	_cleanup_free_ struct fm_busy *busy = fm_runs_busiest(g->a, &n);
	_cleanup_free_ bool *is_busy = fm_alloc(g->a->tally.threads.n + p->threads.n + 1);
	for (size_t i = 0; i < n; i++)
		is_busy[busy[i].thread_id] = true;
	for (uint32_t process = 0; process <= p->processes.n; process++) { // the last one: of none
		uint32_t wanted = process < p->processes.n ? process : FM_NO_ID, first = (uint32_t)g->threads.n;
		for (size_t i = 0; i < n; i++)
			if (fm_label_process_of(g->a, busy[i].thread_id) == wanted)
				fm_vec_push(&g->threads, busy[i].thread_id);
		for (uint32_t i = 0; i < p->threads.n; i++)
			if (!is_busy[i] && has_markers(g, i) && fm_label_process_of(g->a, i) == wanted)
				fm_vec_push(&g->threads, i);
		if (wanted != FM_NO_ID)
			g->main_threads[process] = first < g->threads.n ? first : FM_NO_ID;
	}
}

static enum fm_err write_threads(struct gecko *g, struct fm_diag *diag)
{
	enum fm_err err = FM_OK;
	fm_json_newline(&g->j);
	fm_json_array(&g->j, "threads");
	for (uint32_t i = 0; i < g->threads.n && !err; i++) {
		fm_json_newline(&g->j);
		fm_json_object(&g->j, NULL);
		write_thread_head(g, i);
		err = write_samples(g, g->threads.items[i], diag);
		fm_gecko_write_markers(&g->markers, &g->tables, &g->j, g->threads.items[i], g->origin_ns);
		fm_json_end(&g->j);
	}
	fm_json_end(&g->j);
	return err;
}

// ---- all of it ----

// Each sample by itself; of a long capture those that stand in one place become one.
static enum fm_err fill(struct gecko *g, struct fm_diag *diag)
{
	struct fm_runs_wanted wanted = { FM_NO_ID, MAX_RUNS, true, true };
	enum fm_err err = fm_runs_fill(&g->spool, g->a, &wanted, diag);
	if (err != FM_E_END)
		return err;
	fm_spool_deinit(&g->spool);
	wanted = (struct fm_runs_wanted){ FM_NO_ID, UINT64_MAX, true, false };
	err = fm_runs_fill(&g->spool, g->a, &wanted, diag);
	fm_say("more than %u samples: successive samples of a thread in one place are one in the Firefox profile, "
	       "%" PRIu64 " altogether",
	       MAX_RUNS, g->spool.n_runs);
	return err;
}

static enum fm_err write_profile(struct gecko *g, FILE *out, struct fm_diag *diag)
{
	choose_threads(g);
	fm_json_init(&g->j, out);
	fm_json_object(&g->j, NULL);
	write_meta(g);
	enum fm_err err = write_threads(g, diag);
	fm_gecko_write_libs(&g->tables, &g->j);
	fm_gecko_write_counters(&g->markers, &g->j, g->main_threads, g->origin_ns);
	fm_gecko_write_shared(&g->tables, &g->j);
	fm_json_end(&g->j);
	fm_json_newline(&g->j);
	return err;
}

enum fm_err fm_write_gecko(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct gecko g = { .a = a, .origin_ns = fm_slices_origin_ns(a) };
	fm_facts_gather(&g.facts, a);
	fm_gecko_tables_init(&g.tables, a);
	g.main_threads = fm_alloc((a->profile->processes.n + 1) * sizeof(uint32_t));
	enum fm_err err = fm_gecko_markers_read(&g.markers, a, diag);
	if (!err)
		err = fill(&g, diag);
	if (!err)
		err = write_profile(&g, out, diag);
	if (!err && g.markers.n_left_out)
		fm_say("%" PRIu64
		       " zones, marks and counts are left out of the Firefox profile, which has the first %" PRIu64,
		       g.markers.n_left_out, g.markers.n);
	fm_gecko_markers_deinit(&g.markers);
	fm_gecko_tables_deinit(&g.tables);
	fm_spool_deinit(&g.spool);
	fm_vec_deinit(&g.threads);
	free(g.main_threads);
	return err;
}
