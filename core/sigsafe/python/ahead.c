// SPDX-License-Identifier: Apache-2.0
// A stack is walked step by step, and each step waits for memory that only the step before could
// name. In a program that goes through much memory between two samples, none of it is in the caches
// any more: some hundred waits of 50 to 100 ns. But most of the stack is as it was in the last
// sample, so what that one needed is asked for ahead, and comes together while the clocks are read.
//
// What is asked for may be gone; the processor ignores that.
#include "sigsafe/python/ahead.h"

#include "base/compiler.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/context.h"
#include "sigsafe/unwind/step.h"

#include "sigsafe/base/sigsafe.h"

static FM_SIGSAFE void want(uint64_t addr)
{
	__builtin_prefetch((const void *)addr);
}

FM_SIGSAFE void fm_sig_ahead(struct fm_sig_thread *t, const ucontext_t *uc)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	__builtin_prefetch(&t->slot->tail); // written by the collector just now
	__builtin_prefetch(&t->slot->head);
	__builtin_prefetch(fm_sig_row_place(t, fm_sig_context_pc(uc)));
	__builtin_prefetch(fm_sig_range_place(t, fm_sig_context_pc(uc)));
	for (uint32_t i = 1; i < FM_MIN(t->n_native, FM_SIG_AHEAD); i++) {
		__builtin_prefetch(fm_sig_row_place(t, t->native[i].pc - 1));
		__builtin_prefetch((const void *)(t->native[i].cfa - 8));  // the return address
		__builtin_prefetch((const void *)(t->native[i].cfa - 48)); // saved registers
	}
	for (uint32_t i = 0; i < FM_MIN(t->n_runs, FM_SIG_AHEAD); i++)
		__builtin_prefetch((const void *)t->runs[i].marker);
	for (uint32_t i = 0; i < FM_MIN(t->n_python, FM_SIG_AHEAD); i++) {
		uint64_t frame = t->met[i].frame, code = t->met[i].code;
		want(frame + row->frame_code);
		want(frame + row->frame_lasti);
		want(code + row->code_first_line);
		want(code + row->code_line_table);
		__builtin_prefetch((const void *)(code + row->object_type));
		__builtin_prefetch(fm_sig_code_place(code, 0));
	}
}
