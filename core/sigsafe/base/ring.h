// SPDX-License-Identifier: Apache-2.0
// The calling thread's ring: reserve, fill, commit. One writer, at signal time (or with signals
// blocked).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sigsafe/base/state.h"

// Room for a record of size bytes (rounded up to 8), its header filled; NULL when the ring is full.
// The reader sees nothing of it until fm_sig_ring_commit().
void *fm_sig_ring_reserve(struct fm_sig_thread *t, uint16_t type, size_t size);
void fm_sig_ring_commit(struct fm_sig_thread *t, const struct fm_wire_record *rec);
bool fm_sig_ring_has_room(const struct fm_sig_thread *t, uint64_t bytes);
// For hooks that may wait, never for handlers: naps until the collector has made room for so many
// bytes, a second at most. False: it has not.
bool fm_sig_ring_wait(const struct fm_sig_thread *t, uint64_t bytes);
