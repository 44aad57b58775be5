// SPDX-License-Identifier: Apache-2.0
// The numbers are offsetof() over each release's own headers (tests/e2e/test_pyabi.py compares).
#include "pyabi/pending.h"

#include <string.h>

#define RING_BYTES(p, n, bytes) .calls = (p), .first = (p) + (n) * (bytes), .last = (p) + (n) * (bytes) + 4
#define RING_OF_32(p) RING_BYTES(p, 32u, 16u), .n_calls = 32, .call_bytes = 16

static const struct {
	unsigned minor;
	struct fm_py_pending at;
} table[] = {
	// 3.13: room for 300, a count instead of a flag, and a bit in a thread state instead of a
	// word of the interpreter's.
	{ 13,
	  { .runtime_finalizing = 608,
	    .runtime_main_thread = 656,
	    .runtime_audit_hooks = 10424,
	    .audit_hooks = 10808,
	    .recursion = 44,
	    .c_recursion = 52,
	    .pending = 32,
	    .lock = 40,
	    .to_do = 44,
	    RING_BYTES(56u, 300u, 24u),
	    .n_calls = 300,
	    .call_bytes = 24,
	    .n_most = 300,
	    .eval_breaker = 24,
	    .is_mutex_a_byte = true,
	    .is_breaker_per_thread = true } },
	// 3.12: any thread of the interpreter makes the calls; those of Py_AddPendingCall() are in a
	// ring of their own, which is the main thread's.
	{ 12,
	  { .runtime_finalizing = 24,
	    .runtime_main_thread = 64,
	    .runtime_audit_hooks = 3064,
	    .audit_hooks = 267208,
	    .recursion = 28,
	    .c_recursion = 36,
	    .ceval = 368,
	    .pending = 400,
	    .lock = 408,
	    .to_do = 416,
	    RING_OF_32(424u),
	    .eval_breaker = 368 } },
	{ 11,
	  { .runtime_finalizing = 24,
	    .runtime_main_thread = 80,
	    .runtime_audit_hooks = 656,
	    .audit_hooks = 3552,
	    .recursion = 32,
	    .ceval = 96,
	    .pending = 112,
	    .lock = 112,
	    .to_do = 120,
	    RING_OF_32(128u),
	    .eval_breaker = 100,
	    .is_for_main_thread = true } },
	{ 10,
	  { .runtime_finalizing = 16,
	    .runtime_main_thread = 72,
	    .runtime_audit_hooks = 648,
	    .audit_hooks = 3504,
	    .recursion = 32,
	    .recursion_limit = 64,
	    .ceval = 64,
	    .pending = 80,
	    .lock = 80,
	    .to_do = 88,
	    RING_OF_32(96u),
	    .eval_breaker = 68,
	    .is_for_main_thread = true } },
	{ 9,
	  { .runtime_finalizing = 16,
	    .runtime_main_thread = 72,
	    .runtime_audit_hooks = 648,
	    .audit_hooks = 3536,
	    .recursion = 32,
	    .recursion_limit = 64,
	    .ceval = 64,
	    .pending = 80,
	    .lock = 80,
	    .to_do = 88,
	    RING_OF_32(96u),
	    .eval_breaker = 72,
	    .is_for_main_thread = true } },
	{ 8,
	  { .runtime_finalizing = 16,
	    .runtime_main_thread = 72,
	    .runtime_audit_hooks = 1456,
	    .audit_hooks = 2704,
	    .recursion = 32,
	    .recursion_limit = 584,
	    .ceval = 584,
	    .pending = 600,
	    .lock = 608,
	    .to_do = 616,
	    RING_OF_32(624u),
	    .eval_breaker = 592,
	    .finishing = 600,
	    .is_in_runtime = true,
	    .is_for_main_thread = true } },
};

enum fm_err fm_pyabi_pending(unsigned minor, bool is_free_threaded, struct fm_py_pending *ret)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].minor == minor && !is_free_threaded) {
			*ret = table[i].at;
			return FM_OK;
		}
	return FM_E_UNSUPPORTED;
}

static bool has_number(const uint8_t *code, size_t len, uint32_t number)
{
	const uint8_t bytes[4] = { (uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
				   (uint8_t)(number >> 24) };
	for (size_t i = 0; i + sizeof(bytes) <= len; i++)
		if (memcmp(code + i, bytes, sizeof(bytes)) == 0)
			return true;
	return false;
}

// An offset of more than 127 stands in an instruction as four bytes. The compiler may count from
// the interpreter (or _PyRuntime), or from a structure in it, whose own offset then is there.
bool fm_pyabi_pending_is_in_code(const struct fm_py_pending *p, const uint8_t *code, size_t len, const uint8_t *caller,
				 size_t caller_len)
{
	const uint32_t bases[] = { 0, p->ceval, p->pending };
	for (size_t i = 0; i < sizeof(bases) / sizeof(*bases); i++) {
		uint32_t base = bases[i];
		bool is_base = base < 128 || has_number(code, len, base) || has_number(caller, caller_len, base);
		// From 3.13 on it is full when it has as many as it may have, and first is not asked.
		if (is_base && has_number(code, len, p->last - base) &&
		    (p->n_most || has_number(code, len, p->first - base)))
			return true;
	}
	return false;
}
