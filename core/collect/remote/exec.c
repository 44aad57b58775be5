// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/process/machine.h"
#include "collect/process/memory.h"
#include "collect/process/proc.h"
#include "collect/process/sandbox.h"
#include "collect/remote/parts.h"
#include "collect/remote/pending.h"
#include "collect/remote/remote.h"
#include "collect/remote/room.h"
#include "pyabi/pyabi.h"

// While some are held already others begin and end threads; who is ending takes a moment, and a
// signal of the program's own may come to a thread before ours.
#define HOLD_ROUNDS 20
#define HOLD_NAP_NS 50000l
// A thread in a system call that cannot be interrupted (a disk that does not answer) does not stop
// either: the others are not held for longer than this.
#define HOLD_NS 200000000u
#define STOP_NAP_NS 20000l
#define STUCK_ROUNDS 20
#define STUCK_NAP_NS 1000000l
#define REFUSED_ROUNDS 50
#define REFUSED_NAP_NS 10000000l
// What a script opens at one time: itself, the library, the shared memory, a folder in /proc, its
// answer; and some for other threads.
#define MIN_DESCRIPTORS 16u

struct fm_remote_exec {
	uint32_t pid;
	struct fm_remote_files *files;
	struct fm_remote *remote;
	struct fm_py_remote_exec at;
	struct fm_remote_pending pending;
	bool is_older;  // before 3.14: by a pending call
	bool is_pushed; // which is in the ring, as far as we know
	uint64_t asked; // from 3.14 on: the state that has our script; 0 = none
	uint32_t n_asked;
	uint32_t n_listed;
	bool is_stuck; // a thread could not be stopped when we last looked
	FM_VEC(uint64_t) states;
	FM_VEC(uint32_t) held, stopping;
	FM_VEC(uint64_t) held_sp;
	struct fm_remote_stacks stacks;
	bool is_withdrawing; // a request left behind would be worse than a write that ends short
	bool is_cramped;     // a thread had no room for a script when we last looked
	bool is_sandboxed;   // it has put up a filter of system calls
	bool is_without_files;
	struct fm_urgent urgent;
	int lock_fd; // /proc/PID, locked by the first of several of us that are at the same process
};

// ---- holding all threads ----

// Begins with it: while one is waited for the others stop, too.
static void begin_hold(void *ctx, uint32_t tid)
{
	struct fm_remote_exec *e = ctx;
	bool is_refused;
	e->n_listed++;
	for (size_t i = 0; i < e->held.n; i++)
		if (e->held.items[i] == tid)
			return;
	if (fm_remote_stop_begin(tid, &is_refused))
		fm_vec_push(&e->stopping, tid);
}

static void release(struct fm_remote_exec *e)
{
	for (size_t i = 0; i < e->held.n; i++)
		fm_remote_go(e->held.items[i]);
	e->held.n = e->held_sp.n = 0;
	fm_urgent_end(&e->urgent);
}

// False: some did not stop in time. They are let go when they have, and the others at once.
static bool end_hold(struct fm_remote_exec *e, uint64_t until_ns)
{
	struct fm_remote_regs regs;
	struct fm_remote_call call;
	size_t n_late = 0;
	for (size_t i = 0; i < e->stopping.n; i++) {
		uint32_t tid = e->stopping.items[i];
		while (!fm_remote_has_stopped(tid) && fm_now_ns() < until_ns)
			nanosleep(&(struct timespec){ .tv_nsec = STOP_NAP_NS }, NULL);
		if (!fm_remote_has_stopped(tid))
			e->stopping.items[n_late++] = tid;
		else if (fm_remote_stop_end(e->pid, tid, &regs, &call)) {
			fm_vec_push(&e->held, tid);
			fm_vec_push(&e->held_sp, regs.r[7]);
		}
	}
	e->stopping.n = 0;
	if (!n_late)
		return true;
	release(e);
	for (size_t i = 0; i < n_late; i++)
		if (fm_remote_stop_end(e->pid, e->stopping.items[i], &regs, &call))
			fm_remote_go(e->stopping.items[i]);
	return false;
}

