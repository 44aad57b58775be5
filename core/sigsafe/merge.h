// One stack out of two: each run of Python frames goes to the C frame of the evaluator call that ran it.
#pragma once

#include <stdbool.h>

#include "sigsafe/state.h"

// From t->native, t->python and t->runs to t->out, innermost first. Nothing is ever left out: where one side is incomplete,
// an error frame stands in the gap. *ret_leaf_idx and *ret_exact_idx say where native[0] and native[exact_native] went.
// syscall_nr: the system call in which the thread is, shown as its innermost frame; -1 = none.
void fm_sig_merge(struct fm_sig_thread *t, int32_t syscall_nr, uint32_t *ret_leaf_idx, uint32_t *ret_exact_idx);

// True for the i-th native frame when it is a call of Python's evaluator.
bool fm_sig_is_evaluator(const struct fm_sig_thread *t, uint32_t i);
