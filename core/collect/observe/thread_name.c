// SPDX-License-Identifier: Apache-2.0
// What a thread is called. One that was given a name by the system's means (prctl,
// pthread_setname_np; Python itself does so from 3.14 on) has that. Others are born with the name
// of the thread that made them: there Python's own name tells more.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collect/process/proc.h"
#include "collect/observe/waiting_parts.h"

#define COMM_BYTES 16 // TASK_COMM_LEN

static bool read_comm(uint32_t pid, uint32_t tid, char ret[static COMM_BYTES])
{
	char name[32], text[COMM_BYTES + 1]; // with a line feed for its zero
	snprintf(name, sizeof(name), "task/%u/comm", tid);
	size_t n = fm_process_read_proc(pid, name, text, sizeof(text));
	while (n && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	memcpy(ret, text, COMM_BYTES);
	return n > 0;
}

static bool is_inherited(struct wait_process *p, uint32_t tid, const char *comm)
{
	char now[COMM_BYTES];
	if (tid == p->pid || !read_comm(p->pid, p->pid, now))
		return false;
	if (!p->first_name[0])
		memcpy(p->first_name, now, sizeof(now));
	return !strcmp(comm, now) || !strcmp(comm, p->first_name);
}

// The kernel calls a first thread as the program's file. A program that calls itself otherwise says
// more by that.
static bool is_programs(uint32_t pid, const char *comm)
{
	char path[32], exe[4096];
	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	ssize_t n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	const char *base = strrchr(exe, '/'); // a process that has ended has none: it keeps its name
	return !base || !strncmp(comm, "python", 6) || !strncmp(base + 1, comm, strlen(comm));
}

static bool set_name(char *name, const char *text)
{
	if (!strcmp(name, text))
		return false;
	snprintf(name, FM_THREAD_NAME_BYTES, "%s", text);
	return true;
}

bool fm_wait_thread_name(struct wait_process *p, uint32_t tid, uint32_t own_tid, uint64_t since_ns, char *name)
{
	char comm[COMM_BYTES];
	if (!read_comm(p->pid, tid, comm)) { // it is gone; the list may be from before
		const char *was = fm_remote_thread_name(p->remote, own_tid, since_ns);
		return was && tid != p->pid && (!name[0] || !strcmp(name, p->first_name)) && set_name(name, was);
	}
	bool has_room = strlen(comm) < COMM_BYTES - 1;
	bool is_born_with = tid == p->pid ? is_programs(p->pid, comm) : is_inherited(p, tid, comm);
	if (has_room && !is_born_with)
		return set_name(name, comm);
	const char *python = fm_remote_thread_name(p->remote, own_tid, since_ns);
	if (python && (is_born_with || !strncmp(python, comm, strlen(comm)))) // or the beginning of what Python says
		return set_name(name, python);
	// A thread that is about to end is no longer in Python's list: it keeps the name it had.
	return is_born_with && name[0] ? false : set_name(name, comm);
}

bool fm_wait_observe_name(void *self, uint32_t process_idx, uint32_t pid, uint32_t tid, uint64_t since_ns, char *name)
{
	struct fm_waiting *w = self;
	char comm[COMM_BYTES];
	for (size_t i = 0; i < w->processes.n; i++) {
		struct wait_process *p = &w->processes.items[i];
		if (p->process_idx != process_idx || p->pid != pid)
			continue;
		struct fm_registered now;
		if (fm_registry_read(w->registry, process_idx, &now) && now.said.python == FM_WIRE_PYTHON_KNOWN)
			fm_remote_set_python(p->remote, now.said.python_pc, now.said.python_version);
		return fm_wait_thread_name(p, tid, p->is_contained ? fm_process_own_pid(tid) : tid, since_ns, name);
	}
	return read_comm(pid, tid, comm) && set_name(name, comm);
}

const char *fm_wait_observe_process_name(void *self, uint32_t process_idx)
{
	struct fm_waiting *w = self;
	for (size_t i = 0; i < w->processes.n; i++) {
		struct wait_process *p = &w->processes.items[i];
		struct fm_registered now;
		if (p->process_idx != process_idx || !fm_registry_read(w->registry, process_idx, &now) ||
		    now.said.python != FM_WIRE_PYTHON_KNOWN)
			continue;
		fm_remote_set_python(p->remote, now.said.python_pc, now.said.python_version);
		const char *name = fm_remote_process_name(p->remote);
		return name ? name : "";
	}
	return NULL;
}
