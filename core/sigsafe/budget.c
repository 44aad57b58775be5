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
	if (!t->budget_cpu_ns)
		t->saved_ns = FM_SIG_SAVED_NS;
	else if (cpu_ns > t->budget_cpu_ns)
		t->saved_ns += (int64_t)((cpu_ns - t->budget_cpu_ns) * share / 1024);
	t->budget_cpu_ns = cpu_ns;
	t->saved_ns = FM_MIN(t->saved_ns, FM_SIG_SAVED_NS);
	return t->saved_ns > 0;
}

FM_SIGSAFE void fm_sig_budget_end(struct fm_sig_thread *t)
{
	uint64_t cycles = fm_cycles() - t->start_cycles, rate = fm_sig.header->cycles_per_1024ns;
	// Longer than its deadlines it takes only while another thread has the CPU.
	cycles = FM_MIN(cycles, 2 * fm_sig.sample_cycles);
	if (rate)
		t->saved_ns -= (int64_t)(cycles * 1024 / rate);
}
