// SPDX-License-Identifier: Apache-2.0
//   native (innermost first)           runs                        out
//   memcpy            cfa 0x10                                     memcpy
//   PyEval            cfa 0x50         marker 0x48: g, f           PyEval, g, f
//   list_sort         cfa 0x60                                     list_sort
//   PyEval            cfa 0x90         marker 0x88: main           PyEval, main
//
// A run belongs to the native frame whose part of the stack, [previous cfa, cfa), holds its marker.
// Both lists are ordered by address, so one pass does it, with stripped, split and tail-calling
// interpreters alike. Where a handler runs on an alternate stack the native side jumps between
// address ranges; a run then waits for the frame that holds it.
//
// The evaluator's own frame goes to the inner end of its run, as what the innermost function is
// doing. At the outer end its pc, which differs from sample to sample, would make every frame of
// the run part of a new stack.
#include "wire/merge.h"

#include "base/compiler.h"
#include "format/model.h"
#include "wire/wire.h"

static void put(struct fm_merge *m, uint64_t frame)
{
	if (m->n_out < m->max_out)
		m->out[m->n_out++] = frame;
	else // the outer end goes
		m->out[m->max_out - 1] = FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | FM_STACK_TOO_DEEP;
}

static bool is_evaluator(const struct fm_merge *m, uint32_t i)
{
	return fm_merge_is_evaluator(m->native, i, m->is_leaf_called, m->evaluator);
}

// A whole native stack is in step at its outer end (at the inner end the evaluator may just enter
// or leave, which makes one Python frame more or less); a broken one, or one that ends where a
// fiber began, only at its inner end.
static void find_markers(struct fm_merge *m)
{
	uint32_t n_evaluators = 0;
	for (uint32_t i = 0; i < m->n_native; i++)
		n_evaluators += is_evaluator(m, i);
	int64_t shift = (int64_t)m->n_runs - n_evaluators; // run = evaluator + shift
	if (m->native_error || shift > 1)
		shift = 0;
	uint32_t nth = 0;
	for (uint32_t i = 0; i < m->n_native; i++) {
		if (!is_evaluator(m, i))
			continue;
		int64_t run = (int64_t)nth++ + shift;
		if (run >= 0 && run < m->n_runs)
			m->runs[run].marker = m->native[i].cfa - 1;
	}
	// More Python than C: unpaired runs at the outer end come after the break, those at the
	// inner end stay with the leaf.
	for (int64_t run = (int64_t)nth + shift; run < m->n_runs; run++)
		if (run >= 0)
			m->runs[run].marker = UINT64_MAX;
}

// The first native frame from i on whose part of the stack holds the marker; 0 = none.
static uint32_t find_owner(const struct fm_merge *m, uint32_t i, uint64_t marker)
{
	for (; i < m->n_native; i++)
		if (marker >= m->native[i - 1].cfa && marker < m->native[i].cfa)
			return i;
	return 0;
}

void fm_merge(struct fm_merge *m)
{
	uint32_t run = 0, frame = 0, wait_for = 0;
	bool is_searching = true; // one marker that no frame holds is enough to stop: the search is not free
	m->n_out = 0;
	m->leaf_idx = m->precise_idx = UINT32_MAX;
	if (m->syscall_nr >= 0)
		put(m, FM_WIRE_FRAME_SYSCALL << FM_WIRE_FRAME_SHIFT | (uint32_t)m->syscall_nr);
	if (m->n_runs && m->n_native && m->pairs_by_evaluators)
		find_markers(m);
	for (uint32_t i = 0; i < m->n_native; i++) {
		// The frame at which unwinding broke off does not own what lies beyond.
		uint64_t cfa = m->native[i].cfa, low = i ? m->native[i - 1].cfa : m->native_sp;
		if (i == 0 && !m->is_leaf_called)
			m->leaf_idx = m->n_out;
		if (i == m->precise_native)
			m->precise_idx = m->n_out;
		put(m, FM_WIRE_FRAME_NATIVE << FM_WIRE_FRAME_SHIFT |
			       (m->native[i].pc & ((1ull << FM_WIRE_FRAME_SHIFT) - 1)));
		for (; run < m->n_runs && cfa != UINT64_MAX && m->runs[run].marker < cfa; run++) {
			if (FM_UNLIKELY(m->runs[run].marker < low) && is_searching && wait_for <= i) {
				wait_for = find_owner(m, i + 1, m->runs[run].marker);
				is_searching = wait_for != 0;
			}
			if (FM_UNLIKELY(wait_for > i))
				break;
			for (; frame < m->runs[run].end; frame++)
				put(m, m->python[frame]);
		}
	}
	if (m->native_error)
		put(m, FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | m->native_error);
	for (; frame < m->n_python; frame++)
		put(m, m->python[frame]);
	if (m->python_error)
		put(m, FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | m->python_error);
}
