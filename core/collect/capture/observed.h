// SPDX-License-Identifier: Apache-2.0
// Which processes an attached capture observes: those that were named, and what they start, from
// now on. No agent is in them: the collector enters them in the registry itself.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "collect/ingest/recorder.h"
#include "collect/registry/registry.h"

struct observed_process {
	uint32_t pid, idx; // idx: in the registry
	uint64_t stack;    // where its first stack begins: another one after an exec
	bool is_named;     // by the caller: the capture lasts as long as one of these
	bool is_over;
	uint8_t n_tries; // to find an interpreter
};

struct fm_observed {
	struct fm_registry *registry;
	struct fm_recorder *recorder;
	FM_VEC(struct observed_process) processes; // also some that have ended
	FM_VEC(uint32_t) refused;                  // descendants that may not be looked at
	bool is_full;                              // there are more than the registry has room for
	uint64_t looked_ns;
};

void fm_observed_deinit(struct fm_observed *o); // a zeroed one is fine

// Whether the process is there and may be looked at.
FM_MUST_CHECK enum fm_err fm_observed_check(uint32_t pid, struct fm_diag *diag);
// Whether threads of it that run may be held, too.
FM_MUST_CHECK enum fm_err fm_observed_check_hold(uint32_t pid, struct fm_diag *diag);

void fm_observed_enter(struct fm_observed *o, uint32_t pid, uint64_t now_ns);
// Takes up what the processes have started or become since, now and then; with is_first at once.
void fm_observed_follow(struct fm_observed *o, uint64_t now_ns, bool children, bool is_first);
// How many of the named ones run.
size_t fm_observed_n_alive(struct fm_observed *o);