static void note_stuck(void *ctx, uint32_t tid)
{
	struct fm_remote_exec *e = ctx;
	e->is_stuck |=
		fm_process_state(e->pid, tid) == 'D' || (!e->is_withdrawing && fm_remote_is_in_transfer(e->pid, tid));
}

// Mostly it is a disk, and over in a moment; then nobody is held in vain. Nor would a thread be that
// has written a part of what it wants to.
static bool can_be_held(struct fm_remote_exec *e, int task_fd)
{
	for (int i = 0; i < STUCK_ROUNDS; i++) {
		e->is_stuck = false;
		if (!fm_process_threads(task_fd, note_stuck, e))
			return false;
		if (!e->is_stuck)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = STUCK_NAP_NS }, NULL);
	}
	return false;
}

// True: none of them runs. A round in which all were held from its beginning meets all there are.
static bool hold_all(struct fm_remote_exec *e)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%u/task", e->pid);
	_cleanup_close_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || !can_be_held(e, fd))
		return false;
	fm_remote_stacks_read(&e->stacks, e->pid);
	uint64_t until_ns = fm_now_ns() + HOLD_NS;
	fm_urgent_begin(&e->urgent);
	for (int i = 0; i < HOLD_ROUNDS; i++) {
		size_t n_before = e->held.n;
		e->n_listed = 0;
		bool is_listed = fm_process_threads(fd, begin_hold, e);
		if (!end_hold(e, until_ns) || !is_listed)
			break;
		if (n_before && n_before == e->held.n && e->n_listed == n_before)
			return true;
		if (e->n_listed != e->held.n)
			nanosleep(&(struct timespec){ .tv_nsec = HOLD_NAP_NS }, NULL);
	}
	release(e);
	return false;
}

// A state of no thread, which one has left behind that ended, is in nobody's way.
static bool has_stack(const struct fm_remote_exec *e, uint64_t tid)
{
	for (size_t i = 0; i < e->held.n; i++)
		if (e->held.items[i] == tid)
			return fm_remote_stacks_has_room(&e->stacks, e->held_sp.items[i]);
	return true;
}

static bool state_has_stack(void *ctx, uint64_t state)
{
	struct fm_remote_exec *e = ctx;
	uint64_t tid;
	return fm_remote_u64(e->remote->memory, state + e->remote->python.row.ts_native_id, &tid) && has_stack(e, tid);
}

// Before 3.14: of the threads that may make the call.
static bool have_stacks(struct fm_remote_exec *e)
{
	uint32_t tid = fm_remote_pending_thread(e->remote, &e->pending);
	if (e->pending.at.is_for_main_thread)
		return tid && has_stack(e, tid);
	return fm_remote_each_state(e->remote, state_has_stack, e);
}

static void note_descriptor(void *ctx, uint32_t fd)
{
	uint32_t *n_left = ctx;
	*n_left -= *n_left > 0;
	(void)fd;
}

// A script that cannot be opened is the program's to read of, from 3.14 on: the interpreter complains
// on its standard error.
static bool has_descriptors(const struct fm_remote_exec *e)
{
	struct rlimit limit;
	char path[32];
	snprintf(path, sizeof(path), "/proc/%u/fd", e->pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || prlimit((pid_t)e->pid, RLIMIT_NOFILE, NULL, &limit) != 0)
		return true; // not known
	uint32_t n_left = (uint32_t)FM_MIN(limit.rlim_cur, (rlim_t)UINT32_MAX);
	return !fm_process_threads(fd, note_descriptor, &n_left) || n_left >= MIN_DESCRIPTORS;
}

// ---- whom to ask ----

static void note_running(struct fm_remote_exec *e, uint64_t interp)
{
	struct fm_remote *r = e->remote;
	const struct fm_py_row *row = &r->python.row;
	uint64_t state = 0, tid;
	if (!interp || !fm_remote_u64(r->memory, interp + row->interp_threads, &state))
		return;
	for (uint32_t n = 0; state && n < r->max_chain; n++) {
		if (fm_remote_u64(r->memory, state + row->ts_native_id, &tid) &&
		    fm_process_state(e->pid, (uint32_t)tid) == 'R')
			fm_vec_push(&e->states, state);
		if (!fm_remote_u64(r->memory, state + row->ts_next, &state))
			return;
	}
}

