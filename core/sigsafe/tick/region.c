// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/tick/region.h"

#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/claim.h"

#include "sigsafe/base/sigsafe.h"

_Atomic bool fm_sig_is_outside;

// What was used inside and is on no sample's account yet stays: the next sample inside stands for
// it, too. So regions shorter than a period are shown for all of their time.
FM_SIGSAFE void fm_sig_region_leave_out(struct fm_sig_thread *t, uint64_t cpu_ns)
{
	uint64_t since_ns = cpu_ns - FM_MIN(t->answered_cpu_ns, cpu_ns);
	t->last_cpu_ns = FM_MIN(t->last_cpu_ns + since_ns, cpu_ns);
	t->first_cpu_ns = FM_MIN(t->first_cpu_ns + since_ns, cpu_ns);
	t->answered_cpu_ns = cpu_ns;
}

FM_SIGSAFE void fm_sig_region_set(bool is_outside)
{
	struct fm_sig_thread *t = fm_sig.header ? fm_sig_thread_get_in_hook() : NULL;
	bool was_outside = fm_sig_region_is_outside();
	if (t && (t->is_busy || was_outside == is_outside))
		t = NULL;
	if (t) {
		t->is_busy = true; // a tick that comes now is answered, and the time is the next one's
		atomic_signal_fence(memory_order_seq_cst);
		uint64_t cpu_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		if (is_outside) {
			t->answered_cpu_ns = cpu_ns;
			t->left_system_ns = fm_sig_system_ns();
			atomic_store_explicit(&t->slot->cpu_ns, cpu_ns - t->first_cpu_ns, memory_order_relaxed);
		} else {
			fm_sig_region_leave_out(t, cpu_ns);
			if (t->left_system_ns)
				t->system_ns += fm_sig_system_ns() - t->left_system_ns;
		}
	}
	atomic_store_explicit(&fm_sig_is_outside, is_outside, memory_order_relaxed);
	if (fm_sig.header && fm_sig.process_idx == 0) // what threads wait for is judged by the first process
		atomic_store_explicit(&fm_sig.counts->is_outside, is_outside, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (t)
		t->is_busy = false;
}
