// SPDX-License-Identifier: Apache-2.0
// Facts about CPython. Never includes Python.h; never guesses: an unknown version is refused.
//
// The functions of this header are pure: no allocation, no locks, no libc but memcmp. The agent may
// call them at signal time (a libpython that is loaded late is met there first).
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "pyabi/row.h"

#define FM_PY_OLDEST_MINOR 8
#define FM_PY_NEWEST_MINOR 15

// The row of a release whose layout is fixed by table (3.8 to 3.13, GIL builds). FM_E_UNSUPPORTED
// for any other.
FM_MUST_CHECK enum fm_err fm_pyabi_row_by_minor(unsigned minor, struct fm_py_row *ret);

// True when these first bytes of _PyRuntime carry _Py_DebugOffsets (3.13 and later).
int fm_pyabi_has_debug_offsets(const uint8_t *runtime, size_t len);

// How many bytes of _PyRuntime fm_pyabi_row_from_debug_offsets wants to see at most.
#define FM_PY_DEBUG_OFFSETS_BYTES 1024

// The row as the interpreter itself describes it (3.13+). The bytes are untrusted: every offset is
// checked against the size of its structure and against fixed bounds. FM_E_UNSUPPORTED: no such
// table here, or of a version not known (alphas and betas are never known); FM_E_TRUNCATED: fewer
// bytes than this version's table has; FM_E_CORRUPT: a table that cannot be true. *ret is untouched
// on failure. *ret_hexversion (PY_VERSION_HEX) is set even on failure when it could be read.
FM_MUST_CHECK enum fm_err fm_pyabi_row_from_debug_offsets(const uint8_t *runtime, size_t len, struct fm_py_row *ret,
							  uint32_t *ret_hexversion);

// Where another process leaves a script for a thread (sys.remote_exec, 3.14 and later). Offsets
// within the thread state, but for those of the runtime's and the interpreter's.
struct fm_py_remote_exec {
	uint32_t runtime_finalizing, interp_main_thread, interp_enabled;
	uint16_t eval_breaker, pending_call, script_path, script_path_size;
};
#define FM_PY_PLEASE_STOP 32u // the bit of eval_breaker that makes the thread look there
// As above, with the same errors; FM_E_UNSUPPORTED for 3.13, too.
FM_MUST_CHECK enum fm_err fm_pyabi_remote_exec(const uint8_t *runtime, size_t len, struct fm_py_remote_exec *ret);

// Rejects rows that cannot be true: a needed field missing, beyond bounds, misaligned or on top of
// another, or one set that the version does not have. Rows of this header's functions have passed
// it.
FM_MUST_CHECK enum fm_err fm_pyabi_row_validate(const struct fm_py_row *row);
