// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/process/memory.h"
#include "collect/process/proc.h"
#include "collect/remote/parts.h"
#include "collect/remote/remote.h"
#include "pyabi/pyabi.h"

// A signal of the program's own may come before ours; the thread is asked again.
#define HOLD_TRIES 3

struct fm_remote_exec {
	uint32_t pid;
	struct fm_remote_files *files;
	struct fm_remote *remote;
	struct fm_py_remote_exec at;
	uint64_t asked; // the state that has our script; 0 = none
	uint32_t n_asked;
	FM_VEC(uint64_t) states;
	FM_VEC(uint32_t) held;
};

static bool write_memory(uint32_t pid, uint64_t addr, const void *from, size_t len)
{
	struct iovec local = { (void *)(uintptr_t)from, len }, remote = { (void *)(uintptr_t)addr, len };
	return process_vm_writev((pid_t)pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

// ---- holding all threads ----

static void hold(void *ctx, uint32_t tid)
{
	struct fm_remote_exec *e = ctx;
	struct fm_remote_regs regs;
	struct fm_remote_call call;
	bool is_refused = false;
	for (size_t i = 0; i < e->held.n; i++)
		if (e->held.items[i] == tid)
			return;
	for (int i = 0; i < HOLD_TRIES && !is_refused; i++)
		if (fm_remote_stop(tid, &regs, &call, &is_refused)) {
			fm_vec_push(&e->held, tid);
			return;
		}
}

static void release(struct fm_remote_exec *e)
{
	for (size_t i = 0; i < e->held.n; i++)
		fm_remote_go(e->held.items[i]);
	e->held.n = 0;
}

static void count(void *ctx, uint32_t tid)
{
	(void)tid;
	++*(size_t *)ctx;
}

// True: none of them runs. Threads that are born meanwhile are met in a second round.
static bool hold_all(struct fm_remote_exec *e)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%u/task", e->pid);
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t n = 0;
	if (fd < 0 || !fm_process_threads(fd, hold, e) || !fm_process_threads(fd, hold, e) ||
	    !fm_process_threads(fd, count, &n) || n != e->held.n) {
		release(e);
		return false;
	}
	return true;
}

// ---- whom to ask ----

// The first interpreter, which is the last of the list. 0 = none.
static uint64_t main_interpreter(struct fm_remote *r)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t interp = 0, next = 0;
	if (!fm_remote_u64(r->memory, r->python.runtime + row->runtime_interpreters, &next))
		return 0;
	for (uint32_t n = 0; next && n < r->max_chain; n++) {
		interp = next;
		if (!fm_remote_u64(r->memory, interp + row->interp_next, &next))
			return 0;
	}
	return interp;
}

// Calls each() for the thread states of the first interpreter until it says true. False: nobody did.
static bool find_state(struct fm_remote_exec *e, bool (*each)(struct fm_remote_exec *, uint64_t, uint64_t),
		       uint64_t wanted)
{
	struct fm_remote *r = e->remote;
	const struct fm_py_row *row = &r->python.row;
	fm_remote_memory_begin(r->memory, e->pid);
	uint64_t interp = main_interpreter(r), state = 0;
	if (!interp || !fm_remote_u64(r->memory, interp + row->interp_threads, &state))
		return false;
	for (uint32_t n = 0; state && n < r->max_chain; n++) {
		if (each(e, state, wanted))
			return true;
		if (!fm_remote_u64(r->memory, state + row->ts_next, &state))
			return false;
	}
	return false;
}

static bool is_wanted(struct fm_remote_exec *e, uint64_t state, uint64_t wanted)
{
	(void)e;
	return state == wanted;
}

static bool note_running(struct fm_remote_exec *e, uint64_t state, uint64_t unused)
{
	uint64_t tid;
	(void)unused;
	if (fm_remote_u64(e->remote->memory, state + e->remote->python.row.ts_native_id, &tid) &&
	    fm_process_state(e->pid, (uint32_t)tid) == 'R')
		fm_vec_push(&e->states, state);
	return false;
}

// By turns those whose threads run, and the main thread's. 0 = none.
static uint64_t choose(struct fm_remote_exec *e)
{
	uint64_t main_state = 0;
	e->states.n = 0;
	find_state(e, note_running, 0);
	uint64_t interp = main_interpreter(e->remote);
	if (interp && fm_remote_u64(e->remote->memory, interp + e->at.interp_main_thread, &main_state) && main_state)
		fm_vec_push(&e->states, main_state);
	return e->states.n ? e->states.items[e->n_asked++ % e->states.n] : 0;
}

// ---- as a whole ----

