// SPDX-License-Identifier: Apache-2.0
// The ring of calls that a CPython before 3.14 has been left to make: what Py_AddPendingCall() fills
// and the evaluator empties at a moment at which any Python code may run. No header of these
// releases promises where it lies: whoever writes there asks fm_pyabi_pending_is_in_code() and
// looks at what is there first.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// Offsets within _PyRuntime (is_in_runtime) or within the first interpreter.
struct fm_py_pending {
	uint32_t runtime_finalizing, runtime_main_thread; // of _PyRuntime always
	uint32_t ceval, pending;                          // the structures that the rest is part of
	uint32_t lock, to_do, calls, first, last;
	uint32_t eval_breaker;        // from 3.13 on within the thread state
	uint32_t finishing;           // 3.8: not 0 when no call is made any more; 0 = there is no such field
	uint32_t recursion;           // within a thread state: calls that are left
	uint32_t c_recursion;         // the same of calls in C; 0 = there is no such field
	uint32_t recursion_limit;     // up to 3.10: recursion has the calls that there are; else 0
	uint32_t audit_hooks;         // of the interpreter always: a list, or NULL
	uint32_t runtime_audit_hooks; // of _PyRuntime always: the first of a chain, or NULL
	uint16_t n_calls;             // the ring has room for one less
	uint16_t call_bytes;          // function, argument; from 3.13 on a word of flags
	uint16_t n_most;              // what the field behind to_do says; 0 = there is none
	bool is_in_runtime;           // 3.8
	bool is_for_main_thread;      // up to 3.11: no other makes them
	bool is_mutex_a_byte;         // 3.13: else the lock is a pointer to a semaphore
	bool is_breaker_per_thread;   // 3.13: a bit in the state of the thread that has the GIL
};

#define FM_PY_PENDING_RING_BYTES 8192u // the longest, of 3.13: 300 calls of 24 bytes and three numbers
#define FM_PY_CALLS_TO_DO 4u           // the bit of 3.13's eval_breaker

// Longest of any release: they have up to 360 bytes.
#define FM_PY_PENDING_CODE_BYTES 1024u

// FM_E_UNSUPPORTED: other releases, and builds without a GIL.
FM_MUST_CHECK enum fm_err fm_pyabi_pending(unsigned minor, bool is_free_threaded, struct fm_py_pending *ret);

// Whether the interpreter's own code knows the ring to be where p says: the machine code of
// _PyEval_AddPendingCall(), and of Py_AddPendingCall(), which calls it.
bool fm_pyabi_pending_is_in_code(const struct fm_py_pending *p, const uint8_t *code, size_t len, const uint8_t *caller,
				 size_t caller_len);
