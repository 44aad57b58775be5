// SPDX-License-Identifier: Apache-2.0
#include "collect/capture/observed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/process/proc.h"
#include "collect/remote/remote.h"

// Asking for children takes some microseconds for each process.
#define FOLLOW_NS 250000000u
// A program that loads an interpreter does so in its first seconds.
#define MAX_TRIES 20u
#define MAX_COMMAND_BYTES 65536u

#define CONTAINER_REMEDY "docker run --cap-add=SYS_PTRACE, in Kubernetes securityContext.capabilities.add: [SYS_PTRACE]"

void fm_observed_deinit(struct fm_observed *o)
{
	fm_vec_deinit(&o->processes);
	fm_vec_deinit(&o->refused);
}

// ---- what is permitted ----

enum fm_err fm_observed_check(uint32_t pid, struct fm_diag *diag)
{
	char path[64], text[8];
	snprintf(path, sizeof(path), "/proc/%u/task/%u/syscall", pid, pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "there is no process %u", pid);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (n >= 0 && fm_process_is_over(pidfd, pid))
		return fm_diag_set(diag, FM_E_NOT_FOUND,
				   "process %u is a zombie: it has exited and its parent has not waited for it", pid);
	if (n > 0)
		return FM_OK;
	if (geteuid() == 0)
		return fm_diag_set(diag, FM_E_REFUSED,
				   "cannot read process %u: %s; this root lacks CAP_SYS_PTRACE: " CONTAINER_REMEDY, pid,
				   strerror(errno));
	return fm_diag_set(diag, FM_E_REFUSED,
			   "cannot read process %u: %s; run as its user with kernel.yama.ptrace_scope=0, or as root",
			   pid, strerror(errno));
}

static uint32_t tracer_of(uint32_t pid)
{
	char text[4096];
	unsigned tracer = 0;
	fm_process_read_proc(pid, "status", text, sizeof(text));
	const char *line = strstr(text, "\nTracerPid:");
	return line && sscanf(line + 11, "%u", &tracer) == 1 ? tracer : 0;
}

enum fm_err fm_observed_check_hold(uint32_t pid, struct fm_diag *diag)
{
	uint32_t tracer = tracer_of(pid);
	if (tracer)
		return fm_diag_set(diag, FM_E_REFUSED,
				   "process %u is traced by process %u, a debugger or strace, so its running threads "
				   "cannot be read; end that process, or see only waiting threads with --nonblocking",
				   pid, tracer);
	if (!fm_remote_may_stop())
		return fm_diag_set(
			diag, FM_E_REFUSED,
			"running threads cannot be read: a seccomp filter forbids ptrace here; " CONTAINER_REMEDY
			"; or see only waiting threads with --nonblocking");
	return FM_OK;
}

// ---- taking up a process ----

static void find_python(struct fm_observed *o, struct observed_process *p)
{
	struct fm_remote_files *files = fm_remote_files_create();
	struct fm_remote *remote = fm_remote_create(p->pid, files, NULL, 0);
	uint64_t pc;
	uint32_t hexversion;
	p->n_tries++;
	if (fm_remote_find_python(remote, &pc, &hexversion)) {
		p->n_tries = MAX_TRIES;
		fm_registry_set_python(o->registry, p->idx, pc, hexversion, fm_remote_is_free_threaded(remote));
	}
	fm_remote_destroy(remote);
	fm_remote_files_destroy(files);
}

static void tell_command(struct fm_observed *o, const struct observed_process *p)
{
	static char command[MAX_COMMAND_BYTES];
	char path[64], exe[4096];
	snprintf(path, sizeof(path), "/proc/%u/exe", p->pid);
	ssize_t exe_len = readlink(path, exe, sizeof(exe));
	size_t len = fm_process_read_proc(p->pid, "cmdline", command, sizeof(command));
	while (len && command[len - 1] == 0)
		len--;
	fm_recorder_describe(o->recorder, p->idx, (struct fm_str){ exe, exe_len > 0 ? (uint32_t)exe_len : 0 },
			     (struct fm_str){ command, (uint32_t)len });
}

static bool take_up(struct fm_observed *o, struct observed_process *p, uint64_t now_ns)
{
	p->idx = fm_registry_enter(o->registry, p->pid, fm_process_parent(p->pid), now_ns);
	if (p->idx == FM_WIRE_N_PROCESSES) {
		o->is_full = true;
		return false;
	}
	p->stack = fm_process_stat(p->pid, FM_STAT_STACK_START);
	p->n_tries = 0;
	find_python(o, p);
	tell_command(o, p);
	return true;
}

void fm_observed_enter(struct fm_observed *o, uint32_t pid, uint64_t now_ns)
{
	for (size_t i = 0; i < o->processes.n; i++)
		if (o->processes.items[i].pid == pid && !o->processes.items[i].is_over) {
			o->processes.items[i].is_named = true;
			return;
		}
	struct observed_process p = { .pid = pid, .is_named = true };
	if (take_up(o, &p, now_ns))
		fm_vec_push(&o->processes, p);
}

// ---- following ----

struct family {
	struct fm_observed *o;
	uint64_t now_ns;
};

static void take_child(void *ctx, uint32_t pid)
{
	struct family *f = ctx;
	struct fm_observed *o = f->o;
	for (size_t i = 0; i < o->processes.n; i++)
		if (o->processes.items[i].pid == pid && !o->processes.items[i].is_over)
			return;
	for (size_t i = 0; i < o->refused.n; i++)
		if (o->refused.items[i] == pid)
			return;
	struct observed_process p = { .pid = pid };
	enum fm_err err = pid == (uint32_t)getpid() ? FM_E_NOT_FOUND : fm_observed_check(pid, NULL);
	if (err == FM_E_REFUSED)
		fm_vec_push(&o->refused, pid);
	else if (!err && take_up(o, &p, f->now_ns))
		fm_vec_push(&o->processes, p);
}

static bool is_over(const struct fm_observed *o, const struct observed_process *p)
{
	struct fm_registered now;
	return !fm_registry_read(o->registry, p->idx, &now) || now.pid != p->pid;
}

void fm_observed_follow(struct fm_observed *o, uint64_t now_ns, bool children, bool is_first)
{
	if (!is_first && now_ns - o->looked_ns < FOLLOW_NS)
		return;
	o->looked_ns = now_ns;
	struct family family = { o, now_ns };
	for (size_t i = 0; i < o->processes.n; i++) { // those that are found on the way are asked, too
		struct observed_process *p = &o->processes.items[i];
		p->is_over = p->is_over || is_over(o, p);
		if (p->is_over)
			continue;
		uint64_t stack = fm_process_stat(p->pid, FM_STAT_STACK_START);
		if (stack && stack != p->stack) // after an exec it is another program, of the same number
			p->is_over = !take_up(o, p, now_ns);
		else if (p->n_tries < MAX_TRIES)
			find_python(o, p);
		if (children)
			fm_process_children(o->processes.items[i].pid, take_child, &family);
	}
	size_t kept = 0;
	for (size_t i = 0; i < o->processes.n; i++)
		if (!o->processes.items[i].is_over || o->processes.items[i].is_named)
			o->processes.items[kept++] = o->processes.items[i];
	o->processes.n = kept;
}

size_t fm_observed_n_alive(struct fm_observed *o)
{
	size_t n = 0;
	for (size_t i = 0; i < o->processes.n; i++) {
		struct observed_process *p = &o->processes.items[i];
		p->is_over = p->is_over || is_over(o, p);
		n += p->is_named && !p->is_over;
	}
	return n;
}
