// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/fault.h"

#include <signal.h>

#include "sigsafe/base/raw.h"
#include "sigsafe/base/read.h"

#include "sigsafe/base/sigsafe.h"

// What our fault handler takes of a stack beside the kernel's frame, with room to spare.
#define HANDLER_BYTES 1024u

#define FAULT_SIGNALS (1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1))

struct fixup {
	int32_t load, after; // from the field itself
};

extern const struct fixup __start_fm_fixups[] __attribute__((visibility("hidden")));
extern const struct fixup __stop_fm_fixups[] __attribute__((visibility("hidden")));

uintptr_t fm_sig_fault_handler;
size_t fm_sig_frame_bytes = 4096;

FM_SIGSAFE bool fm_sig_fault(ucontext_t *uc)
{
#if defined(__x86_64__)
	greg_t *pc = &uc->uc_mcontext.gregs[REG_RIP];
#else
	unsigned long long *pc = &uc->uc_mcontext.pc;
#endif
	for (const struct fixup *f = __start_fm_fixups; f < __stop_fm_fixups; f++) {
		if ((uintptr_t)&f->load + (uintptr_t)(intptr_t)f->load != (uintptr_t)*pc)
			continue;
		*pc = (__typeof__(*pc))((uintptr_t)&f->after + (uintptr_t)(intptr_t)f->after);
		return true;
	}
	return false;
}

FM_SIGSAFE size_t fm_sig_room(const ucontext_t *uc)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), start = (uintptr_t)uc->uc_stack.ss_sp;
	if (uc->uc_stack.ss_flags & SS_DISABLE || here - start >= uc->uc_stack.ss_size)
		return SIZE_MAX;
	return here - start;
}

// The next signal frame goes to the signal stack, below us if we are on it, from its top else; or,
// without one, below us on the thread's own, of which nothing is known but that this handler had
// room there.
static FM_SIGSAFE bool has_room(const stack_t *signal_stack)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), start = (uintptr_t)signal_stack->ss_sp;
	if (signal_stack->ss_flags & SS_DISABLE || !signal_stack->ss_size)
		return true;
	size_t room = here - start < signal_stack->ss_size ? here - start : signal_stack->ss_size;
	return room >= FM_SIG_WALK_BYTES + fm_sig_frame_bytes + HANDLER_BYTES; // the fault comes deep in a walk
}

// Whoever takes SIGSEGV past us takes SIGBUS, too, and that one is rare: it is asked for once in so
// many times. A question is 0.1 us.
#define CHECKS_PER_BUS_CHECK 32u
static __thread uint8_t n_until_bus_check __attribute__((tls_model("initial-exec")));

static FM_SIGSAFE bool is_handled_by_us(int sig)
{
	struct fm_sig_kernel_action act = { 0 };
	return fm_system_call(SYS_rt_sigaction, sig, 0, (long)&act, sizeof(act.mask)) == 0 &&
	       act.handler == fm_sig_fault_handler;
}

static FM_SIGSAFE bool is_recoverable(const ucontext_t *uc)
{
	uint64_t blocked = FAULT_SIGNALS;
	stack_t signal_stack = { .ss_flags = SS_DISABLE };
	if (!fm_sig_fault_handler)
		return false;
	if (uc) {
		blocked = *(const uint64_t *)&uc->uc_sigmask;
		signal_stack = uc->uc_stack;
	} else if (fm_system_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&blocked, sizeof(blocked)) != 0 ||
		   fm_system_call(SYS_sigaltstack, 0, (long)&signal_stack, 0, 0) != 0) {
		return false;
	}
	if (blocked & FAULT_SIGNALS || !has_room(&signal_stack) || !is_handled_by_us(SIGSEGV))
		return false;
	if (n_until_bus_check && fm_sig_is_recoverable) {
		n_until_bus_check--;
		return true;
	}
	n_until_bus_check = CHECKS_PER_BUS_CHECK;
	return is_handled_by_us(SIGBUS);
}

FM_SIGSAFE void fm_sig_fault_check(const ucontext_t *uc)
{
	fm_sig_is_recoverable = is_recoverable(uc);
}

#ifdef FM_INJECT_FAULTS
uint32_t fm_sig_inject_nth;
static __thread uint32_t n_reads __attribute__((tls_model("initial-exec")));

FM_SIGSAFE uintptr_t fm_sig_inject(uintptr_t addr)
{
	// Before our handlers stand, and after, images are read that cannot go (fm_agent_symbol).
	if (fm_sig_inject_nth && fm_sig_fault_handler && ++n_reads % fm_sig_inject_nth == 0)
		return 4096; // nobody maps the second page: the kernel does not let ordinary programs
	return addr;
}
#endif
