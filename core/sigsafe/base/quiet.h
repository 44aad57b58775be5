// SPDX-License-Identifier: Apache-2.0
// Whoever is left alone stops. The collector stores the time into the header at least every
// FM_WIRE_BEAT_NS (header->beat_ns); what samples, counts or waits in the target compares it now
// and then. When it stands still, this process goes quiet: its perf event is switched off, hooks
// look at a flag and go on, and no ring is waited for. A collector that was only stopped wakes it
// up again by a tick.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "sigsafe/base/state.h"

// When a collector counts as gone, in two steps: first the clock on the wall, which costs nothing
// as whoever asks has just read it; then, from there on, the asking thread's own CPU time.
//
// Both are needed. By the wall alone a machine that stood still (a virtual machine that was paused,
// a program stopped together with its collector by Ctrl-Z) would be taken for a death. By CPU time
// alone one busy thread could reach the limit between two beats. Own CPU time is what makes it safe
// on a crowded machine: the collector wants a CPU for microseconds every few milliseconds, and a
// scheduler that is at all fair serves such a one before it has given any other thread 40 ms, some
// ten of its turns. Whoever is starved all the same (by threads of a real-time class, say) is only
// taken for stopped: with its next beat everything goes on, and the gap is counted.
//
// 40 ms are four beats that did not come. Together the thread has used 80 ms at most when it goes
// quiet, and it looks at least once a tick or a thousand blocks: within 100 ms of its CPU time.
#define FM_SIG_STALE_NS 40000000u
#define FM_SIG_ALONE_CPU_NS 40000000u
// A thread that naps until a ring has room uses no CPU time, and leaves its CPU to the collector:
// it waits for a beat so long at most.
#define FM_SIG_ALONE_WAIT_NS 1000000000u

enum fm_sig_quiet_state {
	FM_SIG_AWAKE = 0,
	FM_SIG_CHANGING = 1, // one thread is about to switch it off or on; the others see that it is not AWAKE
	FM_SIG_QUIET = 2,    // the collector does not run, but may
	FM_SIG_GONE = 3,     // it has ended, or wants no more: for good
};

struct fm_sig_quiet {
	_Atomic uint32_t state;    // enum fm_sig_quiet_state
	_Atomic int perf_fd;       // of the engine perf's event; -1 = none
	_Atomic uint64_t since_ns; // when it went quiet
	uint64_t memory_dev,
		memory_ino; // who holds this file open is the collector, and no other process with its number
	bool was_quick;     // exact mode's, to go on as before
};

extern FM_HIDDEN struct fm_sig_quiet fm_sig_quiet;

// A capture begins (in this process): the shared memory is this file.
void fm_sig_quiet_start(uint64_t memory_dev, uint64_t memory_ino);

static FM_ALWAYS_INLINE bool fm_sig_is_quiet(void)
{
	return FM_UNLIKELY(atomic_load_explicit(&fm_sig_quiet.state, memory_order_relaxed) != FM_SIG_AWAKE);
}

// Nothing more is wanted: the capture is over, or nobody is there to read. For hooks, where memory
// is shared.
static FM_ALWAYS_INLINE bool fm_sig_is_over(void)
{
	return FM_UNLIKELY(atomic_load_explicit(&fm_sig.counts->is_over, memory_order_relaxed)) || fm_sig_is_quiet();
}

static FM_ALWAYS_INLINE bool fm_sig_is_stale(uint64_t beat_ns, uint64_t now_ns)
{
	return FM_UNLIKELY(beat_ns && (int64_t)(now_ns - beat_ns) > (int64_t)FM_SIG_STALE_NS); // 0: nobody beats
}

// The decision. beat_ns: the last one; it is stale. cpu_ns: the thread's CPU time. True: it has
// waited long enough.
bool fm_sig_is_alone(struct fm_sig_patience *p, uint64_t beat_ns, uint64_t cpu_ns);

// For who has just read the clock. True: this process is quiet, by now or before.
bool fm_sig_quiet_poll_further(struct fm_sig_thread *t, uint64_t beat_ns);
static FM_ALWAYS_INLINE bool fm_sig_quiet_poll(struct fm_sig_thread *t, uint64_t now_ns)
{
	uint64_t beat_ns = atomic_load_explicit(&fm_sig.header->beat_ns, memory_order_relaxed);
	return fm_sig_is_stale(beat_ns, now_ns) && fm_sig_quiet_poll_further(t, beat_ns);
}
// For who naps until there is room. True: no more naps.
bool fm_sig_quiet_poll_waiting(uint64_t now_ns);
// The collector was seen not to run.
void fm_sig_quiet_begin(uint64_t now_ns);
// The capture is over: nothing of it stays, but what the collector still has to read.
void fm_sig_quiet_end(void);

// For a tick, before it takes a sample. False: none is wanted. A tick that comes while all is quiet
// is the collector's word that it is back.
bool fm_sig_quiet_may_sample(void);
