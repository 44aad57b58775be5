// SPDX-License-Identifier: Apache-2.0
// Who a process is, and what becomes of it: the part of the recorder that knows processes
// (recorder_parts.h).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/ingest/recorder_parts.h"
#include "collect/process/proc.h"

void fm_recorded_process_deinit(struct recorded_process *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	fm_buf_deinit(&p->exe);
	fm_buf_deinit(&p->command);
	fm_vec_deinit(&p->code_ids);
	fm_vec_deinit(&p->images);
	fm_vec_deinit(&p->replaced_ns);
	fm_vec_deinit(&p->sites);
	fm_vec_deinit(&p->byte_ns);
	fm_histories_deinit(&p->histories);
	fm_vec_deinit(&p->unplaced);
	fm_site_stacks_deinit(&p->site_stacks);
	for (size_t i = 0; i < p->codes.n; i++)
		free(p->codes.items[i].rec);
	fm_vec_deinit(&p->codes);
	fm_map_deinit(&p->frames);
	fm_jit_end(p->jit);
	fm_levels_destroy(p->levels);
	fm_survivors_destroy(p->survivors);
	fm_touched_destroy(p->touched);
	*p = (struct recorded_process){ .pidfd = -1 };
}

static void describe_process(struct recorded_process *p, const struct fm_shared_process *now)
{
	p->is_unknown_python = now->python == FM_WIRE_PYTHON_UNKNOWN;
	p->is_free_threaded = now->is_free_threaded;
	p->engine_errno = now->engine_errno;
	p->version[0] = 0;
	if (now->python != FM_WIRE_PYTHON_NONE)
		fm_process_python_version(now->python_version, now->is_free_threaded, p->version);
	p->info = (struct fm_process_info){
		.pid = p->pid,
		.parent_pid = p->parent_pid,
		.start_ns = now->start_ns,
		.exe = { p->exe.data ? (const char *)p->exe.data : "", (uint32_t)p->exe.len },
		.command = { p->command.data ? (const char *)p->command.data : "", (uint32_t)p->command.len },
		.python_version = fm_str_of(p->version),
		.engine = fm_str_of(now->engine == FM_ENGINE_PERF ? "perf" : "ticker"),
		.name = fm_str_of(p->title.text),
	};
}

struct recorded_process *fm_recorded_process_open(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_process *p = &r->processes[idx];
	struct fm_registered now;
	if (p->is_used)
		return p;
	if (!fm_registry_read(r->registry, idx, &now))
		return NULL;
	*p = (struct recorded_process){
		.is_used = true, .pid = now.said.pid, .proc_pid = now.pid, .start_ns = now.said.start_ns
	};
	p->parent_pid = now.said.parent_pid ? now.said.parent_pid : fm_process_parent(p->proc_pid);
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	fm_rights_read(p->proc_pid, &p->rights);
	p->is_elsewhere = fm_process_is_elsewhere(p->proc_pid);
	fm_title_init(&p->title, p->proc_pid);
	describe_process(p, &now.said);
	p->process_id = fm_writer_process(r->writer, &p->info);
	p->jit = fm_jit_create(p->proc_pid, p->parent_pid, idx, p->process_id, r->shared, r->rows, r->writer);
	p->levels = fm_levels_create(p->proc_pid, p->process_id, r->writer);
	p->survivors = fm_survivors_create(p->proc_pid, p->process_id, r->writer);
	p->touched = fm_touched_create(p->proc_pid, p->process_id, r->shared, idx, r->writer);
	r->totals.n_processes++;
	r->totals.n_other_clock += fm_process_has_other_clock(p->proc_pid);
	return p;
}

void fm_recorded_process_update(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_process *p = &r->processes[idx];
	struct fm_registered now;
	char before[sizeof(p->version)];
	if (!fm_registry_read(r->registry, idx, &now) || now.said.pid != p->pid)
		return;
	memcpy(before, p->version, sizeof(before));
	if (fm_title_is_due(&p->title, fm_now_ns())) {
		const struct fm_thread_observer *o = &r->observer;
		const char *name = o->self ? o->name_process(o->self, idx) : NULL;
		p->is_named |= fm_title_look(&p->title, p->proc_pid, name);
		if (o->self && !name) // it was not polled yet
			p->title.due_ns = 0;
	}
	describe_process(p, &now.said);
	if (!p->is_named && !strcmp(before, p->version))
		return;
	p->is_named = false;
	fm_writer_process_update(r->writer, p->process_id, &p->info);
}

// How a process ended, as far as anybody outside its parent can tell.
static void read_zombie_exit(uint32_t pid, int *ret_code, int *ret_signal)
{
	if (fm_process_state(pid, 0) != 'Z')
		return;
	int status = (int)fm_process_stat(pid, FM_STAT_EXIT_STATUS);
	*ret_signal = status & 0x7f;
	*ret_code = *ret_signal ? -1 : status >> 8;
}

void fm_recorded_process_end(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_process *p = &r->processes[idx];
	int code = -1, signal = 0;
	bool is_known = false;
	for (size_t i = 0; i < r->exits.n; i++)
		if (r->exits.items[i].pid == p->pid) {
			code = r->exits.items[i].code;
			signal = r->exits.items[i].signal;
			is_known = true;
		}
	if (!is_known)
		read_zombie_exit(p->proc_pid, &code, &signal);
	fm_recorded_process_update(r, idx);
	if (r->observer.self)
		r->observer.forget(r->observer.self, idx);
	fm_ingest_trace_end_process(r->trace, idx);
	if (p->is_unknown_python) {
		char what[96];
		snprintf(what, sizeof(what), "Python frames of process %u", p->pid);
		char why[128];
		snprintf(why, sizeof(why), "this Fathom does not know Python %s; it shows only native frames",
			 p->version);
		fm_writer_coverage(r->writer, fm_str_of(what), fm_str_of(why));
		r->totals.n_unknown_python++;
	}
	if (p->engine_errno) {
		r->totals.n_without_perf++;
		r->totals.perf_errno = p->engine_errno;
	}
	fm_exact_end(r, p, idx);
	fm_levels_end(p->levels, signal);
	p->levels = NULL;
	fm_touched_end(p->touched, fm_now_ns());
	p->touched = NULL;
	fm_writer_process_end(r->writer, p->process_id, fm_now_ns(), code, signal);
	fm_recorded_process_deinit(p);
	fm_rows_forget_process(r->rows, idx);
	fm_registry_free(r->registry, idx);
}

bool fm_recorded_process_is_gone(const struct recorded_process *p)
{
	return fm_process_is_over(p->pidfd, p->pid);
}

bool fm_recorded_process_was_replaced(const struct fm_recorder *r, uint32_t idx)
{
	const struct recorded_process *p = &r->processes[idx];
	struct fm_registered other;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (i != idx && fm_registry_read(r->registry, i, &other) && other.said.pid == p->pid &&
		    other.said.start_ns > p->start_ns)
			return true;
	return false;
}

bool fm_recorder_process(struct fm_recorder *r, uint32_t process_idx)
{
	return fm_recorded_process_open(r, process_idx) != NULL;
}

void fm_recorder_describe(struct fm_recorder *r, uint32_t process_idx, struct fm_str exe, struct fm_str command)
{
	struct recorded_process *p = fm_recorded_process_open(r, process_idx);
	if (!p)
		return;
	p->exe.len = p->command.len = 0;
	fm_buf_bytes(&p->exe, exe.p, exe.len);
	fm_buf_bytes(&p->command, command.p, command.len);
	p->is_named = true;
	fm_recorded_process_update(r, process_idx);
}
