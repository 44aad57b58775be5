// SPDX-License-Identifier: Apache-2.0
// Who took the time: functions, lines, threads, processes, CPUs.
#include "base/bisect.h"
#include "render/query/columns.h"
#include "render/shared/label.h"

static uint64_t plus_minus(double variance)
{
	return (uint64_t)(fm_heap_plus_minus(variance) + 0.5);
}

// ---- functions ----

static const struct fm_column function_columns[] = {
	FM_INT("id", "number of the function in this capture"),
	FM_TEXT("name", "as reports call it"),
	FM_TEXT("full_name", "with parameters and template arguments, of C++ and Rust"),
	FM_TEXT("module", "Python module, or file name of the library"),
	FM_TEXT("file", "source file; the library where that is not known"),
	FM_INT("line", "where it begins; 0: not known"),
	FM_TEXT("kind", "python, native, jit or error (a stack that is not whole)"),
	FM_INT("inlined", "1: the compiler put every call of it into its callers"),
	FM_INT("is_users", "1: Python code outside of the standard library and of installed packages"),
	FM_REAL("self_s", "CPU time in which it was the innermost function"),
	FM_REAL("total_s", "CPU time in which it was anywhere on the stack"),
	FM_REAL("self_plus_minus_s", "half of the 95 % interval of self_s"),
	FM_REAL("total_plus_minus_s", "half of the 95 % interval of total_s"),
	FM_CLASS_COLUMNS,
	FM_INT("samples", "CPU samples in which it was on the stack"),
	FM_INT("alloc_bytes", "allocated by the function itself, freed or not"),
	FM_INT("peak_bytes", "the most that its own blocks held at any moment"),
	FM_INT("peak_plus_minus_bytes", "half of the 95 % interval of peak_bytes"),
	FM_INT("at_peak_bytes", "held when the whole program held most"),
	FM_INT("avg_bytes", "held, as a mean over the run"),
	FM_INT("live_bytes", "held at the end"),
	FM_INT("copy_bytes", "copied by memcpy and kin"),
	FM_INT("total_alloc_bytes", "allocated by the function and by what it calls"),
	FM_INT("total_peak_bytes", "the most that blocks of the function and of what it calls held"),
};

static uint64_t count_functions(struct fm_query_data *d)
{
	fm_query_need_functions(d);
	return d->functions.n;
}

static void function_memory(struct fm_row *r, const struct fm_heap_function_row *row)
{
	static const struct fm_heap_function_row none;
	row = row ? row : &none;
	fm_row_u64(r, row->self.alloc_bytes);
	fm_row_u64(r, row->self.peak_bytes);
	fm_row_u64(r, plus_minus(row->self.peak_var));
	fm_row_u64(r, row->self.at_peak_bytes);
	fm_row_u64(r, row->self.avg_bytes);
	fm_row_u64(r, row->self.live_bytes);
	fm_row_u64(r, row->self.copy_bytes);
	fm_row_u64(r, row->total.alloc_bytes);
	fm_row_u64(r, row->total.peak_bytes);
}

static void function_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	struct fm_query_pair at = d->functions.items[i];
	const struct fm_heap_function_row *heap =
		at.of_heap != FM_QUERY_NO_ROW ? &d->a->heap.functions.items[at.of_heap] : NULL;
	const struct fm_function_row none = { .function_id = heap ? heap->function_id : 0 };
	const struct fm_function_row *row =
		at.of_time != FM_QUERY_NO_ROW ? &d->summary->functions.items[at.of_time] : &none;
	const struct fm_function *f = fm_analysis_function(d->a, row->function_id);
	fm_row_id(r, row->function_id);
	fm_row_text(r, f->name);
	fm_row_text(r, f->full_name);
	fm_row_text(r, f->module);
	fm_row_text(r, f->file.len ? f->file : f->path);
	fm_row_u64(r, f->line);
	fm_row_text(r, fm_label_kind(f));
	fm_row_u64(r, row->is_always_inlined);
	fm_row_u64(r, fm_summary_is_users(d->summary, row->function_id));
	fm_row_seconds(r, fm_weight_cpu_ns(&row->self));
	fm_row_seconds(r, fm_weight_cpu_ns(&row->total));
	fm_row_real(r, fm_summary_plus_minus_s(d->summary, &row->self));
	fm_row_real(r, fm_summary_plus_minus_s(d->summary, &row->total));
	fm_row_classes(r, &row->charged);
	fm_row_u64(r, row->total.n);
	function_memory(r, heap);
}

// ---- lines ----

