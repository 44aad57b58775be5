// SPDX-License-Identifier: Apache-2.0
#include "format/facts.h"

#include "format/columns.h"
#include "format/record.h"

void fm_fact_put_pair(struct fm_buf *out, const struct fm_fact_pair *pair)
{
	fm_record_put_str(out, pair->first);
	fm_record_put_str(out, pair->second);
}

struct fm_fact_pair fm_fact_get_pair(struct fm_cursor *c)
{
	struct fm_fact_pair pair;
	pair.first = fm_cursor_str(c);
	pair.second = fm_cursor_str(c);
	return pair;
}

void fm_fact_put_process(struct fm_buf *out, const struct fm_fact_process *process)
{
	const struct fm_process_info *info = &process->info;
	fm_buf_varint(out, process->process_id);
	fm_buf_varint(out, info->pid);
	fm_buf_varint(out, info->parent_pid);
	fm_buf_varint(out, info->start_ns);
	fm_record_put_str(out, info->exe);
	fm_record_put_str(out, info->command);
	fm_record_put_str(out, info->python_version);
	fm_record_put_str(out, info->engine);
	fm_record_put_str(out, info->name);
}

struct fm_fact_process fm_fact_get_process(struct fm_cursor *c)
{
	struct fm_fact_process process;
	process.process_id = fm_record_get_id(c);
	process.info.pid = fm_record_get_id(c);
	process.info.parent_pid = fm_record_get_id(c);
	process.info.start_ns = fm_cursor_varint(c);
	process.info.exe = fm_cursor_str(c);
	process.info.command = fm_cursor_str(c);
	process.info.python_version = fm_cursor_str(c);
	process.info.engine = fm_cursor_str(c);
	process.info.name = fm_cursor_left(c) ? fm_cursor_str(c) : FM_STR_LIT(""); // early captures end before it
	return process;
}

void fm_fact_put_process_end(struct fm_buf *out, const struct fm_fact_process_end *end)
{
	fm_buf_varint(out, end->process_id);
	fm_buf_varint(out, end->time_ns);
	fm_buf_svarint(out, end->exit_code);
	fm_buf_svarint(out, end->exit_signal);
}

struct fm_fact_process_end fm_fact_get_process_end(struct fm_cursor *c)
{
	struct fm_fact_process_end end;
	end.process_id = fm_record_get_id(c);
	end.time_ns = fm_cursor_varint(c);
	end.exit_code = fm_cursor_svarint(c);
	end.exit_signal = fm_cursor_svarint(c);
	return end;
}

void fm_fact_put_thread(struct fm_buf *out, const struct fm_fact_thread *thread)
{
	fm_buf_varint(out, thread->thread_id);
	fm_buf_varint(out, thread->process_id);
	fm_buf_varint(out, thread->tid);
	fm_buf_varint(out, thread->start_ns);
}

struct fm_fact_thread fm_fact_get_thread(struct fm_cursor *c)
{
	struct fm_fact_thread thread;
	thread.thread_id = fm_record_get_id(c);
	thread.process_id = fm_record_get_id(c);
	thread.tid = fm_record_get_id(c);
	thread.start_ns = fm_cursor_varint(c);
	return thread;
}

void fm_fact_put_thread_name(struct fm_buf *out, const struct fm_fact_thread_name *name)
{
	fm_buf_varint(out, name->thread_id);
	fm_record_put_str(out, name->name);
}

struct fm_fact_thread_name fm_fact_get_thread_name(struct fm_cursor *c)
{
	struct fm_fact_thread_name name;
	name.thread_id = fm_record_get_id(c);
	name.name = fm_cursor_str(c);
	return name;
}

void fm_fact_put_thread_end(struct fm_buf *out, const struct fm_fact_thread_end *end)
{
	fm_buf_varint(out, end->thread_id);
	fm_buf_varint(out, end->totals.end_ns);
	fm_buf_varint(out, end->totals.cpu_ns);
	fm_buf_varint(out, end->totals.n_dropped);
	fm_buf_varint(out, end->totals.ready_ns1);
}

struct fm_fact_thread_end fm_fact_get_thread_end(struct fm_cursor *c)
{
	struct fm_fact_thread_end end;
	end.thread_id = fm_record_get_id(c);
	end.totals.end_ns = fm_cursor_varint(c);
	end.totals.cpu_ns = fm_cursor_varint(c);
	end.totals.n_dropped = fm_cursor_varint(c);
	end.totals.ready_ns1 = fm_cursor_left(c) ? fm_cursor_varint(c) : 0; // early captures end before it
	return end;
}

void fm_fact_put_mapping(struct fm_buf *out, const struct fm_fact_mapping *mapping)
{
	fm_buf_varint(out, mapping->process_id);
	fm_buf_varint(out, mapping->image_id);
	fm_buf_varint(out, mapping->start);
	fm_buf_varint(out, mapping->end);
	fm_buf_varint(out, mapping->bias);
}

