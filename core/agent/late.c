// SPDX-License-Identifier: Apache-2.0
// A capture that begins in a running program: `with fathom.job():`, %%fathom. The library was
// imported and not preloaded. To allocators and copies it is bound slot by slot (memory_bind.c),
// where memory is watched, to what starts programs, where these are followed, and always to what
// sets or waits for signals: a handler for SIGURG that the program sets meanwhile must not get our
// ticks.
//
// Handlers of other threads may be on their way at any time, and none may be waited for without
// end. So nothing that one could still look at is taken away: the end of a capture is a mark in its
// shared memory; that memory is unmapped two captures later; and what belongs to one capture is
// given to the next only when no handler is under way (n_inside).
#include "agent/agent.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "agent/memory.h"
#include "agent/trace.h"
#include "agent/zone_api.h"
#include "base/clock.h"
#include "sigsafe/base/fault.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/claim.h"
#include "sigsafe/base/ring.h"
#include "sigsafe/base/state.h"
#include "sigsafe/tick/region.h"

// A handler takes microseconds of CPU, but its thread may have to wait for one.
#define QUIET_MS 2000
#define PENDING_MS 200

// What a capture has mapped of its shared memory.
struct mapped {
	uint8_t *common;
	const uint8_t *published;
	struct fm_wire_slot *slots[FM_WIRE_N_SLOTS];
};

static void note_mapped(struct mapped *m)
{
	m->common = fm_sig.header ? fm_sig.shared : NULL;
	m->published = fm_sig.header ? fm_sig.published : NULL;
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++)
		m->slots[i] = m->common ? atomic_load(&fm_sig.places[i].slot) : NULL;
}

static void unmap(const struct mapped *m)
{
	if (m->common)
		munmap(m->common, FM_WIRE_COMMON_BYTES);
	if (m->published)
		munmap((void *)m->published, FM_WIRE_PUBLISHED_BYTES);
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++)
		if (m->slots[i])
			munmap(m->slots[i], FM_WIRE_SLOT_BYTES);
}

static bool is_quiet_soon(void)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	for (int i = 0; i < QUIET_MS; i++) {
		if (atomic_load(&fm_sig.n_inside) == 0 && !fm_zone_api_is_busy())
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

// The clock of any thread of this process, as the kernel numbers them (clock_getcpuclockid(3) does
// it for processes).
static clockid_t thread_clock(uint32_t tid)
{
	return (clockid_t)(~tid << 3 | 6);
}

static void note_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	fm_sig_n_earlier = 0;
	for (struct dirent *e; tasks && fm_sig_n_earlier < FM_SIG_N_EARLIER && (e = readdir(tasks));) {
		uint32_t tid = (uint32_t)strtoul(e->d_name, NULL, 10);
		uint64_t used_ns = tid ? fm_clock_ns(thread_clock(tid)) : 0;
		if (used_ns) // 0: it is gone
			fm_sig_earlier[fm_sig_n_earlier++] = (struct fm_sig_earlier){ used_ns, tid };
	}
	if (tasks)
		closedir(tasks);
}

void fm_agent_let_look(const char *ring_path)
{
	unsigned long collector_pid;
	if (sscanf(ring_path, "/proc/%lu/", &collector_pid) == 1)
		prctl(PR_SET_PTRACER, collector_pid, 0, 0, 0);
}

const char *fm_agent_late_start(const char *ring_path)
{
	static struct mapped retired, last; // of the capture before the last, and of the last
	// Where nothing is sampled any more, nobody has seen that the last collector was killed.
	if (fm_sig.header && fm_sig.is_late)
		(void)fm_sig_quiet_poll_waiting(fm_now_ns());
	if (fm_sig.header && fm_sig.is_late && atomic_load(&fm_sig_quiet.state) == FM_SIG_GONE) {
		fm_agent_late_stop(); // of a capture whose collector is gone
		fm_agent_late_leave();
	}
	if (fm_sig.header && !atomic_load(&fm_sig.counts->is_over))
		return "this process is being profiled already";
	if (fm_sig.header && !fm_sig.is_late)
		return "this process was started by fathom, whose capture has ended; start it without";
	if (!is_quiet_soon())
		return "a sample of the last capture is still being taken; try again";
	note_mapped(&last);
	fm_trace_forget();
	fm_sig.is_late = true;
	atomic_fetch_add(&fm_sig.unload_generation, 1u << 16); // forget what threads remember of unwinding
	fm_agent_let_look(ring_path);
	note_threads();
	if (!fm_agent_start(ring_path))
		return "the agent could not map the collector's memory ('ulimit -v' may be too low), or its tables are "
		       "full";
	unmap(&retired);
	retired = last;
	fm_agent_bind_prepare();
	fm_agent_bind_all(); // signals, which we hold by now
	fm_agent_wrap_handlers(true);
	fm_agent_memory_start();
	return NULL;
}