static const struct fm_column line_columns[] = {
	FM_TEXT("file", "source file"),
	FM_INT("line", "number of the line"),
	FM_TEXT("function", "function that most of its time was in"),
	FM_INT("function_id", "functions.id of it"),
	FM_TEXT("source", "text of the line, as the capture keeps it; empty where it does not"),
	FM_REAL("total_s", "CPU time charged to the line, native code and libraries that it calls included"),
	FM_REAL("plus_minus_s", "half of the 95 % interval of total_s"),
	FM_CLASS_COLUMNS,
	FM_REAL("worker_s", "of total_s: CPU time of native threads that work for the line"),
	FM_INT("worker_threads", "how many of these threads there are"),
	FM_INT("samples", "CPU samples charged to the line"),
	FM_INT("alloc_bytes", "allocated, freed or not"),
	FM_INT("alloc_plus_minus_bytes", "half of the 95 % interval of alloc_bytes"),
	FM_INT("allocs", "how many blocks were allocated"),
	FM_REAL("alloc_python_share", "of alloc_bytes: share of Python's own allocators, 0 to 1"),
	FM_INT("peak_bytes", "the most that the line's blocks held at any moment"),
	FM_INT("peak_plus_minus_bytes", "half of the 95 % interval of peak_bytes"),
	FM_INT("at_peak_bytes", "held when the whole program held most"),
	FM_INT("untouched_bytes", "allocated by then and never used"),
	FM_INT("avg_bytes", "held, as a mean over the run"),
	FM_INT("live_bytes", "held at the end"),
	FM_INT("copy_bytes", "copied by memcpy and kin"),
	FM_TEXT("types", "of Python objects that are held at the end, up to three, most first; empty when not known"),
};

static uint64_t count_lines(struct fm_query_data *d)
{
	fm_query_need_lines(d);
	return d->lines.n;
}

static void line_memory(struct fm_row *r, const struct fm_heap_line_row *row)
{
	static const struct fm_heap_figures none;
	const struct fm_heap_figures *f = row ? &row->f : &none;
	fm_row_u64(r, f->alloc_bytes);
	fm_row_u64(r, plus_minus(f->alloc_var));
	fm_row_u64(r, f->n_allocs);
	fm_row_real(r, f->alloc_bytes ? (double)FM_MIN(f->python_bytes, f->alloc_bytes) / (double)f->alloc_bytes : 0);
	fm_row_u64(r, f->peak_bytes);
	fm_row_u64(r, plus_minus(f->peak_var));
	fm_row_u64(r, f->at_peak_bytes);
	fm_row_u64(r, f->untouched_bytes);
	fm_row_u64(r, f->avg_bytes);
	fm_row_u64(r, f->live_bytes);
	fm_row_u64(r, f->copy_bytes);
	fm_row_text(r, row && row->types.p ? row->types : FM_STR_LIT(""));
}

static void line_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	struct fm_query_pair at = d->lines.items[i];
	const struct fm_heap_line_row *heap =
		at.of_heap != FM_QUERY_NO_ROW ? &d->a->heap.lines.items[at.of_heap] : NULL;
	const struct fm_line_row none = { .function_id = heap ? heap->function_id : 0, .line = heap ? heap->line : 0 };
	const struct fm_line_row *row = at.of_time != FM_QUERY_NO_ROW ? &d->summary->lines.items[at.of_time] : &none;
	const struct fm_function *f = fm_analysis_function(d->a, row->function_id);
	fm_row_text(r, f->file);
	fm_row_u64(r, row->line);
	fm_row_text(r, f->name);
	fm_row_id(r, row->function_id);
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_SOURCE, .function_id = row->function_id, .line = row->line });
	fm_row_seconds(r, fm_weight_cpu_ns(&row->weight));
	fm_row_real(r, fm_summary_plus_minus_s(d->summary, &row->weight));
	fm_row_classes(r, &row->weight);
	fm_row_seconds(r, row->worker_ns);
	fm_row_u64(r, row->n_workers);
	fm_row_u64(r, row->weight.n);
	line_memory(r, heap);
}

// ---- threads, processes, CPUs ----

static const struct fm_column thread_columns[] = {
	FM_INT("id", "number of the thread in this capture"),
	FM_INT_OR_NULL("process_id", "processes.id"),
	FM_INT("pid", "the process's number in the system"),
	FM_INT("tid", "the thread's number in the system"),
	FM_TEXT("name", "as the program called it"),
	FM_REAL("cpu_s", "CPU time, as the kernel counted it where that is known"),
	FM_REAL("wall_s", "from its start to its end"),
	FM_CLASS_COLUMNS,
	FM_REAL("no_cpu_s", "ready to run while no CPU was free"),
	FM_REAL("unseen_s", "time of which nobody knows what the thread did"),
	FM_INT("samples", "of every class"),
	FM_INT("dropped", "samples that were lost because a ring was full"),
};

static uint64_t count_threads(struct fm_query_data *d)
{
	return d->summary->threads.n;
}

