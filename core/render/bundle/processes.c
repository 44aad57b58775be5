// SPDX-License-Identifier: Apache-2.0
// Who ran: the processes and threads of the bundle.
#include "base/hash.h"
#include "render/bundle/part.h"
#include "render/shared/facts.h"
#include "render/shared/label.h"

static double since_start(const struct fm_bundle *b, uint64_t ns)
{
	return ns > b->start_ns ? fm_seconds(ns - b->start_ns) : 0;
}

static void add_processes(struct fm_bundle *b, double end_s)
{
	const struct fm_profile *p = b->a->profile;
	size_t n = p->processes.n;
	uint32_t *pid = fm_columns_u32(&b->columns, "process.pid", n);
	uint32_t *parent = fm_columns_u32(&b->columns, "process.parent", n);
	uint32_t *command = fm_columns_u32(&b->columns, "process.command", n);
	uint32_t *python = fm_columns_u32(&b->columns, "process.python", n);
	double *start = fm_columns_f64(&b->columns, "process.start_s", n);
	double *end = fm_columns_f64(&b->columns, "process.end_s", n);
	int32_t *code = fm_columns_i32(&b->columns, "process.exit_code", n);
	int32_t *signal = fm_columns_i32(&b->columns, "process.exit_signal", n);
	struct fm_map by_pid = { 0 }; // pids are reused: the latest that came before is the parent
	for (size_t i = 0; i < n; i++) {
		const struct fm_process *process = &p->processes.items[i];
		struct fm_buf line = { 0 };
		fm_label_worker(&line, &process->info);
		uint64_t *found = fm_map_find(&by_pid, process->info.parent_pid);
		pid[i] = process->info.pid;
		parent[i] = found ? (uint32_t)*found : FM_NO_ID;
		command[i] =
			fm_string_table_name(&b->text, (struct fm_str){ (const char *)line.data, (uint32_t)line.len });
		python[i] = fm_string_table_name(&b->text, process->info.python_version);
		start[i] = since_start(b, process->info.start_ns);
		end[i] = process->end_ns ? since_start(b, process->end_ns) : end_s;
		code[i] = process->exit_code;
		signal[i] = process->exit_signal;
		*fm_map_at(&by_pid, process->info.pid, NULL) = i;
		fm_buf_deinit(&line);
	}
	fm_map_deinit(&by_pid);
}

static double add_threads(struct fm_bundle *b)
{
	const struct fm_analysis *a = b->a;
	size_t n = FM_MAX(a->profile->threads.n, a->tally.threads.n);
	uint32_t *process = fm_columns_u32(&b->columns, "thread.process", n);
	uint32_t *tid = fm_columns_u32(&b->columns, "thread.tid", n);
	uint32_t *name = fm_columns_u32(&b->columns, "thread.name", n);
	double *cpu = fm_columns_f64(&b->columns, "thread.cpu_s", n);
	double *wall = fm_columns_f64(&b->columns, "thread.wall_s", n);
	double *no_cpu = fm_columns_f64(&b->columns, "thread.no_cpu_s", n);
	double *start = fm_columns_f64(&b->columns, "thread.start_s", n);
	double *end = fm_columns_f64(&b->columns, "thread.end_s", n);
	static const struct fm_weight nothing;
	double last = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_thread *t = i < a->profile->threads.n ? &a->profile->threads.items[i] : NULL;
		const struct fm_thread_span *span = i < a->tally.threads.n ? &a->tally.threads.items[i] : NULL;
		process[i] = fm_label_process_of(a, i);
		tid[i] = t ? t->tid : 0;
		name[i] = t ? fm_string_table_name(&b->text, t->name) : 0;
		cpu[i] = fm_facts_thread_cpu_s(a, i, &nothing);
		wall[i] = fm_facts_thread_wall_s(a, i);
		no_cpu[i] = fm_facts_thread_no_cpu_s(a, i);
		start[i] = since_start(b, t && t->start_ns ? t->start_ns : span ? span->first_ns : 0);
		end[i] = since_start(b, t && t->end_ns ? t->end_ns : span ? span->last_ns : 0);
		last = FM_MAX(last, end[i]);
	}
	for (size_t i = 0; i < b->summary->threads.n; i++) { // the same figures as in the report
		const struct fm_thread_row *row = &b->summary->threads.items[i];
		cpu[row->thread_id] = fm_facts_thread_cpu_s(a, row->thread_id, &row->weight);
	}
	return last;
}

void fm_bundle_add_people(struct fm_bundle *b)
{
	add_processes(b, add_threads(b));
}
