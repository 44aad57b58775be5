// SPDX-License-Identifier: Apache-2.0
#include "collect/observe/ticker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "collect/observe/ticker_parts.h"
#include "collect/process/machine.h"

// A thread that was last seen running so long ago rests. Not sooner: threads that hand each other
// the GIL wait for 5 ms in turn, on a busy machine for much longer. Where the machine has no more
// threads to run than those of ours that were just seen running, and us, the resting ones do rest,
// and none of them is looked at; but for once in so many ticks.
#define RESTING_NS 200000000u
#define LOOK_ALL_TICKS 64u
// Otherwise looking at them may take this share of the ticker's period; with many of them each is
// looked at less often. The same holds for those that do not rest but wait at the moment.
#define IDLE_LOOK_SHARE 0.02
#define IDLE_LOOK_NS 800.0
#define MAX_IDLE_SKIP 64u
// But a thread that ran a while ago is looked at again after this share of that while, at the
// latest.
#define RECENT_SHARE 8
// While nothing runs for longer than RESTING_NS the schedule is drawn out, in proportion to how
// long that is: a server that waits for its next request costs a wake-up in some milliseconds
// instead of one in each. What is used before the next look is on the account of the sample that
// follows it.
#define IDLE_SHARE 64u
#define IDLE_MOST_NS 20000000u
// How often to look whether a process has closed its perf event, or went quiet.
#define PERF_LOOK_NS 20000000u
// How often the rate is compared with its budget. Not before the first window has passed: the first
// samples of a program tell of every code object and image they meet, which later ones do not.
#define BUDGET_NS 500000000u
// How nice the ticker is when it may choose: it runs for microseconds at a time.
#define TICKER_NICE (-10)

// True when a thread that rested at the last look has not been given a CPU since. Half the price of
// asking whether it runs.
static bool still_rests(struct tick_thread *t)
{
	struct fm_proc_schedule before = t->schedule;
	fm_proc_thread_schedule(&t->proc, &t->schedule);
	return before.n_sched_in && before.n_sched_in == t->schedule.n_sched_in && before.cpu_ns == t->schedule.cpu_ns;
}

static bool is_resting(const struct tick_thread *t, uint64_t now_ns)
{
	return now_ns - t->ran_ns > RESTING_NS;
}

// Ticks between two looks at a thread, when there are so many that wait.
static uint32_t affordable_skip(const struct fm_ticker *k, uint32_t n_waiting)
{
	double skip = n_waiting * IDLE_LOOK_NS * k->options.rate_hz / (1e9 * IDLE_LOOK_SHARE);
	return (uint32_t)FM_MIN(skip, (double)MAX_IDLE_SKIP);
}

// True when the thread runs.
static bool tick_thread(struct fm_ticker *k, struct tick_process *p, struct tick_thread *t, uint64_t now_ns)
{
	if (t->skip) {
		t->skip--;
		return false;
	}
	bool rests = is_resting(t, now_ns);
	if ((rests && still_rests(t)) || !fm_proc_thread_is_running(&t->proc)) {
		uint64_t idle_ticks = (now_ns - t->ran_ns) * k->options.rate_hz / (1000000000u * RECENT_SHARE);
		uint32_t skip = rests ? k->resting_skip : k->recent_skip;
		// Around what it should be: threads that came together are not looked at together
		// for ever.
		t->skip = (uint32_t)FM_MIN(idle_ticks, fm_random_around(&k->random, skip));
		if (t->proc.is_gone)
			p->threads.is_stale = true;
		return false;
	}
	t->ran_ns = now_ns;
	atomic_store_explicit(&k->ran_ns, now_ns, memory_order_relaxed);
	fm_ticker_signal(k, p, t, now_ns);
	return true;
}

// is_whole: every one of them, also those whose turn it is not.
static void tick_resting(struct fm_ticker *k, uint64_t now_ns, bool is_whole)
{
	for (size_t i = 0; i < k->processes.n; i++) {
		struct tick_process *p = &k->processes.items[i];
		for (size_t j = 0; j < p->threads.n; j++)
			if (is_resting(fm_tick_thread_at(p, j), now_ns)) {
				if (is_whole)
					fm_tick_thread_at(p, j)->skip = 0;
				tick_thread(k, p, fm_tick_thread_at(p, j), now_ns);
			}
	}
}

static bool may_others_run(const struct fm_ticker *k, uint32_t n_running)
{
	return k->loadavg_fd < 0 || k->stats.n_ticks % LOOK_ALL_TICKS == 0 ||
	       fm_running_count(k->loadavg_fd) > n_running + 1;
}

uint64_t fm_ticker_idle_ns(const struct fm_ticker *k, uint64_t now_ns)
{
	uint64_t ran_ns = atomic_load_explicit(&k->ran_ns, memory_order_relaxed);
	return now_ns > ran_ns + RESTING_NS ? now_ns - ran_ns : 0;
}

