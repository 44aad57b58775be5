// SPDX-License-Identifier: Apache-2.0
// The calling thread's stack (wire/merge.h).
#pragma once

#include <stdbool.h>

#include "sigsafe/base/state.h"

// From t->native, t->python and t->runs to t->out. *ret_leaf_idx and *ret_precise_idx as in struct
// fm_merge. syscall_nr: the system call in which the thread is, shown as its innermost frame; -1 =
// none.
void fm_sig_merge(struct fm_sig_thread *t, int32_t syscall_nr, uint32_t *ret_leaf_idx, uint32_t *ret_precise_idx);
