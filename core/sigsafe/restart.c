#include "sigsafe/restart.h"

#include <errno.h>

#include "sigsafe/raw.h"

#include "sigsafe/sigsafe.h"

#if defined(__x86_64__)

FM_SIGSAFE bool fm_sig_is_after_syscall(struct fm_sig_thread *t, uint64_t pc)
{
	return fm_sig_readable(t, pc - 2, 2) && *(const uint16_t *)(pc - 2) == 0x050f;
}

FM_SIGSAFE int32_t fm_sig_syscall_number(struct fm_sig_thread *t, uint64_t pc)
{
	// rax holds the result by now; but libc loads the number right before the call.
	if (!fm_sig_readable(t, pc - 9, 9) || !fm_sig_is_after_syscall(t, pc))
		return -1;
	const uint8_t *p = (const uint8_t *)pc;
	int32_t nr = -1;
	if (p[-7] == 0xb8 || (p[-9] == 0x48 && p[-8] == 0xc7 && p[-7] == 0xc0)) // mov $nr, %eax; mov $nr, %rax
		nr = *(const int32_t *)(pc - 6);
	else if ((p[-4] == 0x31 || p[-4] == 0x33) && p[-3] == 0xc0) // xor %eax, %eax
		nr = SYS_read;
	return nr >= 0 && nr < FM_WIRE_N_SYSCALLS ? nr : -1;
}

// Calls that fail with EINTR only before they did anything, so that making them again is what an undisturbed thread would
// have seen. Not among them: close (the descriptor is gone already) and connect (goes on in the background).
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
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
		return true;
	}
	return false;
}

FM_SIGSAFE bool fm_sig_restart_syscall(struct fm_sig_thread *t, ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)regs[REG_RIP];
	if (regs[REG_RAX] != -EINTR || !fm_sig_is_after_syscall(t, pc))
		return false;
	// The number is gone from rax, but the arguments still stand in their registers. libc loads the number right before
	// the call: mov $nr, %eax (b8 nr nr nr nr).
	if (!fm_sig_readable(t, pc - 7, 7) || *(const uint8_t *)(pc - 7) != 0xb8)
		return false;
	uint32_t nr = *(const uint32_t *)(pc - 6);
	if (!is_repeatable(nr))
		return false;
	regs[REG_RAX] = (greg_t)nr;
	regs[REG_RIP] = (greg_t)(pc - 2);
	return true;
}

#else

FM_SIGSAFE bool fm_sig_is_after_syscall(struct fm_sig_thread *t, uint64_t pc)
{
	return fm_sig_readable(t, pc - 4, 4) && *(const uint32_t *)(pc - 4) == 0xd4000001u; // svc #0
}

FM_SIGSAFE int32_t fm_sig_syscall_number(struct fm_sig_thread *t, uint64_t pc)
{
	(void)t;
	(void)pc;
	return -1;
}

// The first argument shares its register with the result, so the call cannot be made again from here.
FM_SIGSAFE bool fm_sig_restart_syscall(struct fm_sig_thread *t, ucontext_t *uc)
{
	(void)t;
	(void)uc;
	return false;
}

#endif
