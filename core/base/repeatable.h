// SPDX-License-Identifier: Apache-2.0
// Which system calls may be made again after EINTR. Read at signal time, and of threads that were
// stopped from outside.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/compiler.h"

// Calls that fail with EINTR only before they did anything, so that making them again is what an
// undisturbed thread would have seen; and connect, which goes on in the background, and mostly waits
// for the same connection when it is made again. Not among them: close (the descriptor is gone
// already).
static FM_ALWAYS_INLINE bool fm_call_is_repeatable(uint64_t nr)
{
	switch (nr) {
	case SYS_read:
	case SYS_write:
#ifdef SYS_poll // CPUs that Linux came to later have the successors of these alone
	case SYS_poll:
	case SYS_select:
	case SYS_pause:
	case SYS_epoll_wait:
#endif
	case SYS_nanosleep:
	case SYS_connect:
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
	case SYS_mq_timedsend:
	case SYS_mq_timedreceive:
	case SYS_pselect6:
	case SYS_ppoll:
	case SYS_epoll_pwait:
	case SYS_accept4:
	case SYS_readv:
	case SYS_writev:
	case SYS_sendmmsg:
	case SYS_sendfile:
	case SYS_splice:
#ifdef SYS_io_pgetevents
	case SYS_io_pgetevents:
#endif
	case SYS_recvmmsg:
	case SYS_getrandom:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_openat:
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
#ifdef SYS_io_uring_enter
	case SYS_io_uring_enter: // EINTR: it has taken no work, either
#endif
		return true;
	}
	return false;
}
