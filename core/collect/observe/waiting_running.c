// SPDX-License-Identifier: Apache-2.0
// Threads that run, where no agent is in the process: each is held for the moment in which its stack
// is read.
#include "base/clock.h"
#include "collect/observe/waiting_parts.h"
#include "collect/remote/remote.h"

// A thread that is asked to stop may have come to a system call by then. So many times in a row the
// time is left for the next look; one that does little but call the kernel is met there always.
#define MAX_DISPLACED 8u

// Holds a thread that runs while its stack is read. That time is ours, not its waiting.
static bool hold_and_read(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, bool is_warming,
			  struct fm_remote_call *ret_call, struct fm_remote_regs *ret_regs)
{
	bool is_refused;
	if (!fm_remote_stop(p->pid, t->listed.tid, ret_regs, ret_call, &is_refused)) {
		w->is_refused |= is_refused;
		w->is_hold_refused |= is_refused;
		return false;
	}
	uint64_t from_ns = fm_now_ns(); // before, it may have waited for a CPU to be stopped on
	if (!is_warming)
		fm_wait_read_frames(w, p, t, ret_call, ret_regs);
	fm_remote_go(t->listed.tid);
	uint64_t held_ns = fm_now_ns() - from_ns;
	t->counted_ns += (int64_t)held_ns;
	w->held_ns += held_ns;
	w->budget.hold_ns -= (int64_t)held_ns;
	if (is_warming) // opening files takes milliseconds: not while a thread is held
		fm_wait_read_frames(w, p, t, ret_call, ret_regs);
	return true;
}

// Samples a thread that runs.
void fm_wait_sample_running(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t, uint64_t now_ns)
{
	struct fm_remote_call call;
	struct fm_remote_regs regs;
	if (w->budget.hold_ns < 0 &&
	    !w->options.tells_all) // on a busy machine we may lose our CPU while we hold a thread
		return;
	if (!p->is_warm && !(p->is_warm = hold_and_read(w, p, t, true, &call, &regs)))
		return;
	if (!hold_and_read(w, p, t, false, &call, &regs))
		return;
	const struct fm_remote_image *image = fm_remote_find_image(p->remote, regs.pc);
	uint64_t weight_ns = t->cpu_ns - t->sampled_ns;
	uint8_t class = image && fm_remote_is_python(p->remote, image) ? FM_CLASS_PYTHON : FM_CLASS_NATIVE;
	bool is_in_call = call.nr >= 0 && !w->options.tells_all;
	if (call.nr >= 0) // who waits for the GIL looks around every 5 ms, and may be held just then
		class = w->options.tells_all && w->stack.waits_for_gil ? FM_CLASS_GIL_WAIT : FM_CLASS_SYSTEM;
	if (is_in_call && !fm_wait_is_system(p, weight_ns, now_ns)) {
		class = fm_wait_step_back(w, p);
		if (++t->n_displaced <= MAX_DISPLACED) {
			// It had got to its next sleep: where its time went, a later look tells. If
			// none comes, it was before that sleep.
			t->before_stack_id = fm_wait_write_stack(w, p, now_ns);
			t->before_class = class;
			return;
		}
	}
	t->n_displaced = 0;
	t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->named_tid, t->since_ns);
	struct fm_sample sample = {
		.thread_id = t->thread_id,
		.stack_id = fm_wait_write_stack(w, p, now_ns),
		.time_ns = now_ns,
		.weight_ns = weight_ns,
		.cpu = fm_proc_thread_last_cpu(&t->proc), // of a thread that is on one again, most often the same
		.class = class,
	};
	t->sampled_ns = t->cpu_ns;
	t->is_told = true;
	fm_recorder_wait(w->recorder, &sample);
	fm_wait_name_sometimes(w, p, t);
}

void fm_wait_write_displaced(struct fm_waiting *w, struct wait_process *p, struct wait_thread *t)
{
	t->thread_id = fm_recorder_thread(w->recorder, p->process_idx, t->named_tid, t->since_ns);
	struct fm_sample sample = {
		.thread_id = t->thread_id,
		.stack_id = t->before_stack_id,
		.time_ns = t->looked_ns,
		.weight_ns = t->cpu_ns - t->sampled_ns,
		.cpu = fm_proc_thread_last_cpu(&t->proc),
		.class = t->before_class,
	};
	t->sampled_ns = t->cpu_ns;
	fm_recorder_wait(w->recorder, &sample);
}
