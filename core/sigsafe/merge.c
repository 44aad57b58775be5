//   native (innermost first)           runs                        out
//   memcpy            cfa 0x10                                     memcpy
//   PyEval            cfa 0x50         marker 0x48: g, f           PyEval, g, f
//   list_sort         cfa 0x60                                     list_sort
//   PyEval            cfa 0x90         marker 0x88: main           PyEval, main
//
// A run belongs to the native frame whose part of the stack, [previous cfa, cfa), holds its marker. Both lists are ordered by
// address, so one pass does it, with stripped, split and tail-calling interpreters alike. Where a handler runs on an alternate
// stack the native side jumps between address ranges; a run then waits for the frame that holds it.
//
// The evaluator's own frame goes to the inner end of its run, as what the innermost function is doing. At the outer end its pc,
// which differs from sample to sample, would make every frame of the run part of a new stack.
#include "sigsafe/merge.h"

#include <stdbool.h>

#include "format/model.h"
#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

static FM_SIGSAFE void put(struct fm_sig_thread *t, uint64_t frame)
{
	if (t->n_out < FM_SIG_MAX_FRAMES)
		t->out[t->n_out++] = frame;
	else // the outer end goes; the last frame says so
		t->out[FM_SIG_MAX_FRAMES - 1] = FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | FM_STACK_TOO_DEEP;
}

FM_SIGSAFE bool fm_sig_is_evaluator(const struct fm_sig_thread *t, uint32_t i)
{
	const struct fm_sig_python *py = &fm_sig.python;
	uint64_t pc = t->native[i].pc - (i == 0 && !t->is_leaf_ours ? 0 : 1);
	return (pc >= py->eval_start && pc < py->eval_end) || (pc >= py->eval_cold_start && pc < py->eval_cold_end);
}

// 3.8 and 3.9 have no cframes. On 3.10 a greenlet begins with one that belongs to no frame, so that both chains are out of step.
static FM_SIGSAFE bool pairs_by_evaluators(const struct fm_sig_thread *t)
{
	uint8_t frames = fm_sig.python.row.frames;
	return frames == FM_PY_FRAMES_OBJECTS || (frames == FM_PY_FRAMES_OBJECTS_CFRAME && t->is_greenlet);
}

// Evaluator frames and Python frames pair one to one. A whole native stack is in step at its outer end (at the
// inner end the evaluator may just enter or leave, which makes one Python frame more or less); a broken one, or one that ends where
// a fiber began, only at its inner end.
static FM_SIGSAFE void find_markers(struct fm_sig_thread *t)
{
	uint32_t n_evaluators = 0;
	for (uint32_t i = 0; i < t->n_native; i++)
		n_evaluators += fm_sig_is_evaluator(t, i);
	int64_t shift = (int64_t)t->n_runs - n_evaluators; // run = evaluator + shift
	if (t->native_error || shift > 1)
		shift = 0;
	uint32_t nth = 0;
	for (uint32_t i = 0; i < t->n_native; i++) {
		if (!fm_sig_is_evaluator(t, i))
			continue;
		int64_t run = (int64_t)nth++ + shift;
		if (run >= 0 && run < t->n_runs)
			t->runs[run].marker = t->native[i].cfa - 1;
	}
	// More Python than C: unpaired runs at the outer end come after the break, those at the inner end stay with the leaf.
	for (int64_t run = (int64_t)nth + shift; run < t->n_runs; run++)
		if (run >= 0)
			t->runs[run].marker = UINT64_MAX;
}

// The first native frame from i on whose part of the stack holds the marker; 0 = none.
static FM_SIGSAFE uint32_t find_owner(const struct fm_sig_thread *t, uint32_t i, uint64_t marker)
{
	for (; i < t->n_native; i++)
		if (marker >= t->native[i - 1].cfa && marker < t->native[i].cfa)
			return i;
	return 0;
}

FM_SIGSAFE void fm_sig_merge(struct fm_sig_thread *t, int32_t syscall_nr, uint32_t *ret_leaf_idx,
			     uint32_t *ret_exact_idx)
{
	uint32_t run = 0, frame = 0, wait_for = 0;
	bool is_searching = true; // one marker that no frame holds is enough to stop: the search is not free
	t->n_out = 0;
	*ret_leaf_idx = *ret_exact_idx = UINT32_MAX;
	if (syscall_nr >= 0)
		put(t, FM_WIRE_FRAME_SYSCALL << FM_WIRE_FRAME_SHIFT | (uint32_t)syscall_nr);
	if (t->n_runs && t->n_native && pairs_by_evaluators(t))
		find_markers(t);
	for (uint32_t i = 0; i < t->n_native; i++) {
		// The frame at which unwinding broke off does not own what lies beyond.
		uint64_t cfa = t->native[i].cfa, low = i ? t->native[i - 1].cfa : t->native_sp;
		if (i == 0 && !t->is_leaf_ours)
			*ret_leaf_idx = t->n_out;
		if (i == t->exact_native)
			*ret_exact_idx = t->n_out;
		put(t, FM_WIRE_FRAME_NATIVE << FM_WIRE_FRAME_SHIFT |
			       (t->native[i].pc & ((1ull << FM_WIRE_FRAME_SHIFT) - 1)));
		for (; run < t->n_runs && cfa != UINT64_MAX && t->runs[run].marker < cfa; run++) {
			if (FM_UNLIKELY(t->runs[run].marker < low) && is_searching && wait_for <= i) {
				wait_for = find_owner(t, i + 1, t->runs[run].marker);
				is_searching = wait_for != 0;
			}
			if (FM_UNLIKELY(wait_for > i))
				break;
			for (; frame < t->runs[run].end; frame++)
				put(t, t->python[frame]);
		}
	}
	if (t->native_error)
		put(t, FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | t->native_error);
	for (; frame < t->n_python; frame++)
		put(t, t->python[frame]);
	if (t->python_error)
		put(t, FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | t->python_error);
}
