// SPDX-License-Identifier: Apache-2.0
// fathom report --json: schema fathom.report/1. What was not captured is 0 or empty, never left
// out.
#include "aggregate/tree/libraries.h"
#include "base/json.h"
#include "render/shared/nb_cells.h"
#include "render/shared/facts.h"
#include "render/shared/formats.h"
#include "render/shared/verdict.h"
#include "render/shared/label.h"
#include "render/json/report_json.h"

static void write_words(struct fm_json *j, const char *key, struct fm_str joined)
{
	fm_json_array(j, key);
	const char *p = joined.p, *end = joined.p + joined.len;
	while (p < end) {
		const char *nul = memchr(p, 0, (size_t)(end - p));
		fm_json_str(j, NULL, (struct fm_str){ p, (uint32_t)((nul ? nul : end) - p) });
		p = nul ? nul + 1 : end;
	}
	fm_json_end(j);
}

static void write_exit(struct fm_json *j, int code, int signal)
{
	fm_json_object(j, "exit");
	if (code >= 0 && !signal)
		fm_json_i64(j, "code", code);
	else
		fm_json_null(j, "code");
	if (signal)
		fm_json_i64(j, "signal", signal);
	else
		fm_json_null(j, "signal");
	fm_json_end(j);
}

static void write_coverage(void *ctx, struct fm_str what, struct fm_str why)
{
	struct fm_json *j = ctx;
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_str(j, "what", what);
	fm_json_str(j, "why", why);
	fm_json_end(j);
}

void fm_json_classes(struct fm_json *j, const struct fm_weight *w)
{
	fm_json_real(j, "python_s", fm_seconds(w->ns[FM_CLASS_PYTHON]));
	fm_json_real(j, "native_s", fm_seconds(w->ns[FM_CLASS_NATIVE]));
	fm_json_real(j, "system_s", fm_seconds(w->ns[FM_CLASS_SYSTEM]));
	fm_json_real(j, "gc_s", fm_seconds(w->ns[FM_CLASS_GC]));
	fm_json_real(j, "gil_wait_s", fm_seconds(w->ns[FM_CLASS_GIL_WAIT]));
	fm_json_real(j, "wait_s", fm_seconds(w->ns[FM_CLASS_WAIT]));
}

