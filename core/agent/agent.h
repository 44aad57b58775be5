// SPDX-License-Identifier: Apache-2.0
// The agent inside the target: what is not signal-time. It never exits, prints, blocks or starts
// threads; when something cannot be done it stays inert, and the collector's report says so.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// start.c: maps the shared memory at ring_path and enters this process. False: it stays inert.
bool fm_agent_start(const char *ring_path);

// late.c: a capture of a part of a running program, which the program itself asks for (module.c).
// Called with the GIL held, one at a time. NULL when it has begun, else one sentence that says why
// not.
const char *fm_agent_late_start(const char *ring_path);
void fm_agent_late_stop(void);  // no sample begins after this; what was taken is in the rings
void fm_agent_late_leave(void); // the collector has ended: signals are the program's again
// The collector need not be an ancestor of this process: where the kernel asks (Yama), it may look
// into it all the same.
void fm_agent_let_look(const char *ring_path);
// start.c: fm_sig_elf_symbol() of an image that stays where it is meanwhile: not at signal time,
// under the loader's lock or at the program's start. It is read as it is; the kernel, which reads
// for those who cannot be sure, may refuse to (seccomp), and nothing is found then.
uintptr_t fm_agent_symbol(uintptr_t start, uintptr_t end, uintptr_t bias, const char *name, uint64_t *ret_size);
// start.c: the table of images as it is now, where libc has none (sigsafe/unwind/loaded.h). Not at
// signal time.
void fm_agent_images_refill(void);
// start.c: says where this library lies; known from its constructor on.
void fm_agent_find_self(void);
// start.c: private memory that a forked child gets back as zeros: it claims its own slots and tells
// its own definitions.
void *fm_agent_map_private(size_t size);
// The same memory for the next capture of this process, back to zeros; new memory when have is
// NULL.
void *fm_agent_map_or_clear(void *have, size_t size);

// engine.c: the signal handler and, for the perf engine, the event. Called with the shared memory
// mapped.
void fm_agent_engine_start(void);
void fm_agent_engine_forget(void); // in a forked child: the event that came with it counts the parent
bool fm_agent_is_handler(void (*handler)(int, siginfo_t *, void *)); // one of ours
// Which signal ticks are to come by: one that the program does not handle itself, if there is one.
void fm_agent_choose_tick_signal(void);
// Puts our handler in front of what the program wants done with a fault (SIGSEGV, SIGBUS), which
// may just have changed.
void fm_agent_install_fault(int sig);

// eval_parts.c: where the evaluator's cold part lies (3.8 and 3.9 only).
void fm_agent_find_eval_parts(const char *path, uintptr_t bias);

// interpose.c: libc functions that the agent must see. The real ones, for the agent's own use.
int fm_agent_real_sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int fm_agent_real_dlclose(void *handle);

// exec.c: what leads programs that this one starts to the capture reaches them whatever environment
// they are given. resolve: finds the functions that ours stand in front of. start: from now on,
// when we are preloaded and children are to be followed. follow: Pythons find those start-up files
// from now on, "" for none; false when the path is too long.
void fm_agent_exec_resolve(void);
void fm_agent_exec_start(void);
bool fm_agent_exec_follow(const char *startup_folder);
bool fm_agent_exec_is_followed(void);
// What this process starts from now on is not led to us any more.
void fm_agent_exec_leave(void);
#define FM_AGENT_PATH_BYTES 4096
// Where the environment leads Pythons to: the folder of our start-up files. False: nowhere.
bool fm_agent_find_startup(char ret[static FM_AGENT_PATH_BYTES]);

// sandbox.c: a filter of system calls is about to stand, so this process leaves the capture.
void fm_agent_sandbox_enter(void);
// True for a prctl() that ends a program for a system call or an instruction of ours.
bool fm_agent_is_shut_in(long option, unsigned long how);

// x86_syscall.c; on other CPUs nothing stands in front of syscall().
extern long fm_agent_syscall(long number, ...) __attribute__((visibility("hidden")));
// Finds what it stands in front of, once it is known where libc lies.
void fm_agent_syscall_resolve(void);

// isolated.c: true when a Python with these arguments does not look for start-up files where its
// environment says.
bool fm_agent_is_isolated(char *const argv[]);
// In such a Python, which is about to start: the agent will run them.
void fm_agent_isolated_start(char *const argv[]);
// From where a program sets its signals up, as fm_agent_memory_check_python().
void fm_agent_isolated_check(void);

// frame_tables.c: in a forked child, says again what its parent had registered.
void fm_agent_frame_tables_inherit(uint32_t parent_idx);

// From now on the signal is ours, and what the program has set is kept for it
// (sigsafe/tick/handlers.h).
void fm_agent_hold_signal(int sig);
void fm_agent_release_signal(int sig); // as the program wants it, from now on without us
// late.c: all of them that ticks and faults came by, once no tick is under way.
void fm_agent_give_signals_back(void);
// The program's handlers that are there already return through us, as those do that it sets later
// when we are preloaded; or no longer.
void fm_agent_wrap_handlers(bool is_on);
