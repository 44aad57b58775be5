#include "sigsafe/budget.h"

#include "sigsafe/sigsafe.h"

FM_SIGSAFE uint64_t fm_sig_cycles_in(uint64_t ns)
{
	return ns * fm_sig.header->cycles_per_1024ns / 1024;
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

static FM_SIGSAFE int64_t spent_ns(const struct fm_sig_thread *t)
{
	uint64_t cycles = fm_cycles() - t->start_cycles, rate = fm_sig.header->cycles_per_1024ns;
	// Longer than its deadlines it takes only while another thread has the CPU.
	cycles = FM_MIN(cycles, 2 * fm_sig.sample_cycles);
	return rate ? (int64_t)(cycles * 1024 / rate) : 0;
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
	if (t->alloc_saved_ns < 0)
		t->alloc_pressure += t->alloc_pressure < FM_SIG_MAX_PRESSURE;
	else
		t->alloc_pressure -= t->alloc_pressure > 0;
}
