// SPDX-License-Identifier: Apache-2.0
// V8's .cpuprofile: a tree of functions and one course of time through it, so one thread. Its samples
// stand behind each other, each as long as it weighs: what the thread did not run is not in it.
//
// Times are whole microseconds there. They are rounded by what each node has had so far, so that
// every node's time is right to one.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/analysis/leaves.h"
#include "base/json.h"
#include "base/log.h"
#include "render/export/runs.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"

#define MAX_RUNS 1000000u // as many as viewers can open; then each distinct stack comes once
#define ROOT 1u           // ids begin with 1; the root is nothing but the caller of all

struct call {
	uint32_t parent, function_id; // parent: its id
	uint32_t first_child, next;   // ids; 0 = none
	uint32_t first_tick;          // + 1
	uint64_t n, weight_ns;        // n: samples that end in it
	bool is_used;
};

struct tick {
	uint32_t line, next; // next: + 1
	uint64_t n;
};

struct writer {
	struct fm_json j;
	struct fm_analysis *a;
	uint32_t thread_id;
	FM_VEC(struct call) calls; // by id
	FM_VEC(struct tick) ticks;
	struct fm_map tick_of; // call and line -> index of ticks + 1
	uint32_t *call_of_node;
	struct fm_spool spool;
	bool is_in_order;
	struct fm_leaves leaves; // of all threads, where it is not
};

// Lines of one function become one call.
static void build_calls(struct writer *w)
{
	const struct fm_view *view = &w->a->view;
	struct fm_map ids = { 0 };
	fm_vec_grow_to(&w->calls, ROOT + 1);
	w->call_of_node[0] = ROOT;
	for (uint32_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		uint32_t parent = w->call_of_node[node->parent];
		bool is_new;
		uint64_t *id = fm_map_at(&ids, (uint64_t)parent << 32 | node->function_id, &is_new);
		if (is_new) {
			*id = w->calls.n;
			fm_vec_push(&w->calls, (struct call){ .parent = parent, .function_id = node->function_id });
		}
		w->call_of_node[i] = (uint32_t)*id;
	}
	fm_map_deinit(&ids);
}

static void add_tick(struct writer *w, uint32_t id, uint32_t line, uint64_t n)
{
	bool is_new;
	uint64_t *at = fm_map_at(&w->tick_of, (uint64_t)id << 32 | line, &is_new);
	if (is_new) {
		fm_vec_push(&w->ticks, (struct tick){ line, w->calls.items[id].first_tick, 0 });
		*at = w->calls.items[id].first_tick = (uint32_t)w->ticks.n;
	}
	w->ticks.items[*at - 1].n += n;
}

// What the thread was seen in, and who called it. Children stand in the order of their ids.
static void count(struct writer *w)
{
	for (size_t i = 0; i < w->a->tally.cells.n; i++) {
		const struct fm_cell *cell = &w->a->tally.cells.items[i];
		if (cell->thread_id != w->thread_id || !fm_view_shows_class(&w->a->options, cell->class))
			continue;
		uint32_t node = fm_view_node(&w->a->view, cell->stack_id);
		uint32_t id = w->call_of_node[node];
		w->calls.items[id].n += cell->n;
		w->calls.items[id].is_used = true;
		if (w->a->view.nodes.items[node].line)
			add_tick(w, id, w->a->view.nodes.items[node].line, cell->n);
	}
	w->calls.items[ROOT].is_used = true;
	for (uint32_t id = (uint32_t)w->calls.n - 1; id > ROOT; id--) {
		struct call *call = &w->calls.items[id], *parent = &w->calls.items[call->parent];
		if (!call->is_used)
			continue;
		parent->is_used = true;
		call->next = parent->first_child;
		parent->first_child = id;
	}
}

