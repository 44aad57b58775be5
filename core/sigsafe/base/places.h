// SPDX-License-Identifier: Apache-2.0
// A slot's place in this process: its thread's private memory, and its part of the shared one.
// Address space is spent on threads that are there, not on all that there could be.
#pragma once

#include "sigsafe/base/state.h"

// The place of a slot that the caller has claimed; NULL when there is no address space for it.
struct fm_sig_thread *fm_sig_place_get(uint32_t idx);
