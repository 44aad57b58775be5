// SPDX-License-Identifier: Apache-2.0
// The ring of calls that another process's Python is left to make, before 3.14 (pyabi/pending.h).
// To read it once may meet it in the middle of a change; is_free, add and take_out want all threads
// of the process held.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fm_remote;
struct fm_remote_pending;

struct fm_remote_ring {
	uint64_t at; // the structure that offsets count from
	uint32_t first, last, to_do;
};

// False: it cannot be one.
bool fm_remote_ring_read(struct fm_remote *r, const struct fm_remote_pending *p, struct fm_remote_ring *ret);
// False: a thread that was stopped right there has its lock.
bool fm_remote_ring_is_free(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring);
// The call of p->function with p->room. False: there is no place.
bool fm_remote_ring_add(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring);
// False: it is not there.
bool fm_remote_ring_take_out(struct fm_remote *r, const struct fm_remote_pending *p, const struct fm_remote_ring *ring);