static void thread_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_thread_row *row = &d->summary->threads.items[i];
	const struct fm_profile *p = d->a->profile;
	const struct fm_thread *thread = row->thread_id < p->threads.n ? &p->threads.items[row->thread_id] : NULL;
	uint32_t process = fm_label_process_of(d->a, row->thread_id);
	fm_row_id(r, row->thread_id);
	fm_row_id(r, process);
	fm_row_u64(r, process != FM_NO_ID ? p->processes.items[process].info.pid : 0);
	fm_row_u64(r, thread ? thread->tid : 0);
	fm_row_text(r, thread ? thread->name : FM_STR_LIT(""));
	fm_row_real(r, fm_facts_thread_cpu_s(d->a, row->thread_id, &row->weight));
	fm_row_real(r, fm_facts_thread_wall_s(d->a, row->thread_id));
	fm_row_classes(r, &row->weight);
	fm_row_real(r, fm_facts_thread_no_cpu_s(d->a, row->thread_id));
	fm_row_real(r, fm_facts_thread_unseen_s(d->a, row->thread_id));
	fm_row_u64(r, row->n);
	fm_row_u64(r, thread ? thread->n_dropped : 0);
}

static const struct fm_column process_columns[] = {
	FM_INT("id", "number of the process in this capture"),
	FM_INT("pid", "its number in the system"),
	FM_INT_OR_NULL("parent", "pid of the process that started it; NULL for the first one"),
	FM_TEXT("name", "of a worker: what the program calls it"),
	FM_TEXT("command", "its command line"),
	FM_TEXT("python", "version of its Python; empty where it has none"),
	FM_INT("max_rss_bytes", "the most resident memory that was seen"),
	FM_INT_OR_NULL("exit_code", "NULL: not known, or ended by a signal"),
	FM_INT_OR_NULL("exit_signal", "the signal that ended it, or NULL"),
	FM_INT("threads", "how many of its threads were sampled"),
	FM_CLASS_COLUMNS,
};

static uint64_t count_processes(struct fm_query_data *d)
{
	return d->a->profile->processes.n;
}

static void process_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	const struct fm_process *process = &d->a->profile->processes.items[i];
	static const struct fm_process_row none;
	size_t at = fm_bisect(d->summary->processes.n, k, d->summary->processes.items[k].process_id < i);
	bool is_sampled = at < d->summary->processes.n && d->summary->processes.items[at].process_id == i;
	const struct fm_process_row *row = is_sampled ? &d->summary->processes.items[at] : &none;
	fm_row_id(r, (uint32_t)i);
	fm_row_u64(r, process->info.pid);
	if (i == 0 || !process->info.parent_pid) // the parent of the first is fathom, or a shell
		fm_row_null(r);
	else
		fm_row_u64(r, process->info.parent_pid);
	fm_row_text(r, process->info.name);
	fm_row_put(r, (struct fm_value){ .kind = FM_VALUE_COMMAND, .text = process->info.command });
	fm_row_text(r, process->info.python_version);
	fm_row_u64(r, fm_json_max_rss(d->a->profile, (uint32_t)i));
	fm_row_exit(r, process->exit_code, process->exit_signal);
	fm_row_u64(r, row->n_threads);
	fm_row_classes(r, &row->weight);
}

static const struct fm_column cpu_columns[] = {
	FM_INT("cpu", "number of the CPU"),
	FM_INT("samples", "CPU samples that were taken there"),
	FM_REAL("cpu_s", "CPU time that they stand for"),
};

static uint64_t count_cpus(struct fm_query_data *d)
{
	return d->a->tally.cpus.n;
}

static void cpu_row(struct fm_query_data *d, uint64_t i, struct fm_row *r)
{
	fm_row_u64(r, i);
	fm_row_u64(r, d->a->tally.cpus.items[i].n);
	fm_row_seconds(r, d->a->tally.cpus.items[i].weight_ns);
}

const struct fm_query_table fm_query_time_tables[] = {
	{ "functions", "functions, Python and native, with their time and memory; most total CPU time first",
	  FM_COLUMNS(function_columns), 2000, FM_ANALYSIS_STACKS, count_functions, function_row },
	{ "lines", "Python lines with their time and memory; most CPU time first", FM_COLUMNS(line_columns), 1000,
	  FM_ANALYSIS_STACKS, count_lines, line_row },
	{ "threads", "threads; most CPU time first", FM_COLUMNS(thread_columns), 20, FM_ANALYSIS_STACKS, count_threads,
	  thread_row },
	{ "processes", "the program's processes, in the order of their start", FM_COLUMNS(process_columns), 5,
	  FM_ANALYSIS_STACKS, count_processes, process_row },
	{ "cpus", "where threads ran; CPUs without a sample have 0", FM_COLUMNS(cpu_columns), 8, FM_ANALYSIS_STACKS,
	  count_cpus, cpu_row,
	  .lacks = "the samples of this capture have no CPU; perf record stores it with --sample-cpu" },
	{ 0 },
};
