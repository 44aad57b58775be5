// Recognising a CPython by what its image exports. No version is guessed: a member that a release introduced tells.
#include "sigsafe/python.h"

#include "pyabi/pyabi.h"
#include "sigsafe/image.h"
#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

enum { NOT_LOOKED = 0, READY = 1, LOOKING = 2 };

static _Atomic uint32_t looking;

static FM_SIGSAFE uint16_t bytes_up_to(const uint16_t *offsets, unsigned n)
{
	uint16_t last = 0;
	for (unsigned i = 0; i < n; i++)
		last = FM_MAX(last, offsets[i]);
	return last + 8;
}

static FM_SIGSAFE void measure_structures(struct fm_sig_python *py)
{
	const struct fm_py_row *row = &py->row;
	const uint16_t of_frame[] = { row->frame_code,     row->frame_previous, row->frame_lasti,
				      row->frame_is_entry, row->frame_owner,    row->frame_tlbc_index };
	const uint16_t of_code[] = { row->object_type, row->code_name, row->code_filename, row->code_first_line,
				     row->code_line_table };
	py->frame_bytes = bytes_up_to(of_frame, FM_ARRAY_LEN(of_frame));
	py->code_bytes = bytes_up_to(of_code, FM_ARRAY_LEN(of_code));
}

FM_SIGSAFE void fm_sig_python_look(uintptr_t start, uintptr_t end, uintptr_t bias)
{
	if (fm_sig.has_python)
		return;
	uintptr_t runtime = fm_sig_elf_symbol(start, end, bias, "_PyRuntime", NULL);
	if (!runtime)
		return;
	uint32_t expected = NOT_LOOKED;
	if (!atomic_compare_exchange_strong(&looking, &expected, LOOKING))
		return; // another thread is at it; this sample goes without Python frames

	struct fm_sig_python *py = &fm_sig.python;
	enum fm_err err;
	uintptr_t version = fm_sig_elf_symbol(start, end, bias, "Py_Version", NULL);
	if (fm_pyabi_has_debug_offsets((const uint8_t *)runtime, FM_PY_DEBUG_OFFSETS_BYTES)) {
		err = fm_pyabi_row_from_debug_offsets((const uint8_t *)runtime, FM_PY_DEBUG_OFFSETS_BYTES, &py->row,
						      &py->hexversion);
	} else if (version) { // exported since 3.11
		py->hexversion = *(const uint32_t *)version;
		err = py->hexversion >> 24 == 3 ? fm_pyabi_row_by_minor(py->hexversion >> 16 & 0xff, &py->row)
						: FM_E_UNSUPPORTED;
	} else {
		unsigned minor = fm_sig_elf_symbol(start, end, bias, "PyModule_AddObjectRef", NULL)       ? 10
				 : fm_sig_elf_symbol(start, end, bias, "PyFrame_GetCode", NULL)           ? 9
				 : fm_sig_elf_symbol(start, end, bias, "PyCode_NewWithPosOnlyArgs", NULL) ? 8
													  : 7;
		py->hexversion = 0x03000000u | minor << 16;
		err = fm_pyabi_row_by_minor(minor, &py->row);
	}
	uint64_t eval_size = 0;
	py->runtime = runtime;
	py->image_start = start;
	py->image_bias = bias;
	py->image_end = end;
	py->code_type = fm_sig_elf_symbol(start, end, bias, "PyCode_Type", NULL);
	py->eval_start = fm_sig_elf_symbol(start, end, bias, "_PyEval_EvalFrameDefault", &eval_size);
	py->eval_end = py->eval_start + eval_size;
	py->current_thread_state =
		(void *(*)(void))fm_sig_elf_symbol(start, end, bias, "_PyThreadState_UncheckedGet", NULL);
	if (!py->current_thread_state)
		py->current_thread_state =
			(void *(*)(void))fm_sig_elf_symbol(start, end, bias, "PyThreadState_GetUnchecked", NULL);
	py->gilstate_thread_state =
		(void *(*)(void))fm_sig_elf_symbol(start, end, bias, "PyGILState_GetThisThreadState", NULL);
	measure_structures(py);
	bool is_usable = err == FM_OK && py->code_type && py->current_thread_state && py->gilstate_thread_state;
	if (fm_sig.process) {
		atomic_store(&fm_sig.process->python_version, py->hexversion);
		atomic_store(&fm_sig.process->is_free_threaded, is_usable && py->row.is_free_threaded);
		atomic_store(&fm_sig.process->python_pc, is_usable ? (uintptr_t)py->gilstate_thread_state : 0);
		atomic_store(&fm_sig.process->python, is_usable ? FM_WIRE_PYTHON_KNOWN : FM_WIRE_PYTHON_UNKNOWN);
	}
	if (is_usable)
		atomic_store_explicit(&fm_sig.has_python, READY, memory_order_release);
}