// A block ends between two samples, on a crowded machine long after the last one: the thread that
// ends it says what it has used.
static void tell_own_cpu(void)
{
	struct fm_sig_thread *t = fm_sig_self;
	if (t && t->slot && t->owner == &fm_sig_self && !fm_sig_region_is_outside())
		atomic_store_explicit(&t->slot->cpu_ns, fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->first_cpu_ns,
				      memory_order_relaxed);
}

void fm_agent_late_stop(void)
{
	if (!fm_sig.header || !fm_sig.is_late)
		return;
	tell_own_cpu();
	fm_trace_end();
	atomic_store(&fm_sig.counts->is_over, 1);
	fm_sig_region_set(false); // the next capture is of everything again, unless it says otherwise
	fm_agent_memory_stop();
	fm_agent_exec_follow("");
	fm_agent_unbind_all();
	is_quiet_soon();
}

// A tick that this thread has not taken yet, by "SigPnd:\t" and the mask in hexadecimal digits, as
// /proc has it.
static bool is_tick_pending(const char *tid)
{
	char path[320], line[128];
	unsigned long long mask = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	FILE *status = fopen(path, "re");
	bool is_pending = false;
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "SigPnd: %llx", &mask) == 1 || sscanf(line, "ShdPnd: %llx", &mask) == 1)
			is_pending |= (mask >> (FM_TICK_SIGNAL - 1) | mask >> (FM_OTHER_TICK_SIGNAL - 1)) & 1;
	if (status)
		fclose(status);
	return is_pending;
}

// The collector has ended, but a thread of ours that got no CPU since, or blocks the signal, may
// have its last tick still before it: taken then, by a handler of the program, it would be one
// signal too many. Such a thread is waited for. False: for too long; then our handler stays, and
// does nothing but pass on what is not ours.
static bool are_ticks_delivered(void)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	for (int i = 0; i < PENDING_MS; i++) {
		bool is_any = false;
		DIR *tasks = opendir("/proc/self/task");
		for (struct dirent *e; tasks && !is_any && (e = readdir(tasks));)
			is_any = e->d_name[0] != '.' && is_tick_pending(e->d_name);
		if (tasks)
			closedir(tasks);
		if (!is_any)
			return true;
		nanosleep(&nap, NULL);
	}
	return false;
}

void fm_agent_give_signals_back(void)
{
	if (are_ticks_delivered()) {
		fm_agent_wrap_handlers(false);
		fm_agent_release_signal(FM_TICK_SIGNAL);
		fm_agent_release_signal(FM_OTHER_TICK_SIGNAL);
		fm_agent_unbind_signals();
	}
	fm_sig_fault_handler = 0; // who reads from now on asks the kernel
	fm_agent_release_signal(SIGSEGV);
	fm_agent_release_signal(SIGBUS);
}

void fm_agent_late_leave(void)
{
	if (!fm_sig.header || !fm_sig.is_late)
		return;
	fm_agent_give_signals_back();
	prctl(PR_SET_PTRACER, 0, 0, 0, 0);
	// The pages go back to the system now: of the rings, and by zeros in their place of what
	// the collector published. Header and counts, with the mark, stay.
	mmap((uint8_t *)fm_sig.published + FM_WIRE_HEADER_BYTES, FM_WIRE_PUBLISHED_BYTES - FM_WIRE_HEADER_BYTES,
	     PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	madvise(fm_sig.shared + FM_WIRE_COUNTS_BYTES, FM_WIRE_COMMON_BYTES - FM_WIRE_COUNTS_BYTES, MADV_REMOVE);
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_wire_slot *slot = atomic_load(&fm_sig.places[i].slot);
		if (slot)
			madvise(slot, FM_WIRE_SLOT_BYTES, MADV_REMOVE);
	}
}