static void write_verdict(struct fm_json *j, const struct fm_analysis *a, const struct fm_facts *f,
			  const struct fm_summary *t)
{
	struct fm_own_tree tree;
	struct fm_verdict v;
	fm_own_tree_build(&tree, &a->tally, &a->view, a->symbolizer, t);
	fm_verdict_find(&v, a, f, t, &tree);
	fm_json_array(j, "verdict");
	for (unsigned i = 0; i < v.n; i++) {
		const struct fm_verdict_line *line = &v.lines[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_str(j, "rule", fm_str_of(line->rule));
		fm_json_str(j, "text", (struct fm_str){ (const char *)line->text.data, (uint32_t)line->text.len });
		fm_json_str(j, "file", line->file);
		fm_json_u64(j, "line", line->line);
		fm_json_real(j, "share", line->share);
		fm_json_end(j);
	}
	fm_json_end(j);
	fm_verdict_deinit(&v);
	fm_own_tree_deinit(&tree);
}

static void write_mean(struct fm_json *j, const char *key, const struct fm_facts_mean *m)
{
	fm_json_object(j, key);
	fm_json_real(j, "mean", m->mean);
	fm_json_real(j, "spread", m->spread);
	fm_json_real(j, "plus_minus", m->plus_minus);
	fm_json_end(j);
}

static void write_runs(struct fm_json *j, const struct fm_profile *p)
{
	struct fm_facts_runs runs;
	fm_facts_runs(&runs, p);
	if (!runs.n) {
		fm_json_null(j, "runs");
		return;
	}
	fm_json_object(j, "runs");
	fm_json_u64(j, "n", runs.n);
	write_mean(j, "wall_s", &runs.wall_s);
	write_mean(j, "cpu_s", &runs.cpu_s);
	write_mean(j, "max_rss_bytes", &runs.max_rss_bytes);
	fm_json_end(j);
}

static void write_head(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t)
{
	struct fm_facts f;
	fm_facts_gather(&f, a);
	fm_json_str(j, "schema", FM_STR_LIT("fathom.report/1"));
	write_words(j, "command", f.command);
	fm_json_str(j, "python", f.python);
	fm_json_str(j, "started", f.started);
	write_exit(j, f.exit_code, f.exit_signal);
	fm_json_newline(j);
	fm_json_real(j, "wall_s", f.wall_s);
	fm_json_real(j, "cpu_s", f.cpu_s);
	fm_json_real(j, "no_cpu_s", f.no_cpu_s);
	fm_json_u64(j, "rate_hz", f.rate_hz);
	fm_json_str(j, "engine", f.engine);
	fm_json_u64(j, "samples", f.n_samples);
	fm_json_u64(j, "wait_samples", f.n_waits);
	fm_json_u64(j, "dropped", f.n_dropped);
	fm_json_u64(j, "failed_unwinds", t->n_failed_unwinds);
	fm_json_real(j, "overhead_s", f.overhead_s);
	fm_json_u64(j, "max_rss_bytes", f.max_rss_bytes);
	write_runs(j, a->profile);
	fm_json_newline(j);
	write_verdict(j, a, &f, t);
	fm_json_newline(j);
	fm_json_array(j, "coverage");
	fm_facts_coverage(a, &f, t, write_coverage, j);
	fm_json_end(j);
	fm_json_newline(j);
	fm_json_object(j, "time");
	fm_json_classes(j, &t->total);
	fm_json_end(j);
	fm_json_object(j, "workers");
	fm_json_real(j, "worker_s", fm_seconds(fm_weight_cpu_ns(&t->workers)));
	fm_json_real(j, "untied_s", fm_seconds(fm_weight_cpu_ns(&t->untied)));
	fm_json_end(j);
}

static void write_processes(struct fm_json *j, const struct fm_profile *p)
{
	fm_json_array(j, "processes");
	for (size_t i = 0; i < p->processes.n; i++) {
		const struct fm_process *process = &p->processes.items[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_u64(j, "pid", process->info.pid);
		if (i == 0 ||
		    !process->info
			     .parent_pid) // the root's parent is fathom or the user's shell: not part of the profile
			fm_json_null(j, "parent");
		else
			fm_json_u64(j, "parent", process->info.parent_pid);
		fm_json_str(j, "name", process->info.name);
		write_words(j, "command", process->info.command);
		fm_json_str(j, "python", process->info.python_version);
		fm_json_u64(j, "max_rss_bytes", fm_json_max_rss(p, (uint32_t)i));
		write_exit(j, process->exit_code, process->exit_signal);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void write_threads(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t)
{
	fm_json_array(j, "threads");
	for (size_t i = 0; i < t->threads.n; i++) {
		const struct fm_thread_row *row = &t->threads.items[i];
		const struct fm_thread *thread =
			row->thread_id < a->profile->threads.n ? &a->profile->threads.items[row->thread_id] : NULL;
		uint32_t process = fm_label_process_of(a, row->thread_id);
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_u64(j, "pid", process != FM_NO_ID ? a->profile->processes.items[process].info.pid : 0);
		fm_json_u64(j, "tid", thread ? thread->tid : 0);
		fm_json_str(j, "name", thread ? thread->name : FM_STR_LIT(""));
		fm_json_real(j, "cpu_s", fm_facts_thread_cpu_s(a, row->thread_id, &row->weight));
		fm_json_real(j, "wall_s", fm_facts_thread_wall_s(a, row->thread_id));
		fm_json_classes(j, &row->weight);
		fm_json_real(j, "no_cpu_s", fm_facts_thread_no_cpu_s(a, row->thread_id));
		fm_json_real(j, "unseen_s", fm_facts_thread_unseen_s(a, row->thread_id));
		fm_json_u64(j, "samples", row->n);
		fm_json_u64(j, "dropped", thread ? thread->n_dropped : 0);
		fm_json_end(j);
	}
	fm_json_end(j);
}

// Where threads ran, as perf's --sample-cpu tells.
static void write_cpus(struct fm_json *j, const struct fm_analysis *a)
{
	fm_json_array(j, "cpus");
	for (size_t i = 0; i < a->tally.cpus.n; i++) {
		const struct fm_cpu_sum *sum = &a->tally.cpus.items[i];
		if (!sum->n)
			continue;
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_u64(j, "cpu", i);
		fm_json_u64(j, "samples", sum->n);
		fm_json_real(j, "cpu_s", fm_seconds(sum->weight_ns));
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void write_function(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t,
			   const struct fm_function_row *row, const struct fm_heap_function_row *heap_row)
{
	const struct fm_function *f = fm_analysis_function(a, row->function_id);
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_str(j, "name", f->name);
	fm_json_str(j, "full_name", f->full_name);
	fm_json_str(j, "module", f->module);
	fm_json_str(j, "file", f->file.len ? f->file : f->path);
	fm_json_u64(j, "line", f->line);
	fm_json_str(j, "kind", fm_label_kind(f));
	fm_json_bool(j, "inlined", row->is_always_inlined);
	fm_json_real(j, "self_s", fm_seconds(fm_weight_cpu_ns(&row->self)));
	fm_json_real(j, "total_s", fm_seconds(fm_weight_cpu_ns(&row->total)));
	fm_json_real(j, "self_plus_minus_s", fm_summary_plus_minus_s(t, &row->self));
	fm_json_real(j, "total_plus_minus_s", fm_summary_plus_minus_s(t, &row->total));
	fm_json_classes(j, &row->charged);
	fm_json_function_memory(j, heap_row);
	fm_json_end(j);
}

// Those with time first; then those that only allocate.
static void write_functions(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t,
			    struct fm_json_heap_index *heap)
{
	fm_json_array(j, "functions");
	for (size_t i = 0; i < t->functions.n; i++) {
		const struct fm_function_row *row = &t->functions.items[i];
		write_function(j, a, t, row, fm_json_heap_function(heap, row->function_id));
	}
	for (size_t i = 0; i < a->heap.functions.n; i++) {
		const struct fm_heap_function_row *row = &a->heap.functions.items[i];
		if (!heap->function_is_done[i])
			write_function(j, a, t, &(struct fm_function_row){ .function_id = row->function_id }, row);
	}
	fm_json_end(j);
}

static void write_line(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t,
		       const struct fm_line_row *row, const struct fm_heap_line_row *heap_row)
{
	const struct fm_function *f = fm_analysis_function(a, row->function_id);
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_str(j, "file", f->file);
	fm_json_u64(j, "line", row->line);
	fm_json_str(j, "function", f->name);
	fm_json_classes(j, &row->weight);
	fm_json_real(j, "total_s", fm_seconds(fm_weight_cpu_ns(&row->weight)));
	fm_json_real(j, "worker_s", fm_seconds(row->worker_ns));
	fm_json_u64(j, "worker_threads", row->n_workers);
	fm_json_real(j, "plus_minus_s", fm_summary_plus_minus_s(t, &row->weight));
	fm_json_u64(j, "samples", row->weight.n);
	fm_json_line_memory(j, heap_row);
	fm_json_end(j);
}

static void write_lines(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t,
			struct fm_json_heap_index *heap)
{
	fm_json_array(j, "lines");
	for (size_t i = 0; i < t->lines.n; i++) {
		const struct fm_line_row *row = &t->lines.items[i];
		write_line(j, a, t, row, fm_json_heap_line(heap, row->file_id, row->line));
	}
	for (size_t i = 0; i < a->heap.lines.n; i++) {
		const struct fm_heap_line_row *row = &a->heap.lines.items[i];
		if (!heap->line_is_done[i])
			write_line(j, a, t,
				   &(struct fm_line_row){ .function_id = row->function_id,
							  .file_id = row->file_id,
							  .line = row->line },
				   row);
	}
	fm_json_end(j);
}

static void write_libraries(struct fm_json *j, const struct fm_libraries *l)
{
	fm_json_array(j, "libraries");
	for (size_t i = 0; i < l->rows.n; i++) {
		const struct fm_library_row *row = &l->rows.items[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_str(j, "path", row->path);
		fm_json_real(j, "share", row->share);
		fm_json_real(j, "named_share", row->named_share);
		fm_json_real(j, "lines_share", row->lines_share);
		fm_json_str(j, "remedy", row->remedy);
		fm_json_end(j);
	}
	fm_json_end(j);
}

void fm_report_json(struct fm_json *j, const struct fm_analysis *a, const struct fm_summary *t,
		    const struct fm_libraries *l, bool has_rows)
{
	write_head(j, a, t);
	fm_json_newline(j);
	write_processes(j, a->profile);
	fm_json_newline(j);
	write_threads(j, a, t);
	fm_json_newline(j);
	write_cpus(j, a);
	fm_json_newline(j);
	if (has_rows) {
		struct fm_json_heap_index heap;
		fm_json_heap_index_init(&heap, a);
		write_functions(j, a, t, &heap);
		fm_json_newline(j);
		write_lines(j, a, t, &heap);
		fm_json_newline(j);
		fm_json_heap_index_deinit(&heap);
	}
	write_libraries(j, l);
	fm_json_newline(j);
	fm_json_cells(j, a->profile);
	fm_json_memory(j, a);
	fm_json_newline(j);
	fm_json_leaks(j, a);
}

enum fm_err fm_write_json(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	struct fm_libraries l;
	fm_libraries_build(&l, &a->tally, &a->view, a->symbolizer);
	struct fm_json j;
	fm_json_init(&j, out);
	fm_json_object(&j, NULL);
	fm_report_json(&j, a, fm_analysis_summary(a), &l, true);
	if (fm_analysis_has_calls(a)) {
		fm_json_newline(&j);
		fm_json_calls(&j, a->calls);
	}
	fm_json_end(&j);
	fm_json_newline(&j);
	fm_libraries_deinit(&l);
	return FM_OK;
}
