// Python frames of the calling thread, read at signal time by the offsets of its version's row.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "sigsafe/state.h"

// Looks whether the image mapped at start is a CPython, and if so fills fm_sig.python. Any thread, any time, once.
void fm_sig_python_look(uintptr_t start, uintptr_t end, uintptr_t bias);

// Fills t->python, t->runs and t->python_error. *ret_is_collecting: the cycle collector runs on this thread.
void fm_sig_python_walk(struct fm_sig_thread *t, const ucontext_t *uc, bool *ret_is_collecting);

#define FM_SIG_NOT_A_FUNCTION UINT32_MAX

// The id of a code object, its definition pushed into the ring at first sight; FM_WIRE_NO_CODE when the ring had no room,
// 0 when code does not point to a code object, FM_SIG_NOT_A_FUNCTION for the interpreter's own helper code.
uint32_t fm_sig_code_id(struct fm_sig_thread *t, uintptr_t code);
// Another code object may come to this address: it has an id of its own, however alike they are.
void fm_sig_code_forget(uintptr_t code);