// By turns those whose threads run, and the main thread's. 0 = none.
static uint64_t choose(struct fm_remote_exec *e)
{
	uint64_t main_state = 0;
	e->states.n = 0;
	fm_remote_memory_begin(e->remote->memory, e->pid);
	uint64_t interp = fm_remote_main_interpreter(e->remote);
	note_running(e, interp);
	if (interp && fm_remote_u64(e->remote->memory, interp + e->at.interp_main_thread, &main_state) && main_state)
		fm_vec_push(&e->states, main_state);
	return e->states.n ? e->states.items[e->n_asked++ % e->states.n] : 0;
}

// ---- as a whole ----

// Another Fathom has it for some milliseconds at a time, a debugger for longer.
static bool is_refused(uint32_t pid)
{
	struct fm_remote_regs regs;
	struct fm_remote_call call;
	struct fm_urgent urgent;
	bool is_refused = true;
	for (int i = 0; i < REFUSED_ROUNDS && is_refused; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = REFUSED_NAP_NS }, NULL);
		fm_urgent_begin(&urgent);
		if (fm_remote_stop(pid, pid, &regs, &call, &is_refused))
			fm_remote_go(pid);
		fm_urgent_end(&urgent);
	}
	return is_refused;
}

enum fm_err fm_remote_exec_open(uint32_t pid, struct fm_remote_exec **ret, struct fm_diag *diag)
{
	struct fm_remote_exec *e = fm_alloc(sizeof(*e));
	uint8_t head[FM_PY_DEBUG_OFFSETS_BYTES];
	char path[32];
	uint64_t pc;
	uint32_t hexversion = 0, enabled = 0;
	enum fm_err err = FM_OK;
	e->pid = pid;
	snprintf(path, sizeof(path), "/proc/%u", pid);
	e->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool is_sole = e->lock_fd >= 0 && flock(e->lock_fd, LOCK_EX | LOCK_NB) == 0;
	e->files = fm_remote_files_create();
	e->remote = fm_remote_create(pid, e->files, NULL, 0);
	bool has_python = fm_remote_find_python(e->remote, &pc, &hexversion);
	struct fm_remote *r = e->remote;
	if (!has_python)
		err = fm_diag_set(diag, FM_E_UNSUPPORTED, "process %u has no Python that Fathom knows", pid);
	else if (!fm_remote_read(r->memory, r->python.runtime, head, sizeof(head)) ||
		 fm_pyabi_remote_exec(head, sizeof(head), &e->at)) {
		e->is_older = true;
		err = fm_remote_pending_find(r, hexversion, is_sole, &e->pending, diag);
	} else if (!fm_remote_u32(r->memory, fm_remote_main_interpreter(r) + e->at.interp_enabled, &enabled) ||
		   !enabled)
		err = fm_diag_set(diag, FM_E_REFUSED,
				  "process %u does not permit others to run code in it (PYTHON_DISABLE_REMOTE_DEBUG, "
				  "or -X disable-remote-debug); start it without",
				  pid);
	if (!err && !fm_remote_may_stop())
		err = fm_diag_set(diag, FM_E_REFUSED,
				  "ptrace is not allowed here; in a container, add the capability SYS_PTRACE");
	if (!err && is_refused(pid))
		err = fm_diag_set(diag, FM_E_REFUSED,
				  "cannot stop process %u: a debugger is attached, kernel.yama.ptrace_scope forbids "
				  "it, or the program is setuid; as root, the last two do not matter",
				  pid);
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
	fm_vec_deinit(&e->stopping);
	fm_vec_deinit(&e->held_sp);
	fm_remote_stacks_deinit(&e->stacks);
	if (e->lock_fd >= 0)
		close(e->lock_fd);
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
	return fm_process_write(e->pid, state + e->at.script_path, path, len) &&
	       fm_process_write(e->pid, state + e->at.pending_call, &one, sizeof(one)) &&
	       fm_process_write(e->pid, state + e->at.eval_breaker, &breaker, sizeof(breaker));
}