static void write_call_frame(struct writer *w, uint32_t id)
{
	static const struct fm_function root = { .name = { "(root)", 6 } };
	const struct fm_function *f = id == ROOT ? &root : fm_analysis_function(w->a, w->calls.items[id].function_id);
	fm_json_object(&w->j, "callFrame");
	fm_json_str(&w->j, "functionName", fm_label_function(f));
	fm_json_str(&w->j, "scriptId", FM_STR_LIT("0"));
	fm_json_str(&w->j, "url", f->file.len ? f->file : f->path);
	fm_json_i64(&w->j, "lineNumber", (int64_t)f->line - 1); // from 0; -1 is unknown
	fm_json_i64(&w->j, "columnNumber", f->line ? 0 : -1);
	fm_json_end(&w->j);
}

static void write_calls(struct writer *w)
{
	fm_json_array(&w->j, "nodes");
	for (uint32_t id = ROOT; id < w->calls.n; id++) {
		const struct call *call = &w->calls.items[id];
		if (!call->is_used)
			continue;
		fm_json_newline(&w->j);
		fm_json_object(&w->j, NULL);
		fm_json_u64(&w->j, "id", id);
		write_call_frame(w, id);
		fm_json_u64(&w->j, "hitCount", call->n);
		fm_json_array(&w->j, "children");
		for (uint32_t child = call->first_child; child; child = w->calls.items[child].next)
			fm_json_u64(&w->j, NULL, child);
		fm_json_end(&w->j);
		fm_json_array(&w->j, "positionTicks");
		for (uint32_t at = call->first_tick; at; at = w->ticks.items[at - 1].next) {
			fm_json_object(&w->j, NULL);
			fm_json_u64(&w->j, "line", w->ticks.items[at - 1].line);
			fm_json_u64(&w->j, "ticks", w->ticks.items[at - 1].n);
			fm_json_end(&w->j);
		}
		fm_json_end(&w->j);
		fm_json_end(&w->j);
	}
	fm_json_end(&w->j);
}

// Hands out the thread's runs in order, or its stacks once each.
typedef void each_run(struct writer *w, uint32_t node, uint64_t weight_ns, void *ctx);

static enum fm_err for_each(struct writer *w, each_run *run, void *ctx, struct fm_diag *diag)
{
	struct fm_run runs[FM_SPOOL_BLOCK];
	uint32_t n;
	enum fm_err err = FM_E_END;
	for (size_t i = 0; i < w->leaves.items.n; i++)
		if (w->leaves.items.items[i].group == w->thread_id)
			run(w, w->leaves.items.items[i].node, w->leaves.items.items[i].weight_ns, ctx);
	if (w->is_in_order && w->thread_id < w->spool.threads.n)
		for (size_t b = 0; !(err = fm_spool_read(&w->spool, w->thread_id, b, runs, &n, diag)); b++)
			for (uint32_t i = 0; i < n; i++)
				run(w, runs[i].node, runs[i].weight_ns, ctx);
	return err == FM_E_END ? FM_OK : err;
}

static void write_sample(struct writer *w, uint32_t node, uint64_t weight_ns, void *ctx)
{
	(void)weight_ns;
	(void)ctx;
	fm_json_u64(&w->j, NULL, w->call_of_node[node]);
}

static uint64_t rounded_us(uint64_t ns)
{
	return ns / 1000 + (ns % 1000 >= 500);
}

static void write_delta(struct writer *w, uint32_t node, uint64_t weight_ns, void *ctx)
{
	struct call *call = &w->calls.items[w->call_of_node[node]];
	uint64_t before_us = rounded_us(call->weight_ns), *sum_us = ctx;
	call->weight_ns += weight_ns;
	fm_json_u64(&w->j, NULL, rounded_us(call->weight_ns) - before_us);
	*sum_us += rounded_us(call->weight_ns) - before_us;
}

