// SPDX-License-Identifier: Apache-2.0
// Python frames of the calling thread, read at signal time by the offsets of its version's row.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "pyabi/objects.h"
#include "sigsafe/base/read.h"
#include "sigsafe/base/state.h"

// fm_py_reader of our own memory. n is a constant wherever it is called.
static FM_ALWAYS_INLINE bool fm_sig_py_read(void *memory, uint64_t addr, void *to, size_t n)
{
	(void)memory;
	return n == 8 ? fm_sig_read_u64(addr, to) : n == 4 ? fm_sig_read_u32(addr, to) : fm_sig_read_u8(addr, to);
}

// Fills t->python, t->runs and t->python_error. *ret_is_collecting: the cycle collector runs on
// this thread.
void fm_sig_python_walk(struct fm_sig_thread *t, const ucontext_t *uc, bool *ret_is_collecting);

#define FM_SIG_NOT_A_FUNCTION UINT32_MAX

// The id of a code object, its definition pushed into the ring at first sight; FM_WIRE_NO_CODE when
// the ring had no room, 0 when code does not point to a code object, FM_SIG_NOT_A_FUNCTION for the
// interpreter's own helper code.
uint32_t fm_sig_code_id(struct fm_sig_thread *t, uintptr_t code);
// Another code object may come to this address: it has an id of its own, however alike they are.
void fm_sig_code_forget(uintptr_t code);
