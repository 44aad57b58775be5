// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/raw.h"

#include <sys/resource.h>

#include "sigsafe/base/sigsafe.h"

struct fm_sig_state fm_sig;
__thread struct fm_sig_thread *fm_sig_self __attribute__((tls_model("initial-exec")));

int (*fm_sig_getcpu_vdso)(unsigned *cpu, unsigned *node, void *unused);

FM_SIGSAFE unsigned fm_sig_cpu(void)
{
	unsigned cpu = 0;
	if (!fm_sig_getcpu_vdso || fm_sig_getcpu_vdso(&cpu, NULL, NULL) != 0)
		fm_system_call(SYS_getcpu, (long)&cpu, 0, 0, 0);
	return cpu;
}

FM_SIGSAFE uint64_t fm_sig_system_ns(void)
{
	struct rusage usage;
	if (fm_system_call(SYS_getrusage, RUSAGE_THREAD, (long)&usage, 0, 0) != 0)
		return UINT64_MAX / 2;
	// NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the kernel has filled it
	return (uint64_t)usage.ru_stime.tv_sec * 1000000000u + (uint64_t)usage.ru_stime.tv_usec * 1000u;
}
