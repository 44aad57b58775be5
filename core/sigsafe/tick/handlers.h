// SPDX-License-Identifier: Apache-2.0
// The signal handlers of the agent, and what the program wants done with the signals that they
// hold. The rest of the agent installs them (agent/engine.c) and answers the program's own calls
// about these signals (agent/interpose.c).
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

// The program's own disposition of a signal that we hold. Written under the program's own calls,
// read at signal time; a reader must not see half of it, so each is one of two copies and `current`
// says which.
struct fm_sig_held {
	_Atomic int is_held;
	_Atomic unsigned current;
	struct sigaction copies[2];
};
extern struct fm_sig_held fm_sig_held[NSIG];

static inline bool fm_sig_is_held(int sig)
{
	return sig > 0 && sig < NSIG && atomic_load_explicit(&fm_sig_held[sig].is_held, memory_order_acquire);
}

static inline bool fm_sig_is_default_or_ignored(const struct sigaction *act)
{
	return act->sa_handler == SIG_DFL || act->sa_handler == SIG_IGN;
}

// What the program wants done from now on.
void fm_sig_held_set(struct fm_sig_held *h, const struct sigaction *act);

// The program has a handler of its own for a signal that we hold.
bool fm_sig_has_theirs(int sig);

static inline bool fm_sig_is_tick_signal(int sig)
{
	return sig == FM_TICK_SIGNAL || sig == FM_OTHER_TICK_SIGNAL;
}

// The program's handlers of other signals, which return through fm_sig_on_theirs().
extern _Atomic(void *) fm_sig_theirs[NSIG];
// Those whose mask has got our tick in addition: they run on a signal stack of the program's, which
// has room for them, and for no signal frame more.
extern _Atomic bool fm_sig_theirs_wait[NSIG];

// For the thread that opened the perf engine's event (fm_sig_quiet.perf_fd): each of its samples
// sets when the next one is due.
struct fm_sig_perf {
	struct fm_wire_slot *slot; // of that thread
	uint64_t random;
};
extern struct fm_sig_perf fm_sig_perf;

// What the perf event hands to its signals (sig_data): a program may have such events, too.
#define FM_SIG_PERF_MARK 0x6d6f68746166u

// True for a signal that was raised to take a sample: the program must not see it. Ours come from
// the collector by tgkill, or from the kernel for the perf event; anybody else's belong to the
// program.
bool fm_sig_is_ours(const siginfo_t *info);

void fm_sig_on_tick(int sig, siginfo_t *info, void *context);   // of the ticker
void fm_sig_on_trap(int sig, siginfo_t *info, void *context);   // of the perf engine
void fm_sig_on_fault(int sig, siginfo_t *info, void *context);  // SIGSEGV, SIGBUS (fault.h)
void fm_sig_on_theirs(int sig, siginfo_t *info, void *context); // around a handler of the program
