// SPDX-License-Identifier: Apache-2.0
// Prints where Fathom takes the ring of pending calls of one CPython to be, a field a line:
// "print_pending 11". With the two functions' code as files, "print_pending 11 CALLEE CALLER", says
// whether that knows it so, too. Exit status: the fm_err.
#include <stdio.h>
#include <stdlib.h>

#include "pyabi/pending.h"

static size_t read_all(const char *path, uint8_t *to, size_t cap)
{
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(to, 1, cap, f) : 0;
	if (f)
		fclose(f);
	return n;
}

int main(int argc, char **argv)
{
	struct fm_py_pending p;
	if (argc < 2)
		return FM_E_USAGE;
	enum fm_err err = fm_pyabi_pending((unsigned)atoi(argv[1]), false, &p);
	if (err)
		return (int)err;
	if (argc == 4) {
		uint8_t code[FM_PY_PENDING_CODE_BYTES], caller[FM_PY_PENDING_CODE_BYTES];
		size_t len = read_all(argv[2], code, sizeof(code)),
		       caller_len = read_all(argv[3], caller, sizeof(caller));
		return fm_pyabi_pending_is_in_code(&p, code, len, caller, caller_len) ? 0 : (int)FM_E_NOT_FOUND;
	}
#define P(field) printf(#field " %u\n", (unsigned)p.field)
	P(runtime_finalizing), P(runtime_main_thread), P(ceval), P(pending), P(lock), P(to_do), P(calls), P(first);
	P(last), P(eval_breaker), P(finishing), P(n_calls), P(call_bytes), P(n_most), P(is_in_runtime);
	P(recursion), P(c_recursion), P(recursion_limit), P(audit_hooks), P(runtime_audit_hooks);
	return 0;
}
