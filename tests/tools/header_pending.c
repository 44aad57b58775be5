// SPDX-License-Identifier: Apache-2.0
// What a CPython's own headers say of its pending calls, in the words of print_pending: compiled by
// tests/e2e/test_pyabi.py against each Python before 3.14.
#define Py_BUILD_CORE 1
#include <Python.h>

#include <stddef.h>
#include <stdio.h>

#if PY_VERSION_HEX >= 0x03090000
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#define HOLDER struct _is
#define FINALIZING _finalizing
#define IS_IN_RUNTIME 0
#else
#include "internal/pycore_pystate.h"
#define HOLDER _PyRuntimeState
#define FINALIZING finalizing
#define IS_IN_RUNTIME 1
#endif

#define P(name, type, field) printf(#name " %zu\n", offsetof(type, field))
#define V(name, value) printf(#name " %zu\n", (size_t)(value))

int main(void)
{
	P(runtime_finalizing, _PyRuntimeState, FINALIZING);
	P(runtime_main_thread, _PyRuntimeState, main_thread);
	P(ceval, HOLDER, ceval);
	P(pending, HOLDER, ceval.pending);
	P(calls, HOLDER, ceval.pending.calls);
	P(first, HOLDER, ceval.pending.first);
#if PY_VERSION_HEX >= 0x030d0000
	P(lock, HOLDER, ceval.pending.mutex);
	P(to_do, HOLDER, ceval.pending.npending);
	P(last, HOLDER, ceval.pending.next);
	P(eval_breaker, PyThreadState, eval_breaker);
	V(n_most, MAXPENDINGCALLS);
#else
	P(lock, HOLDER, ceval.pending.lock);
	P(to_do, HOLDER, ceval.pending.calls_to_do);
	P(last, HOLDER, ceval.pending.last);
	P(eval_breaker, HOLDER, ceval.eval_breaker);
	V(n_most, 0);
#endif
#if PY_VERSION_HEX < 0x03090000
	P(finishing, HOLDER, ceval.pending.finishing);
#else
	V(finishing, 0);
#endif
	V(n_calls, sizeof(((HOLDER *)0)->ceval.pending.calls) / sizeof(((HOLDER *)0)->ceval.pending.calls[0]));
	V(call_bytes, sizeof(((HOLDER *)0)->ceval.pending.calls[0]));
	V(is_in_runtime, IS_IN_RUNTIME);
#if PY_VERSION_HEX >= 0x030c0000
	P(recursion, PyThreadState, py_recursion_remaining);
	P(c_recursion, PyThreadState, c_recursion_remaining);
#elif PY_VERSION_HEX >= 0x030b0000
	P(recursion, PyThreadState, recursion_remaining);
	V(c_recursion, 0);
#else
	P(recursion, PyThreadState, recursion_depth);
	V(c_recursion, 0);
#endif
#if PY_VERSION_HEX >= 0x030b0000
	V(recursion_limit, 0);
#else
	P(recursion_limit, HOLDER, ceval.recursion_limit);
#endif
#ifndef Py_DEBUG // there they are elsewhere in some releases, and known by what they are
	P(audit_hooks, struct _is, audit_hooks);
#if PY_VERSION_HEX >= 0x030c0000
	P(runtime_audit_hooks, _PyRuntimeState, audit_hooks.head);
#else
	P(runtime_audit_hooks, _PyRuntimeState, audit_hook_head);
#endif
#endif
	return 0;
}
