// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/claim.h"

#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "sigsafe/base/alloc_state.h"
#include "sigsafe/base/places.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

struct fm_sig_earlier fm_sig_earlier[FM_SIG_N_EARLIER];
uint32_t fm_sig_n_earlier;

// What a thread had used when the capture began: a first sample must not stand for the life before
// that. More threads than were noted: then it stands for one period.
static FM_SIGSAFE uint64_t cpu_before_capture(uint32_t tid)
{
	for (uint32_t i = 0; i < fm_sig_n_earlier; i++)
		if (fm_sig_earlier[i].tid == tid)
			return fm_sig_earlier[i].cpu_ns;
	if (fm_sig_n_earlier < FM_SIG_N_EARLIER)
		return 0; // it came later
	uint64_t used_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t period_ns = 1000000000u / (fm_sig.header->rate_hz ? fm_sig.header->rate_hz : 1);
	return used_ns > period_ns ? used_ns - period_ns : 0;
}

// A thread that runs is met within a few ticks. One that has used more before it was met at all did
// so while the collector did not run, if there was such a time: its first sample must not stand for
// that.
#define UNSEEN_NS 100000000u

static FM_SIGSAFE uint32_t gaps_seen(uint64_t first_cpu_ns)
{
	uint32_t n_gaps = atomic_load_explicit(&fm_sig.header->n_gaps, memory_order_relaxed);
	if (FM_LIKELY(n_gaps == 0))
		return 0;
	return fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - first_cpu_ns > UNSEEN_NS ? n_gaps - 1 : n_gaps;
}

// The calling thread's number, as the collector knows it. In a pid namespace of our own the kernel
// tells that by a link of a /proc of outside, by which the collector was found: "PID/task/TID".
static FM_SIGSAFE uint32_t outside_tid(void)
{
	uint32_t tid = (uint32_t)fm_system_call(SYS_gettid, 0, 0, 0, 0), told = 0;
	char link[64];
	if (FM_LIKELY(fm_sig.outside_pid == fm_sig.pid))
		return tid;
	long n = fm_system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/thread-self", (long)link, sizeof(link));
	for (long i = 0; i < n; i++)
		told = link[i] >= '0' && link[i] <= '9' ? told * 10 + (uint32_t)(link[i] - '0') : 0;
	return told ? told : tid;
}

FM_SIGSAFE struct fm_sig_thread *fm_sig_thread_get(void)
{
	// A child made by a bare clone() has its parent's pointer, but that memory comes as zeros
	// there.
	if (FM_LIKELY(fm_sig_self != NULL && fm_sig_self->slot != NULL && fm_sig_self->owner == &fm_sig_self))
		return fm_sig_self;
	struct fm_wire_owner *owners = (void *)(fm_sig.shared + FM_WIRE_SLOT_TABLE_OFFSET);
	// The lowest free one: what a slot needs of this process's memory was mapped and touched by
	// an earlier thread then. A server with a thread for each request would touch all of it
	// otherwise, some 70 KB a slot.
	for (uint32_t idx = 0; idx < fm_sig.header->n_slots && idx < FM_WIRE_N_SLOTS; idx++) {
		struct fm_wire_owner *owner = &owners[idx];
		uint32_t expected = FM_WIRE_FREE;
		if (atomic_load_explicit(&owner->state, memory_order_relaxed) != FM_WIRE_FREE ||
		    !atomic_compare_exchange_strong(&owner->state, &expected, FM_WIRE_CLAIMED))
			continue;
		struct fm_sig_thread *t = fm_sig_place_get(idx);
		if (!t) { // the next sample tries again
			atomic_store_explicit(&owner->state, FM_WIRE_FREE, memory_order_release);
			atomic_fetch_add_explicit(&fm_sig.counts->n_no_place, 1, memory_order_relaxed);
			return NULL;
		}
		struct fm_wire_slot *slot = t->slot;
		owner->process_idx = fm_sig.process_idx;
		owner->pid = fm_sig.outside_pid;
		owner->tid = outside_tid();
		slot->start_ns = fm_now_ns();
		// The ticker's words to an earlier thread.
		atomic_store_explicit(&slot->sent_ns, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->due_ns, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->n_sched_in_at_due, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->was_preempted, 0, memory_order_relaxed);
		t->owner = &fm_sig_self;
		t->last_cpu_ns = t->first_cpu_ns = fm_sig.is_late ? cpu_before_capture(owner->tid) : 0;
		t->system_ns = t->first_cpu_ns ? fm_sig_system_ns() : 0;
		t->answered_cpu_ns = t->last_cpu_ns;
		t->left_system_ns = 0;
		t->n_sched_in = 0;
		t->n_gaps = gaps_seen(t->first_cpu_ns);
		t->n_prev = 0; // an earlier thread may have used this memory
		t->is_busy = false;
		t->budget_cpu_ns = 0;
		t->saved_ns = 0;
		t->alloc_saved_ns = t->alloc_pressure = 0;
		t->thread_state = 0;
		t->python_unknown_until_ns = 0;
		t->trace = NULL;
		t->frame_cache = NULL;
		fm_sig_alloc.frame_cache = NULL;
		// Its unwind rows are of the process, not of a thread: what an earlier owner of
		// this memory learnt stays true.
		fm_sig_self = t;
		atomic_store_explicit(&owner->state, FM_WIRE_LIVE, memory_order_release);
		return t;
	}
	atomic_fetch_add_explicit(&fm_sig.counts->n_no_slot, 1, memory_order_relaxed);
	return NULL;
}

FM_SIGSAFE struct fm_sig_thread *fm_sig_thread_get_in_hook(void)
{
	struct fm_sig_thread *self = fm_sig_self;
	if (FM_LIKELY(self != NULL && self->slot != NULL && self->owner == &fm_sig_self))
		return self;
	// In a child made by a bare clone(), which did not enter itself into the table, there is
	// nothing to claim.
	if ((uint32_t)fm_system_call(SYS_getpid, 0, 0, 0, 0) != fm_sig.pid)
		return NULL;
	uint64_t all = ~0ull, before;
	if (fm_system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all)) != 0)
		return NULL;
	struct fm_sig_thread *t = fm_sig_thread_get();
	fm_system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before));
	return t;
}