enum fm_err fm_remote_exec_open(uint32_t pid, struct fm_remote_exec **ret, struct fm_diag *diag)
{
	struct fm_remote_exec *e = fm_alloc(sizeof(*e));
	uint8_t head[FM_PY_DEBUG_OFFSETS_BYTES];
	uint64_t pc;
	uint32_t hexversion = 0, enabled = 0;
	enum fm_err err = FM_OK;
	e->pid = pid;
	e->files = fm_remote_files_create();
	e->remote = fm_remote_create(pid, e->files, NULL, 0);
	bool has_python = fm_remote_find_python(e->remote, &pc, &hexversion);
	struct fm_remote *r = e->remote;
	if (!has_python)
		err = fm_diag_set(diag, FM_E_UNSUPPORTED, "no Python that Fathom knows was found in process %u", pid);
	else if (!fm_remote_read(r->memory, r->python.runtime, head, sizeof(head)) ||
		 fm_pyabi_remote_exec(head, sizeof(head), &e->at))
		err = fm_diag_set(diag, FM_E_UNSUPPORTED,
				  "the agent can be loaded into a running program from Python 3.14 on, and process %u "
				  "runs %u.%u; without --memory, --trace and --inject it is observed from outside",
				  pid, hexversion >> 24, hexversion >> 16 & 0xff);
	else if (!fm_remote_u32(r->memory, main_interpreter(r) + e->at.interp_enabled, &enabled) || !enabled)
		err = fm_diag_set(diag, FM_E_REFUSED,
				  "process %u does not let others run code in it (PYTHON_DISABLE_REMOTE_DEBUG, or -X "
				  "disable-remote-debug); start it without",
				  pid);
	else if (!fm_remote_may_stop())
		err = fm_diag_set(diag, FM_E_REFUSED,
				  "ptrace is not allowed here; in a container, add the capability SYS_PTRACE");
	if (err)
		fm_remote_exec_close(e);
	else
		*ret = e;
	return err;
}

void fm_remote_exec_close(struct fm_remote_exec *e)
{
	if (!e)
		return;
	fm_remote_destroy(e->remote);
	fm_remote_files_destroy(e->files);
	fm_vec_deinit(&e->states);
	fm_vec_deinit(&e->held);
	free(e);
}

// An interpreter that ends would run the script, and complain that it cannot.
static bool is_ending(struct fm_remote_exec *e)
{
	uint64_t thread = 0;
	return !fm_process_read(e->pid, e->remote->python.runtime + e->at.runtime_finalizing, &thread, sizeof(thread),
				NULL) ||
	       thread;
}

// What follows is done while no thread runs: a state whose thread has ended is not written to, and
// nobody changes the word between our read and our write.

static bool write_script(struct fm_remote_exec *e, uint64_t state, const char *path, size_t len)
{
	uint32_t one = 1;
	uint64_t breaker;
	if (!fm_process_read(e->pid, state + e->at.eval_breaker, &breaker, sizeof(breaker), NULL))
		return false;
	breaker |= FM_PY_PLEASE_STOP;
	return write_memory(e->pid, state + e->at.script_path, path, len) &&
	       write_memory(e->pid, state + e->at.pending_call, &one, sizeof(one)) &&
	       write_memory(e->pid, state + e->at.eval_breaker, &breaker, sizeof(breaker));
}

// False: it is being run, or was.
static bool take_back(struct fm_remote_exec *e)
{
	uint32_t pending = 0, none = 0;
	uint64_t at = e->asked + e->at.pending_call;
	bool is_there = e->asked && find_state(e, is_wanted, e->asked); // its thread may have ended
	if (is_there && (!fm_process_read(e->pid, at, &pending, sizeof(pending), NULL) || !pending ||
			 !write_memory(e->pid, at, &none, sizeof(none))))
		return false;
	e->asked = 0;
	return true;
}

void fm_remote_exec_done(struct fm_remote_exec *e)
{
	e->asked = 0;
}

bool fm_remote_exec_withdraw(struct fm_remote_exec *e)
{
	if (!e->asked)
		return true;
	if (!hold_all(e))
		return false;
	bool is_taken = take_back(e);
	release(e);
	return is_taken;
}

bool fm_remote_exec_ask(struct fm_remote_exec *e, const char *path)
{
	size_t len = strlen(path) + 1;
	uint64_t state = choose(e);
	if (len > e->at.script_path_size || !state || !hold_all(e))
		return false;
	bool is_asked =
		take_back(e) && !is_ending(e) && find_state(e, is_wanted, state) && write_script(e, state, path, len);
	if (is_asked)
		e->asked = state;
	release(e);
	return is_asked;
}
