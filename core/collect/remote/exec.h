// SPDX-License-Identifier: Apache-2.0
// A script that a thread of another process's Python runs, at a moment that its interpreter finds
// safe: what sys.remote_exec() does (CPython 3.14 and later), or a pending call (before;
// collect/remote/pending.h). Nothing of ours is called in the process by force; its threads are held
// for the moment in which some words of it are changed.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct fm_remote_exec;
// FM_E_UNSUPPORTED, FM_E_REFUSED: in diag stands why it cannot be had in this process.
FM_MUST_CHECK enum fm_err fm_remote_exec_open(uint32_t pid, struct fm_remote_exec **ret, struct fm_diag *diag);
void fm_remote_exec_close(struct fm_remote_exec *e); // NULL is fine

// Before 3.14; later the interpreter offers it itself.
bool fm_remote_exec_is_by_pending_call(const struct fm_remote_exec *e);
// What the file has to hold that is left to a thread, in order to run the script at this path: a few
// lines (3.14 and later). Their length; 0 = nothing, the script itself is left.
uint32_t fm_remote_exec_lines(const struct fm_remote_exec *e, const char *path, char *to, uint32_t cap);
// Leaves the script at this path to a thread: at first to one that runs, then to others by turns, as
// one that sleeps runs no script. Whoever was asked before no longer is. False: not now, or somebody
// has begun with it.
bool fm_remote_exec_ask(struct fm_remote_exec *e, const char *path);
// It could not be held, and so not be asked: a thread is in a system call that nothing interrupts.
bool fm_remote_exec_is_stuck(const struct fm_remote_exec *e);
// It could be held, but a thread had no room for the script: a small stack, or a depth close to its
// recursion limit.
bool fm_remote_exec_is_cramped(const struct fm_remote_exec *e);
// It could be held, but has fewer file descriptors left than the script opens.
bool fm_remote_exec_is_without_files(const struct fm_remote_exec *e);
// It has put up a filter of system calls meanwhile, which the script's could end it by: it is asked
// no more.
bool fm_remote_exec_is_sandboxed(const struct fm_remote_exec *e);
// No more is asked of it. has_answered: it is through with the script. If it is not, and the request
// could not be taken back, what it may still read stays there.
void fm_remote_exec_done(struct fm_remote_exec *e, bool has_answered);
// Takes back what was asked. False: somebody has begun with it.
bool fm_remote_exec_withdraw(struct fm_remote_exec *e);
