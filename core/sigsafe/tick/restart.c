// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/tick/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "sigsafe/tick/pending.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/unwind/unwind.h"
#include "sigsafe/tick/tick.h"

#include "sigsafe/base/sigsafe.h"

#if defined(__x86_64__)

FM_SIGSAFE bool fm_sig_is_after_syscall(uint64_t pc)
{
	uint16_t op;
	return fm_sig_read_u16(pc - 2, &op) && op == 0x050f;
}

// Calls that fail with EINTR only before they did anything, so that making them again is what an
// undisturbed thread would have seen. Not among them: close (the descriptor is gone already) and
// connect (goes on in the background).
static FM_SIGSAFE bool is_repeatable(uint32_t nr)
{
	switch (nr) {
	case SYS_read:
	case SYS_write:
	case SYS_poll:
	case SYS_select:
	case SYS_pause:
	case SYS_nanosleep:
	case SYS_accept:
	case SYS_sendto:
	case SYS_recvfrom:
	case SYS_sendmsg:
	case SYS_recvmsg:
	case SYS_semop:
	case SYS_msgsnd:
	case SYS_msgrcv:
	case SYS_flock:
	case SYS_rt_sigtimedwait:
	case SYS_rt_sigsuspend:
	case SYS_futex:
	case SYS_io_getevents:
	case SYS_semtimedop:
	case SYS_clock_nanosleep:
	case SYS_epoll_wait:
	case SYS_mq_timedsend:
	case SYS_mq_timedreceive:
	case SYS_pselect6:
	case SYS_ppoll:
	case SYS_epoll_pwait:
	case SYS_accept4:
	case SYS_recvmmsg:
	case SYS_getrandom:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_openat:
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
		return true;
	}
	return false;
}

// How far before the call its number may be loaded: the last arguments come after it in some of
// libc's functions.
#define MAX_NUMBER_GAP 16

// From glibc 2.41 on, calls that a thread may be cancelled in get their number as an argument. A
// program of one thread loads it from the stack (mov disp8(%rsp), %rax; syscall). Others go through
// a function that lets go of it (mov %r11, 8(%rsp); syscall), whose caller got it as seventh
// argument: it lies right above the caller's frame. UINT32_MAX when it is neither.
static FM_SIGSAFE uint32_t find_number_of_cancellable(struct fm_sig_thread *t, const ucontext_t *uc)
{
	uint64_t pc = fm_sig_context_pc(uc), nr;
	uint8_t before[7];
	if (!t || !fm_sig_read(pc - sizeof(before), before, sizeof(before)) || before[3] != 0x24)
		return UINT32_MAX;
	if (before[0] == 0x48 && before[1] == 0x8b && before[2] == 0x44) {
		uint64_t at = (uint64_t)uc->uc_mcontext.gregs[REG_RSP] + before[4];
		return fm_sig_read_u64(at, &nr) && nr <= UINT16_MAX ? (uint32_t)nr : UINT32_MAX;
	}
	if (before[0] != 0x4c || before[1] != 0x89 || before[2] != 0x5c || before[4] != 8)
		return UINT32_MAX;
	fm_sig_unwind(t, uc);
	return t->n_native > 2 && fm_sig_read_u64(t->native[1].cfa, &nr) && nr <= UINT16_MAX ? (uint32_t)nr
											     : UINT32_MAX;
}

// The number of the call that was interrupted, UINT32_MAX when it cannot be told. It is gone from
// rax, but libc loads it as a constant close before: mov $nr, %eax (b8 nr nr nr nr), or xor %eax,
// %eax for number 0.
static FM_SIGSAFE uint32_t find_number(struct fm_sig_thread *t, const ucontext_t *uc)
{
	uint64_t pc = fm_sig_context_pc(uc);
	uint8_t code[6 + MAX_NUMBER_GAP], *call = code + sizeof(code); // up to the call
	uint32_t nr = find_number_of_cancellable(t, uc);
	if (nr != UINT32_MAX)
		return nr;
	if (!fm_sig_read(pc - 2 - sizeof(code), code, sizeof(code)))
		return UINT32_MAX;
	for (unsigned gap = 0; gap <= MAX_NUMBER_GAP; gap++) {
		const uint8_t *at = call - gap;
		if (gap == 0 && at[-2] == 0x31 && at[-1] == 0xc0)
			return SYS_read;
		// Preceded by 0x41 it would load r8.
		if (at[-5] == 0xb8 && at[-6] != 0x41 && at[-2] == 0 && at[-1] == 0 && (at[-4] || at[-3]))
			return (uint32_t)at[-4] | (uint32_t)at[-3] << 8;
	}
	return UINT32_MAX;
}

FM_SIGSAFE int32_t fm_sig_syscall_number(struct fm_sig_thread *t, const ucontext_t *uc)
{
	uint32_t nr = fm_sig_is_after_syscall(fm_sig_context_pc(uc)) ? find_number(t, uc) : UINT32_MAX;
	return nr < FM_WIRE_N_SYSCALLS ? (int32_t)nr : -1;
}