static void tick(struct fm_ticker *k, uint64_t now_ns)
{
	if (k->n_claimed_seen != atomic_load(&k->shared->counts->n_processes_claimed))
		fm_ticker_scan_processes(k);
	if (now_ns - k->perf_looked_ns > PERF_LOOK_NS) {
		k->perf_looked_ns = now_ns;
		if (k->shared->header->engine == FM_ENGINE_PERF)
			fm_ticker_find_lost_perf(k);
		fm_ticker_wake_quiet(k);
		if (k->is_scan_due)
			fm_ticker_scan_processes(k);
	}
	bool is_idle = fm_ticker_idle_ns(k, now_ns) > 0;
	uint32_t n_running = 0, n_resting = 0, n_recent = 0;
	for (size_t i = 0; i < k->processes.n; i++) {
		if (!fm_ticker_scan_threads(k, i, now_ns, is_idle)) {
			i--;
			continue;
		}
		struct tick_process *p = &k->processes.items[i];
		for (size_t j = 0; j < p->threads.n; j++)
			if (is_resting(fm_tick_thread_at(p, j), now_ns))
				n_resting++;
			else if (tick_thread(k, p, fm_tick_thread_at(p, j), now_ns))
				n_running++;
			else
				n_recent++;
	}
	k->resting_skip = affordable_skip(k, n_resting);
	k->recent_skip = affordable_skip(k, n_recent);
	if (n_resting > 1 && !may_others_run(k, n_running)) { // one look is no dearer than asking
		k->n_quiet++;
		return;
	}
	// After a quiet time somebody may have woken up: that time pays for a look at all of them.
	tick_resting(k, now_ns, is_idle || k->n_quiet > k->resting_skip);
	k->n_quiet = 0;
}

static void *run(void *arg)
{
	struct fm_ticker *k = arg;
	prctl(PR_SET_NAME, "fathom-ticker");
	fm_proc_thread_open(&k->self, (uint32_t)getpid(), (uint32_t)syscall(SYS_gettid));
	fm_raise_sched_priority(TICKER_NICE);
	prctl(PR_SET_TIMERSLACK, 1ul); // the default of 50 us is half a period at 10 kHz
	uint64_t wanted = 1000000000u / k->options.rate_hz, period = wanted;
	uint64_t first_ns = fm_now_ns(), first_cycles = fm_cycles();
	uint64_t next_ns = first_ns + fm_ticker_jittered(k, period, first_ns), budget_ns = first_ns + BUDGET_NS;
	uint64_t beat_ns = first_ns, drawn_out = 0;
	k->stats.lowest_rate_hz = k->options.rate_hz;
	while (!atomic_load_explicit(&k->is_stopping, memory_order_relaxed)) {
		fm_sleep_until_ns(FM_MIN(next_ns, beat_ns + FM_MAX(FM_WIRE_BEAT_NS, drawn_out)));
		uint64_t now_ns = beat_ns = fm_now_ns();
		fm_shared_beat(k->shared, now_ns);
		if (atomic_load_explicit(&k->shared->counts->is_over, memory_order_relaxed))
			next_ns = now_ns + FM_WIRE_BEAT_NS; // nobody wants a tick any more
		if (now_ns < next_ns)
			continue;
		k->is_late = now_ns > next_ns + LATE_NS;
		k->stats.n_late += now_ns > next_ns + 2 * period;
		next_ns =
			FM_MAX(next_ns, now_ns - FM_MIN(now_ns, MAX_DUE * period)); // after a long sleep of the machine
		// When a tick is due does not depend on when the ticker got a CPU, which does on
		// what the program does.
		drawn_out = FM_MIN(fm_ticker_idle_ns(k, now_ns) / IDLE_SHARE, (uint64_t)IDLE_MOST_NS);
		for (k->n_due = 0; next_ns <= now_ns;
		     next_ns += fm_ticker_jittered(k, FM_MAX(period, drawn_out), now_ns))
			k->due_ns[k->n_due++ % MAX_DUE] = next_ns;
		k->stats.n_ticks++;
		tick(k, now_ns);
		if (k->options.max_overhead > 0 && now_ns >= budget_ns && k->processes.n) { // perf keeps its own rate
			budget_ns = now_ns + BUDGET_NS;
			double cycles_per_ns = (double)(fm_cycles() - first_cycles) / (double)(now_ns - first_ns);
			uint64_t affordable = fm_ticker_affordable_period_ns(k, cycles_per_ns);
			if (affordable) // half way each time: one odd window does not swing the rate
				period = FM_MAX(wanted, (period + affordable) / 2);
			k->stats.lowest_rate_hz = FM_MIN(k->stats.lowest_rate_hz, (uint32_t)(1000000000u / period));
		}
	}
	fm_proc_thread_close(&k->self);
	k->stats.cpu_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

enum fm_err fm_ticker_start(struct fm_registry *registry, const struct fm_ticker_options *options,
			    struct fm_ticker **ret, struct fm_diag *diag)
{
	struct fm_ticker *k = fm_alloc(sizeof(*k));
	k->registry = registry;
	k->shared = fm_registry_shared(registry);
	k->options = *options;
	k->random = fm_now_ns() | 1;
	atomic_store(&k->ran_ns, fm_now_ns());
	k->loadavg_fd = fm_running_open();
	sigset_t all, old; // signals to the collector are its main thread's business
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int err = pthread_create(&k->thread, NULL, run, k);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		if (k->loadavg_fd >= 0)
			close(k->loadavg_fd);
		free(k);
		return fm_diag_set(diag, FM_E_REFUSED, "cannot start a thread: %s", strerror(err));
	}
	*ret = k;
	return FM_OK;
}

void fm_ticker_stop(struct fm_ticker *k, struct fm_ticker_stats *ret)
{
	atomic_store(&k->is_stopping, 1);
	pthread_join(k->thread, NULL);
	*ret = k->stats;
	fm_ticker_close_processes(k);
	if (k->loadavg_fd >= 0)
		close(k->loadavg_fd);
	free(k);
}