struct fm_fact_mapping fm_fact_get_mapping(struct fm_cursor *c)
{
	struct fm_fact_mapping mapping;
	mapping.process_id = fm_record_get_id(c);
	mapping.image_id = fm_record_get_id(c);
	mapping.start = fm_cursor_varint(c);
	mapping.end = fm_cursor_varint(c);
	mapping.bias = fm_cursor_varint(c);
	return mapping;
}

void fm_fact_put_symbol(struct fm_buf *out, const struct fm_fact_symbol *symbol)
{
	fm_buf_varint(out, symbol->image_id);
	fm_buf_varint(out, symbol->addr);
	fm_buf_varint(out, symbol->n_links);
}

struct fm_fact_symbol fm_fact_get_symbol(struct fm_cursor *c)
{
	struct fm_fact_symbol symbol;
	symbol.image_id = fm_record_get_id(c);
	symbol.addr = fm_cursor_varint(c);
	symbol.n_links = fm_record_get_id(c);
	return symbol;
}

void fm_fact_put_alloc_type(struct fm_buf *out, const struct fm_fact_alloc_type *type)
{
	fm_buf_varint(out, type->process_id);
	fm_buf_varint(out, type->alloc_id);
	fm_buf_varint(out, type->name);
}

struct fm_fact_alloc_type fm_fact_get_alloc_type(struct fm_cursor *c)
{
	struct fm_fact_alloc_type type;
	type.process_id = fm_record_get_id(c);
	type.alloc_id = fm_cursor_varint(c);
	type.name = fm_record_get_id(c);
	return type;
}

void fm_fact_put_alloc_touched(struct fm_buf *out, const struct fm_fact_alloc_touched *touched)
{
	fm_buf_varint(out, touched->process_id);
	fm_buf_varint(out, touched->alloc_id);
	fm_buf_varint(out, touched->bytes);
}

struct fm_fact_alloc_touched fm_fact_get_alloc_touched(struct fm_cursor *c)
{
	struct fm_fact_alloc_touched touched;
	touched.process_id = fm_record_get_id(c);
	touched.alloc_id = fm_cursor_varint(c);
	touched.bytes = fm_cursor_varint(c);
	return touched;
}

void fm_fact_put_site_history(struct fm_buf *out, const struct fm_fact_site_history *history)
{
	fm_buf_varint(out, history->process_id);
	fm_buf_varint(out, history->stack_id);
	fm_buf_varint(out, history->domain);
	fm_buf_varint(out, history->n);
}

struct fm_fact_site_history fm_fact_get_site_history(struct fm_cursor *c)
{
	struct fm_fact_site_history history;
	history.process_id = fm_record_get_id(c);
	history.stack_id = fm_record_get_id(c);
	history.domain = fm_cursor_varint(c);
	history.n = fm_cursor_varint(c);
	return history;
}

void fm_fact_put_history_point(struct fm_buf *out, struct fm_history_point *last, const struct fm_history_point *point)
{
	fm_buf_varint(out, point->time_ns - last->time_ns);
	fm_buf_varint(out, fm_zigzag(point->alloc_bytes - last->alloc_bytes));
	fm_buf_varint(out, fm_zigzag(point->live_bytes - last->live_bytes));
	*last = *point;
}

void fm_fact_get_history_point(struct fm_cursor *c, struct fm_history_point *last)
{
	last->time_ns += fm_cursor_varint(c);
	last->alloc_bytes += fm_unzigzag(fm_cursor_varint(c));
	last->live_bytes += fm_unzigzag(fm_cursor_varint(c));
}

void fm_fact_put_trace_name(struct fm_buf *out, const struct fm_fact_trace_name *name)
{
	fm_buf_varint(out, name->kind);
	fm_buf_varint(out, name->name);
	fm_buf_varint(out, name->file);
	fm_buf_varint(out, name->line);
}

struct fm_fact_trace_name fm_fact_get_trace_name(struct fm_cursor *c)
{
	struct fm_fact_trace_name name;
	name.kind = fm_record_get_id(c);
	name.name = fm_record_get_id(c);
	name.file = fm_record_get_id(c);
	name.line = fm_record_get_id(c);
	return name;
}

void fm_fact_put_call_sum(struct fm_buf *out, const struct fm_call_sum *sum)
{
	fm_buf_varint(out, sum->is_pair ? sum->caller + 1 : 0);
	fm_buf_varint(out, sum->callee);
	fm_buf_varint(out, sum->n_calls);
	fm_buf_varint(out, sum->n_recursive);
	fm_buf_varint(out, sum->own_ns);
	fm_buf_varint(out, sum->total_ns);
}

struct fm_call_sum fm_fact_get_call_sum(struct fm_cursor *c)
{
	struct fm_call_sum sum = { 0 };
	uint64_t caller1 = fm_cursor_varint(c);
	sum.is_pair = caller1 > 0;
	sum.caller = caller1 ? caller1 - 1 : 0;
	sum.callee = fm_cursor_varint(c);
	sum.n_calls = fm_cursor_varint(c);
	sum.n_recursive = fm_cursor_varint(c);
	sum.own_ns = fm_cursor_varint(c);
	sum.total_ns = fm_cursor_varint(c);
	return sum;
}