// Pipes, sockets and terminals that are to take all of it or wait. A file ends short for a reason
// of its own.
static FM_SIGSAFE bool is_blocking_stream(int fd)
{
	struct stat st;
	long flags = fm_sig_syscall(SYS_fcntl, fd, F_GETFL, 0, 0);
	if (flags < 0 || flags & O_NONBLOCK || fm_sig_syscall(SYS_fstat, fd, (long)&st, 0, 0) != 0)
		return false;
	// NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the kernel has filled it
	return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode);
}

// What the handler may still push after this, with room to spare.
#define HANDLER_REST 1024u
// A handler that began right below the thread's stack pointer, the kernel's frame between them, has
// gone no deeper than this.
#define SAME_STACK 65536u
#define RED_ZONE 128u // below a leaf function's stack pointer: its own

static FM_SIGSAFE bool resume_write(struct fm_sig_thread *t, ucontext_t *uc, uint64_t pc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	uint64_t done = (uint64_t)regs[REG_RAX];
	uint32_t nr = find_number(t, uc);
	if (nr != SYS_write && !(nr == SYS_sendto && !(regs[REG_R10] & MSG_DONTWAIT)))
		return false;
	if (fm_sig_is_resuming(pc) || !is_blocking_stream((int)regs[REG_RDI]))
		return false;
	// Where the thread goes on must be none of what the handler still stands on, the kernel's
	// frame included: below all of it, or, when we run on an alternate stack, below the red
	// zone of the thread's own.
	uint64_t sp = (uint64_t)regs[REG_RSP];
	uint64_t here = (uint64_t)__builtin_frame_address(0) - HANDLER_REST;
	if (here > sp || sp - here > SAME_STACK)
		here = sp - RED_ZONE - sizeof(struct fm_sig_resume);
	here &= ~15ull;
	struct fm_sig_resume *resume = (struct fm_sig_resume *)here;
	resume->done = done;
	resume->pc = pc;
	resume->sp = sp;
	regs[REG_RSP] = (greg_t)here;
	regs[REG_RSI] += (greg_t)done;
	regs[REG_RDX] -= (greg_t)done;
	regs[REG_RIP] = (greg_t)(nr == SYS_write ? fm_sig_resume_write : fm_sig_resume_sendto);
	return true;
}

FM_SIGSAFE void fm_sig_mark_interrupted(ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	bool is_cut_short = regs[REG_RAX] == -EINTR || (regs[REG_RAX] > 0 && regs[REG_RAX] < regs[REG_RDX]);
	if (regs[REG_RCX] == regs[REG_RIP] && is_cut_short)
		regs[REG_RCX] = 0; // changed by every system call: nobody counts on it
}

FM_SIGSAFE bool fm_sig_restart_syscall(struct fm_sig_thread *t, ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)regs[REG_RIP], flags;
	// The kernel is about to make the call again because our handler has SA_RESTART; the
	// program's own may not have it.
	if ((uint64_t)regs[REG_RCX] == pc + 2 && fm_sig_is_after_syscall(pc + 2)) {
		if (is_repeatable((uint32_t)regs[REG_RAX]) && fm_sig_is_theirs_pending(uc, &flags) &&
		    !(flags & SA_RESTART)) {
			regs[REG_RAX] = -EINTR;
			regs[REG_RIP] = (greg_t)pc + 2;
		}
		return false;
	}
	// The syscall instruction leaves its return address in rcx; fm_sig_mark_interrupted takes
	// it away.
	if ((uint64_t)regs[REG_RCX] != pc || !fm_sig_is_after_syscall(pc))
		return false;
	bool is_partial = regs[REG_RAX] > 0 && regs[REG_RAX] < regs[REG_RDX];
	if (!(is_partial || regs[REG_RAX] == -EINTR) || fm_sig_is_theirs_pending(uc, &flags))
		return false;
	if (is_partial)
		return resume_write(t, uc, pc);
	uint32_t nr = find_number(t, uc);
	if (!is_repeatable(nr))
		return false;
	regs[REG_RAX] = (greg_t)nr;
	regs[REG_RIP] = (greg_t)(pc - 2);
	return true;
}

#else

FM_SIGSAFE bool fm_sig_is_after_syscall(uint64_t pc)
{
	uint32_t op;
	return fm_sig_read_u32(pc - 4, &op) && op == 0xd4000001u; // svc #0
}

FM_SIGSAFE void fm_sig_mark_interrupted(ucontext_t *uc)
{
	(void)uc;
}

FM_SIGSAFE int32_t fm_sig_syscall_number(struct fm_sig_thread *t, const ucontext_t *uc)
{
	(void)t;
	(void)uc;
	return -1;
}

// The first argument shares its register with the result, so the call cannot be made again from
// here.
FM_SIGSAFE bool fm_sig_restart_syscall(struct fm_sig_thread *t, ucontext_t *uc)
{
	(void)t;
	(void)uc;
	return false;
}

#endif
