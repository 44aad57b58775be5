// SPDX-License-Identifier: Apache-2.0
// The line between Python and native code: what a C function does that Python calls is native,
// wherever that function lives: in a library, in an extension module or in the interpreter itself
// (sorted, str.join, json's scanner). The evaluator and what it needs for its other instructions
// (attributes, operators, iteration, allocation, entering a Python function) are Python.
//
// So it is not the leaf's image that tells, but which instruction the innermost Python function is
// at, and what the evaluator called for it.
#include "sigsafe/tick/leaf.h"

#include <stdbool.h>

#include "format/model.h"
#include "pyabi/opcodes.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/unwind/unwind.h"

#include "sigsafe/base/sigsafe.h"

#define CODE_OF_3_8 48u // of a code object up to 3.10: its bytes object

// The native frame of the evaluator's call that executes the innermost Python function; UINT32_MAX
// when it is not known.
static FM_SIGSAFE uint32_t find_evaluator(const struct fm_sig_thread *t)
{
	uint64_t marker = t->n_runs ? t->runs[0].marker : 0;
	for (uint32_t i = 0; marker && i < t->n_native; i++)
		if (marker >= (i ? t->native[i - 1].cfa : t->native_sp) && marker < t->native[i].cfa)
			return t->native[i].cfa != UINT64_MAX ? i : UINT32_MAX;
	return UINT32_MAX;
}

static FM_SIGSAFE bool is_at_call(const struct fm_sig_thread *t)
{
	const struct fm_py_row *row = &fm_sig.python.row;
	uint64_t at, off = t->python[0] & UINT32_MAX; // + 1; 0 = not begun
	uint8_t opcode;
	if (!off)
		return false;
	if (row->lasti == FM_PY_LASTI_POINTER) {
		if (!fm_sig_read_u64(t->met[0].frame + row->frame_lasti, &at))
			return false;
	} else {
		if (!fm_sig_read_u64(t->met[0].code + CODE_OF_3_8, &at))
			return false;
		at += row->bytes_data + off - 1;
	}
	return fm_sig_read_u8(at, &opcode) && fm_py_is_call(row->minor, opcode);
}

static FM_SIGSAFE bool is_within(uint64_t pc, uintptr_t start, uintptr_t end)
{
	return pc >= start && pc < end;
}

static FM_SIGSAFE bool is_entry(uint64_t pc)
{
	const struct fm_sig_python *py = &fm_sig.python;
	for (unsigned i = 0; i < FM_SIG_N_ENTRIES; i++)
		if (is_within(pc, py->entries[i].start, py->entries[i].end))
			return true;
	return false;
}

FM_SIGSAFE uint8_t fm_sig_leaf_class(const struct fm_sig_thread *t, uint8_t class)
{
	const struct fm_sig_python *py = &fm_sig.python;
	uint32_t evaluator = fm_sig.has_python && t->n_python ? find_evaluator(t) : UINT32_MAX;
	if (evaluator == UINT32_MAX)
		return class;
	for (uint32_t i = evaluator; i-- > 0;) {
		uint64_t pc = t->native[i].pc - (i == 0 && !t->is_leaf_ours ? 0 : 1);
		if (is_entry(pc) || fm_sig_is_evaluator(t, i))
			return FM_CLASS_PYTHON; // on the way into a Python function
		if (!is_within(pc, py->image_start, py->image_end) &&
		    !is_within(pc, fm_sig.libc_start, fm_sig.libc_end) &&
		    !is_within(pc, fm_sig.tls_helper_start, fm_sig.tls_helper_end))
			return FM_CLASS_NATIVE;
	}
	return evaluator && is_at_call(t) ? FM_CLASS_NATIVE : FM_CLASS_PYTHON;
}
