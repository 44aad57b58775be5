// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/budget.h"

#include "sigsafe/base/sigsafe.h"

FM_SIGSAFE uint64_t fm_sig_cycles_in(uint64_t ns)
{
	// A collector that does not say sets no limits.
	uint64_t rate = fm_sig.header->cycles_per_1024ns;
	return rate ? ns * rate / 1024 : UINT64_MAX / 4;
}

FM_SIGSAFE void fm_sig_budget_start(void)
{
	fm_sig.sample_ns = fm_sig.header->max_overhead_1024 ? FM_SIG_SAMPLE_NS : FM_SIG_UNLIMITED_SAMPLE_NS;
	fm_sig.sample_cycles = fm_sig_cycles_in(fm_sig.sample_ns);
}

// A thread earns its share of the CPU time it uses, and spends what its samples take.
FM_SIGSAFE bool fm_sig_budget_allows(struct fm_sig_thread *t, uint64_t cpu_ns)
{
	uint32_t share = fm_sig.header->max_overhead_1024;
	if (!share)
		return true;
	int64_t earned_ns = FM_SIG_SAVED_NS;
	if (t->budget_cpu_ns)
		earned_ns = cpu_ns > t->budget_cpu_ns ? (int64_t)((cpu_ns - t->budget_cpu_ns) * share / 1024) : 0;
	t->budget_cpu_ns = cpu_ns;
	t->saved_ns = FM_MIN(t->saved_ns + earned_ns, FM_SIG_SAVED_NS);
	t->alloc_saved_ns = FM_MIN(t->alloc_saved_ns + earned_ns, FM_SIG_SAVED_NS);
	return t->saved_ns > 0;
}

FM_SIGSAFE __attribute__((cold)) bool fm_sig_is_time_up(struct fm_sig_thread *t)
{
	uint64_t now_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (!t->start_cpu_ns) // a hook, which does not ask at its beginning: it has its time once more
		t->start_cpu_ns = now_ns;
	uint64_t taken_ns = now_ns - t->start_cpu_ns;
	if (taken_ns >= t->may_take_ns)
		return true;
	t->deadline = fm_cycles() + fm_sig_cycles_in(t->may_take_ns - taken_ns);
	return false;
}

// What costs little is taken at the cycle counter's word.
#define LITTLE_NS 50000u

static FM_SIGSAFE int64_t spent_ns(const struct fm_sig_thread *t)
{
	uint64_t cycles = fm_cycles() - t->start_cycles, rate = fm_sig.header->cycles_per_1024ns;
	uint64_t ns = rate ? FM_MIN(cycles, 2 * fm_sig.sample_cycles) * 1024 / rate : 0;
	if (FM_UNLIKELY(ns > LITTLE_NS && t->start_cpu_ns))
		ns = FM_MIN(ns, fm_clock_ns(CLOCK_THREAD_CPUTIME_ID) - t->start_cpu_ns);
	return (int64_t)ns;
}

FM_SIGSAFE void fm_sig_budget_end(struct fm_sig_thread *t)
{
	t->saved_ns -= spent_ns(t);
}

FM_SIGSAFE void fm_sig_budget_end_alloc(struct fm_sig_thread *t)
{
	t->alloc_saved_ns -= spent_ns(t);
	if (!fm_sig.header->max_overhead_1024 || !t->budget_cpu_ns) // before its first tick a thread has earned nothing
		t->alloc_saved_ns = FM_MAX(t->alloc_saved_ns, 0);
	// It follows the debt, and so comes to rest where no more is spent than earned. Were it to
	// swing with each sample from nothing to its most, some blocks would count a thousand times
	// as much as others, and be the whole error of a sum.
	int64_t wanted = t->alloc_saved_ns < 0 ? 1 - t->alloc_saved_ns / FM_SIG_DEBT_NS : 0;
	if (wanted > t->alloc_pressure)
		t->alloc_pressure += t->alloc_pressure < FM_SIG_MAX_PRESSURE;
	else
		t->alloc_pressure -= wanted < t->alloc_pressure;
}
