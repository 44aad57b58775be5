// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/python/merge.h"

#include "pyabi/row.h"

#include "sigsafe/base/sigsafe.h"

FM_SIGSAFE void fm_sig_merge(struct fm_sig_thread *t, int32_t syscall_nr, uint32_t *ret_leaf_idx,
			     uint32_t *ret_precise_idx)
{
	struct fm_merge m = {
		.native = t->native,
		.runs = t->runs,
		.python = t->python,
		.n_native = t->n_native,
		.n_runs = t->n_runs,
		.n_python = t->n_python,
		.native_error = t->native_error,
		.python_error = t->python_error,
		.native_sp = t->native_sp,
		.precise_native = t->precise_native,
		.is_leaf_called = t->is_leaf_ours,
		.pairs_by_evaluators = fm_py_pairs_by_evaluators(&fm_sig.python.row, t->is_greenlet),
		.evaluator = &fm_sig.python.evaluator,
		.syscall_nr = syscall_nr,
		.out = t->out,
		.max_out = FM_SIG_MAX_FRAMES,
	};
	fm_merge(&m);
	t->n_out = m.n_out;
	*ret_leaf_idx = m.leaf_idx;
	*ret_precise_idx = m.precise_idx;
}