// Each delta is how long the sample before it lasts. The last one's would be known from endTime
// alone, which not everybody reads: the root follows it.
static enum fm_err write_samples(struct writer *w, struct fm_diag *diag)
{
	uint64_t start_us = 0, sum_us = 0;
	if (w->thread_id < w->a->tally.threads.n)
		start_us = w->a->tally.threads.items[w->thread_id].first_ns / 1000;
	fm_json_newline(&w->j);
	fm_json_array(&w->j, "samples");
	enum fm_err err = for_each(w, write_sample, NULL, diag);
	fm_json_u64(&w->j, NULL, ROOT);
	fm_json_end(&w->j);
	fm_json_newline(&w->j);
	fm_json_array(&w->j, "timeDeltas");
	fm_json_u64(&w->j, NULL, 0);
	if (!err)
		err = for_each(w, write_delta, &sum_us, diag);
	fm_json_end(&w->j);
	fm_json_newline(&w->j);
	fm_json_u64(&w->j, "startTime", start_us);
	fm_json_u64(&w->j, "endTime", start_us + sum_us);
	return err;
}

static bool is_called(const struct fm_analysis *a, uint32_t thread_id, const char *name)
{
	char number[16];
	if (thread_id >= a->profile->threads.n)
		return false;
	const struct fm_thread *thread = &a->profile->threads.items[thread_id];
	snprintf(number, sizeof(number), "%" PRIu32, thread->tid);
	return !strcmp(number, name) || fm_str_eq(thread->name, fm_str_of(name));
}

// The one that is wanted; and what is left out is said.
static enum fm_err choose_thread(const struct fm_analysis *a, uint32_t *ret, struct fm_diag *diag)
{
	size_t n, chosen = 0;
	uint64_t whole_ns = 0;
	struct fm_busy *threads = fm_runs_busiest(a, &n);
	while (a->options.thread && chosen < n && !is_called(a, threads[chosen].thread_id, a->options.thread))
		chosen++;
	for (size_t i = 0; i < n; i++)
		whole_ns += threads[i].weight_ns;
	enum fm_err err = FM_OK;
	if (a->options.thread && chosen == n) {
		err = fm_diag_set(
			diag, FM_E_NOT_FOUND,
			"no thread with samples is called '%s'; 'fathom export -f collapsed --threads' shows them",
			a->options.thread);
	} else {
		*ret = n ? threads[chosen].thread_id : 0;
	}
	if (!err && n > 1) {
		struct fm_buf name = { 0 };
		fm_label_thread(&name, a, *ret);
		fm_say("a cpuprofile holds one thread: it has %s, with %.0f %% of the time; %zu other%s left out "
		       "(--thread names another)",
		       (const char *)name.data, 100 * (double)threads[chosen].weight_ns / FM_MAX((double)whole_ns, 1.0),
		       n - 1, n == 2 ? " is" : "s are");
		fm_buf_deinit(&name);
	}
	free(threads);
	return err;
}

static enum fm_err fill(struct writer *w, struct fm_diag *diag)
{
	const struct fm_runs_wanted wanted = { .thread_id = w->thread_id, .max_runs = MAX_RUNS };
	enum fm_err err = fm_runs_fill(&w->spool, w->a, &wanted, diag);
	w->is_in_order = !err;
	if (err != FM_E_END)
		return err;
	struct fm_view_options by_thread = w->a->options;
	by_thread.threads = true;
	fm_leaves_of(&w->leaves, w->a, &by_thread);
	fm_say("more than %u samples: each stack is in the cpuprofile once, with all its time, not in order of time",
	       MAX_RUNS);
	return FM_OK;
}

enum fm_err fm_write_cpuprofile(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct writer w = { .a = a };
	enum fm_err err = choose_thread(a, &w.thread_id, diag);
	if (err)
		return err;
	w.call_of_node = fm_alloc(a->view.nodes.n * sizeof(uint32_t));
	err = fill(&w, diag);
	if (!err) {
		build_calls(&w);
		count(&w);
		fm_json_init(&w.j, out);
		fm_json_object(&w.j, NULL);
		write_calls(&w);
		err = write_samples(&w, diag);
		fm_json_end(&w.j);
		fm_json_newline(&w.j);
	}
	fm_vec_deinit(&w.calls);
	fm_vec_deinit(&w.ticks);
	fm_map_deinit(&w.tick_of);
	fm_leaves_deinit(&w.leaves);
	fm_spool_deinit(&w.spool);
	free(w.call_of_node);
	return err;
}
