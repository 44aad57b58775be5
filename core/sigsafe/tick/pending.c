// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/tick/pending.h"

#include <signal.h>
#include <time.h>

#include "sigsafe/tick/handlers.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

// A thread that was woken runs within this time, or is held up for other reasons.
#define LEAVE_STEP_NS 20000
#define MAX_LEAVE_STEPS 50
#define AFTER_VAIN_WAIT 50u

// The first pending signal that would be delivered to a handler at our return, 0 when there is
// none.
static FM_SIGSAFE int find_pending(const ucontext_t *uc, uint64_t *ret_flags)
{
	uint64_t pending = 0, blocked = *(const uint64_t *)&uc->uc_sigmask;
	if (fm_system_call(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0, 0) != 0)
		return 0;
	pending &= ~blocked;
	if (fm_sig.header && fm_sig.header->engine == FM_ENGINE_PERF) // it may be ours
		pending &= ~(1ull << (SIGTRAP - 1));
	// One more of a tick's signal is the program's: the ticker sends no second one before the
	// first is answered.
	if (!fm_sig_has_theirs(FM_TICK_SIGNAL))
		pending &= ~(1ull << (FM_TICK_SIGNAL - 1));
	if (fm_sig_is_held(FM_OTHER_TICK_SIGNAL) && !fm_sig_has_theirs(FM_OTHER_TICK_SIGNAL))
		pending &= ~(1ull << (FM_OTHER_TICK_SIGNAL - 1));
	for (; pending; pending &= pending - 1) {
		struct fm_sig_kernel_action act = { 0 };
		int sig = __builtin_ctzll(pending) + 1;
		if (fm_system_call(SYS_rt_sigaction, sig, 0, (long)&act, sizeof(act.mask)) == 0 &&
		    act.handler > 1) { // not SIG_DFL, SIG_IGN
			*ret_flags = act.flags;
			return sig;
		}
	}
	return 0;
}

FM_SIGSAFE bool fm_sig_is_theirs_pending(const ucontext_t *uc, uint64_t *ret_flags)
{
	return find_pending(uc, ret_flags) != 0;
}

// Nothing but a file in /proc tells whether sig was sent to the process or to this thread alone, and
// a descriptor opened here could take the number that the program's next one should get. So what was
// sent to the thread is waited for in vain; then the next waits are left out.
FM_SIGSAFE void fm_sig_leave_to_main(struct fm_sig_thread *t, const ucontext_t *uc)
{
	uint64_t flags;
	int sig = find_pending(uc, &flags);
	if (!sig || fm_system_call(SYS_gettid, 0, 0, 0, 0) == (long)fm_sig.pid)
		return;
	if (t->n_waits_left_out) {
		t->n_waits_left_out--;
		return;
	}
	struct timespec step = { .tv_nsec = LEAVE_STEP_NS };
	for (int i = 0; i < MAX_LEAVE_STEPS; i++) {
		fm_system_call(SYS_nanosleep, (long)&step, 0, 0, 0);
		if (find_pending(uc, &flags) != sig)
			return;
	}
	t->n_waits_left_out = AFTER_VAIN_WAIT;
}
