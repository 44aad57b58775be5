// SPDX-License-Identifier: Apache-2.0
// Recognising a CPython by what its image exports.
#include "sigsafe/python/python.h"

#include "pyabi/exports.h"
#include "pyabi/pyabi.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/python/thread_state.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

enum { NOT_LOOKED = 0, READY = 1, LOOKING = 2 };

static _Atomic uint32_t looking;

// The interpreter's table of offsets, copied; one thread at a time is here.
static uint8_t debug_offsets[FM_PY_DEBUG_OFFSETS_BYTES];

static FM_SIGSAFE enum fm_err find_row(uintptr_t start, uintptr_t end, uintptr_t bias, struct fm_sig_python *py)
{
	if (fm_sig_read(py->runtime, debug_offsets, sizeof(debug_offsets)) &&
	    fm_pyabi_has_debug_offsets(debug_offsets, sizeof(debug_offsets)))
		return fm_pyabi_row_from_debug_offsets(debug_offsets, sizeof(debug_offsets), &py->row, &py->hexversion);
	uintptr_t version = fm_sig_elf_symbol(start, end, bias, FM_PY_EXPORT_VERSION, NULL);
	if (version) {
		if (!fm_sig_read_u32(version, &py->hexversion))
			return FM_E_UNSUPPORTED;
		return py->hexversion >> 24 == 3 ? fm_pyabi_row_by_minor(py->hexversion >> 16 & 0xff, &py->row)
						 : FM_E_UNSUPPORTED;
	}
	unsigned minor = FM_PY_OLDER_MINOR;
	for (unsigned i = 0; i < FM_ARRAY_LEN(fm_py_introduced) && minor == FM_PY_OLDER_MINOR; i++)
		if (fm_sig_elf_symbol(start, end, bias, fm_py_introduced[i].name, NULL))
			minor = fm_py_introduced[i].minor;
	py->hexversion = FM_PY_HEXVERSION_OF(minor);
	return fm_pyabi_row_by_minor(minor, &py->row);
}

// Without it, thread states are found by the interpreter's lists.
static FM_SIGSAFE void find_current(uintptr_t start, uintptr_t end, uintptr_t bias, struct fm_sig_python *py)
{
	uintptr_t accessor;
	if (py->row.runtime_current) {
		py->current = (struct fm_sig_tls){ .kind = FM_SIG_TLS_FIXED,
						   .offset = py->runtime + py->row.runtime_current };
		return;
	}
	accessor = fm_sig_elf_symbol(start, end, bias, "_PyThreadState_UncheckedGet", NULL);
	if (!accessor)
		accessor = fm_sig_elf_symbol(start, end, bias, "PyThreadState_GetUnchecked", NULL);
	fm_sig_tls_decode(accessor, &py->current);
}

// Some of these end in a jump to the next one, so that all of them have to be known. Those that are
// not exported take what is left of the entries (agent/eval_parts.c).
static FM_SIGSAFE void find_entries(uintptr_t start, uintptr_t end, uintptr_t bias, struct fm_sig_python *py)
{
	static const char *const names[] = { "_PyFunction_Vectorcall", "_PyEval_EvalCodeWithName",
					     "_Py_CheckFunctionResult" };
	for (unsigned i = 0; i < FM_ARRAY_LEN(names); i++) {
		uint64_t size = 0;
		py->entries[i].start = fm_sig_elf_symbol(start, end, bias, names[i], &size);
		py->entries[i].end = py->entries[i].start + size;
	}
}

FM_SIGSAFE void fm_sig_find_python(uintptr_t start, uintptr_t end, uintptr_t bias)
{
	if (fm_sig.has_python)
		return;
	uintptr_t runtime = fm_sig_elf_symbol(start, end, bias, FM_PY_EXPORT_RUNTIME, NULL);
	if (!runtime)
		return;
	uint32_t expected = NOT_LOOKED;
	if (!atomic_compare_exchange_strong(&looking, &expected, LOOKING))
		return; // another thread is at it; this sample goes without Python frames

	struct fm_sig_python *py = &fm_sig.python;
	uint64_t eval_size = 0;
	py->runtime = runtime;
	enum fm_err err = find_row(start, end, bias, py);
	py->image_start = start;
	py->image_bias = bias;
	py->image_end = end;
	py->code_type = fm_sig_elf_symbol(start, end, bias, FM_PY_EXPORT_CODE_TYPE, NULL);
	py->evaluator.part[0].start = fm_sig_elf_symbol(start, end, bias, FM_PY_EXPORT_EVALUATOR, &eval_size);
	py->evaluator.part[0].end = py->evaluator.part[0].start + eval_size;
	find_entries(start, end, bias, py);
	py->some_pc = fm_sig_elf_symbol(start, end, bias, "PyGILState_GetThisThreadState", NULL);
	if (err == FM_OK)
		find_current(start, end, bias, py);
	bool is_usable = err == FM_OK && py->code_type;
	if (fm_sig.process) {
		atomic_store(&fm_sig.process->python_version, py->hexversion);
		atomic_store(&fm_sig.process->is_free_threaded, is_usable && py->row.is_free_threaded);
		atomic_store(&fm_sig.process->python_pc, is_usable ? py->some_pc : 0);
		atomic_store(&fm_sig.process->python, is_usable ? FM_WIRE_PYTHON_KNOWN : FM_WIRE_PYTHON_UNKNOWN);
	}
	if (is_usable)
		atomic_store_explicit(&fm_sig.has_python, READY, memory_order_release);
}