// False: it is being run, or was.
static bool take_back(struct fm_remote_exec *e)
{
	uint32_t pending = 0, none = 0;
	uint64_t at = e->asked + e->at.pending_call;
	fm_remote_memory_begin(e->remote->memory, e->pid);
	bool is_there = e->asked && fm_remote_has_state(e->remote, e->asked); // its thread may have ended
	if (is_there && (!fm_process_read(e->pid, at, &pending, sizeof(pending), NULL) || !pending ||
			 !fm_process_write(e->pid, at, &none, sizeof(none))))
		return false;
	e->asked = 0;
	return true;
}

void fm_remote_exec_done(struct fm_remote_exec *e, bool has_answered)
{
	e->asked = 0;
	if (has_answered)
		e->is_pushed = false;
	if (e->is_older && !e->is_pushed)
		fm_remote_pending_clear(e->remote, &e->pending);
}

// Before 3.14. The main thread alone makes calls up to 3.11; later any thread does, and the main
// thread is let out of its wait when none has.
static bool push(struct fm_remote_exec *e, const char *path)
{
	bool wakes = e->pending.at.is_for_main_thread || e->n_asked > 0;
	e->n_asked++;
	if (wakes)
		fm_remote_pending_prepare(e->remote, &e->pending);
	if (!hold_all(e))
		return false;
	if (e->is_pushed)
		e->is_pushed = !fm_remote_pending_take_back(e->remote, &e->pending);
	fm_remote_memory_begin(e->remote->memory, e->pid);
	e->is_sandboxed = fm_process_is_sandboxed(e->pid);
	e->is_without_files = !has_descriptors(e);
	e->is_cramped = !have_stacks(e) || !fm_remote_has_depth(e->remote, &e->pending);
	bool is_asked = !e->is_pushed && !e->is_sandboxed && !e->is_cramped && !e->is_without_files &&
			fm_remote_pending_push(e->remote, &e->pending, path);
	e->is_pushed |= is_asked;
	if (is_asked && wakes)
		fm_remote_pending_wake_main_thread(e->remote, &e->pending);
	release(e);
	return is_asked;
}

bool fm_remote_exec_withdraw(struct fm_remote_exec *e)
{
	if (!e->asked && !e->is_pushed)
		return true;
	e->is_withdrawing = true;
	bool is_held = hold_all(e);
	e->is_withdrawing = false;
	if (!is_held)
		return false;
	if (e->is_pushed)
		e->is_pushed = !fm_remote_pending_take_back(e->remote, &e->pending);
	bool is_taken = e->is_older ? !e->is_pushed : take_back(e);
	release(e);
	return is_taken;
}

bool fm_remote_exec_is_stuck(const struct fm_remote_exec *e)
{
	return e->is_stuck;
}

bool fm_remote_exec_is_cramped(const struct fm_remote_exec *e)
{
	return e->is_cramped;
}

bool fm_remote_exec_is_without_files(const struct fm_remote_exec *e)
{
	return e->is_without_files;
}

bool fm_remote_exec_is_sandboxed(const struct fm_remote_exec *e)
{
	return e->is_sandboxed;
}

bool fm_remote_exec_is_by_pending_call(const struct fm_remote_exec *e)
{
	return e->is_older;
}

uint32_t fm_remote_exec_lines(const struct fm_remote_exec *e, const char *path, char *to, uint32_t cap)
{
	return e->is_older ? 0 : fm_remote_pending_lines(path, to, cap);
}

bool fm_remote_exec_ask(struct fm_remote_exec *e, const char *path)
{
	if (e->is_older)
		return push(e, path);
	size_t len = strlen(path) + 1;
	uint64_t state = choose(e);
	if (len > e->at.script_path_size || !state || !hold_all(e))
		return false;
	fm_remote_memory_begin(e->remote->memory, e->pid);
	e->is_sandboxed = fm_process_is_sandboxed(e->pid);
	e->is_without_files = !has_descriptors(e);
	bool is_asked = take_back(e) && !e->is_sandboxed && !e->is_without_files && !is_ending(e) &&
			fm_remote_has_state(e->remote, state);
	e->is_cramped = is_asked && !state_has_stack(e, state);
	is_asked = is_asked && !e->is_cramped && write_script(e, state, path, len);
	if (is_asked)
		e->asked = state;
	release(e);
	return is_asked;
}
