// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "sigsafe/base/alloc_state.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

struct fm_sig_quiet fm_sig_quiet = { .perf_fd = -1 };

FM_SIGSAFE void fm_sig_quiet_start(uint64_t memory_dev, uint64_t memory_ino)
{
	fm_sig_quiet.memory_dev = memory_dev;
	fm_sig_quiet.memory_ino = memory_ino;
	atomic_store(&fm_sig_quiet.state, FM_SIG_AWAKE);
}

FM_SIGSAFE bool fm_sig_is_alone(struct fm_sig_patience *p, uint64_t beat_ns, uint64_t cpu_ns)
{
	// Another thread may have had this memory, and its CPU time been higher.
	if (p->beat_ns != beat_ns || cpu_ns < p->cpu_ns) {
		*p = (struct fm_sig_patience){ beat_ns, cpu_ns };
		return false;
	}
	return cpu_ns - p->cpu_ns >= FM_SIG_ALONE_CPU_NS;
}

// Certain, where it says yes: a process's number is given to another one some day, its descriptor
// of this very file is not. A dead one that nobody has waited for has none either. A path is looked
// at, nothing is opened.
static FM_SIGSAFE bool is_collector_gone(void)
{
	struct stat st;
	long ret = fm_system_call(SYS_newfstatat, AT_FDCWD, (long)fm_sig.ring_path, (long)&st, 0);
	if (ret != 0) // but not where there is no /proc at all, after a chroot say
		return (ret == -ENOENT || ret == -ESRCH) &&
		       fm_system_call(SYS_newfstatat, AT_FDCWD, (long)"/proc/self", (long)&st, 0) == 0;
	// NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the kernel has filled it
	return st.st_dev != fm_sig_quiet.memory_dev || st.st_ino != fm_sig_quiet.memory_ino;
}

// Also for the threads that inherited it. A program may have closed the descriptor, and have the
// number for something of its own by now, which does not know the request.
static FM_SIGSAFE bool switch_perf(unsigned long request)
{
	int fd = atomic_load(&fm_sig_quiet.perf_fd);
	return fd >= 0 && fm_system_call(SYS_ioctl, fd, (long)request, 0, 0) == 0;
}

static FM_SIGSAFE void close_perf(void)
{
	bool is_ours = switch_perf(PERF_EVENT_IOC_DISABLE);
	int fd = atomic_exchange(&fm_sig_quiet.perf_fd, -1);
	if (is_ours && fd >= 0)
		fm_system_call(SYS_close, fd, 0, 0, 0);
}

// What nobody will read any more. Others may be writing there at this moment: they find zeros in
// place of old records, and memory all the same; the pages with counters and ends of rings stay as
// they are.
static FM_SIGSAFE void release_rings(void)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_wire_slot *slot = atomic_load_explicit(&fm_sig.places[i].slot, memory_order_relaxed);
		if (slot)
			fm_system_call(SYS_madvise, (long)slot + FM_WIRE_CONTROL_BYTES, FM_WIRE_RING_BYTES, MADV_REMOVE,
				       0);
	}
	if (fm_sig_exact_sums)
		fm_system_call(SYS_madvise, (long)fm_sig_exact_sums + FM_WIRE_EXACT_HEADER,
			       (long)(FM_WIRE_EXACT_BYTES - FM_WIRE_EXACT_HEADER), MADV_REMOVE, 0);
}

static FM_SIGSAFE bool change(uint32_t from)
{
	return atomic_compare_exchange_strong(&fm_sig_quiet.state, &from, FM_SIG_CHANGING);
}

static FM_SIGSAFE void set_quiet_mark(uint32_t is_quiet)
{
	if (fm_sig.process)
		atomic_store(&fm_sig.process->is_quiet, is_quiet);
}

FM_SIGSAFE __attribute__((cold)) void fm_sig_quiet_begin(uint64_t now_ns)
{
	if (!change(FM_SIG_AWAKE))
		return;
	atomic_store(&fm_sig_quiet.since_ns, now_ns);
	// The shortest way of exact mode looks at this and nothing else.
	fm_sig_quiet.was_quick = atomic_exchange(&fm_sig_exact_is_quick, false);
	atomic_fetch_add(&fm_sig.counts->n_quiet, 1);
	if (is_collector_gone()) {
		close_perf();
		release_rings();
		atomic_store(&fm_sig_quiet.state, FM_SIG_GONE);
		return;
	}
	switch_perf(PERF_EVENT_IOC_DISABLE);
	set_quiet_mark(1); // the collector, should it come back, sends a tick for it
	atomic_store(&fm_sig_quiet.state, FM_SIG_QUIET);
}

FM_SIGSAFE __attribute__((cold)) void fm_sig_quiet_end(void)
{
	if (!change(FM_SIG_AWAKE) && !change(FM_SIG_QUIET))
		return;
	atomic_store(&fm_sig_exact_is_quick, false);
	close_perf();
	atomic_store(&fm_sig_quiet.state, FM_SIG_GONE);
}

static FM_SIGSAFE __attribute__((cold)) bool wake(uint64_t now_ns)
{
	if (!change(FM_SIG_QUIET))
		return false;
	atomic_fetch_add(&fm_sig.counts->quiet_ns, now_ns - atomic_load(&fm_sig_quiet.since_ns));
	set_quiet_mark(0);
	// An interpreter that ended meanwhile wants nothing counted.
	if (fm_sig_quiet.was_quick && atomic_load(&fm_sig_alloc_is_on))
		atomic_store(&fm_sig_exact_is_quick, true);
	switch_perf(PERF_EVENT_IOC_ENABLE);
	atomic_store(&fm_sig_quiet.state, FM_SIG_AWAKE);
	return true;
}

FM_SIGSAFE bool fm_sig_quiet_may_sample(void)
{
	if (FM_UNLIKELY(atomic_load_explicit(&fm_sig.counts->is_over, memory_order_relaxed))) {
		fm_sig_quiet_end();
		return false;
	}
	if (FM_LIKELY(!fm_sig_is_quiet()))
		return true;
	uint64_t beat_ns = atomic_load_explicit(&fm_sig.header->beat_ns, memory_order_relaxed), now_ns = fm_now_ns();
	return !fm_sig_is_stale(beat_ns, now_ns) && wake(now_ns);
}

FM_SIGSAFE __attribute__((noinline)) bool fm_sig_quiet_poll_further(struct fm_sig_thread *t, uint64_t beat_ns)
{
	if (fm_sig_is_quiet())
		return true;
	if (!t || !fm_sig_is_alone(&t->patience, beat_ns, fm_clock_ns(CLOCK_THREAD_CPUTIME_ID)))
		return false;
	fm_sig_quiet_begin(fm_now_ns());
	return true;
}

FM_SIGSAFE bool fm_sig_quiet_poll_waiting(uint64_t now_ns)
{
	uint64_t beat_ns = atomic_load_explicit(&fm_sig.header->beat_ns, memory_order_relaxed);
	if (fm_sig_is_over())
		return true;
	if (!fm_sig_is_stale(beat_ns, now_ns) || (now_ns - beat_ns < FM_SIG_ALONE_WAIT_NS && !is_collector_gone()))
		return false;
	fm_sig_quiet_begin(now_ns);
	return true;
}
