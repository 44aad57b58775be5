// The agent inside the target: what is not signal-time. It never exits, prints, blocks or starts threads; when something
// cannot be done it stays inert, and the collector's report says so.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// engine.c: the signal handler and, for the perf engine, the event. Called with the shared memory mapped.
void fm_agent_engine_start(void);
// True for a signal that was raised to take a sample: the program must not see it.
bool fm_agent_signal_is_ours(const siginfo_t *info);

// start.c: joins the capture whose shared memory lies at path, as the environment does for a preloaded agent. NULL when that
// went well, else why not. A capture that was left before is forgotten.
const char *fm_agent_join_late(const char *path);
// Says that this process takes no more part. The memory stays mapped: other threads may be using it this moment.
void fm_agent_leave(void);
// Private memory that a forked child gets back as zeros.
void *fm_agent_map_private(size_t size);

// eval_parts.c: where the evaluator's cold part lies (3.8 and 3.9 only).
void fm_agent_find_eval_parts(const char *path, uintptr_t bias);

// interpose.c: libc functions that the agent must see. The real ones, for the agent's own use.
int fm_agent_real_sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int fm_agent_real_dlclose(void *handle);

// frame_tables.c: in a forked child, says again what its parent had registered.
void fm_agent_frame_tables_inherit(uint32_t parent_idx);

// What the program believes its disposition of our signal to be. True when sig is one the agent holds.
bool fm_agent_signal_is_held(int sig);
void fm_agent_hold_signal(int sig);
// Acts as the program's own disposition would: calls its handler, or does what the default does.
void fm_agent_chain_signal(int sig, siginfo_t *info, void *context);
