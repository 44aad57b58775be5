// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/tick/restart.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "base/repeatable.h"
#include "sigsafe/tick/pending.h"
#include "sigsafe/base/fault.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/unwind/unwind.h"
#include "sigsafe/tick/tick.h"

#include "sigsafe/base/sigsafe.h"

uintptr_t fm_sig_own_syscall;

#if defined(__x86_64__)

FM_SIGSAFE bool fm_sig_is_after_syscall(uint64_t pc)
{
	uint16_t op;
	return fm_sig_read_u16(pc - 2, &op) && op == 0x050f;
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
	uint64_t own;
	if (pc == fm_sig_own_syscall)
		return fm_sig_read_u64((uint64_t)uc->uc_mcontext.gregs[REG_RSP] - 8, &own) && own <= UINT16_MAX
			       ? (uint32_t)own
			       : UINT32_MAX;
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
static FM_SIGSAFE bool is_blocking_stream(int fd, bool *is_socket)
{
	struct stat st;
	long flags = fm_system_call(SYS_fcntl, fd, F_GETFL, 0, 0);
	if (flags < 0 || flags & O_NONBLOCK || fm_system_call(SYS_fstat, fd, (long)&st, 0, 0) != 0)
		return false;
	// NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the kernel has filled it
	*is_socket = S_ISSOCK(st.st_mode);
	return *is_socket || S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode);
}

// What the handler may still push after this, with room to spare.
#define HANDLER_REST 1024u
// A handler that began right below the thread's stack pointer, the kernel's frame between them, has
// gone no deeper than this.
#define SAME_STACK 65536u
#define RED_ZONE 128u    // below a leaf function's stack pointer: its own
#define MAX_PIECES 1024u // UIO_MAXIOV of the kernel
// Of character devices: the major number, and of those the minor ones of /dev/zero, /dev/full,
// /dev/random and /dev/urandom. A read of /dev/kmsg (11) gives one record and waits for the next.
#define MEMORY_DEVICES 1u
#define ENDLESS_DEVICES (1u << 5 | 1u << 7 | 1u << 8 | 1u << 9)

// What reads of these give ends short for no other reason than a signal.
static FM_SIGSAFE bool is_endless(int fd)
{
	struct stat st;
	if (fm_system_call(SYS_fstat, fd, (long)&st, 0, 0) != 0)
		return false;
	// NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the kernel has filled it
	return S_ISCHR(st.st_mode) && major(st.st_rdev) == MEMORY_DEVICES && minor(st.st_rdev) < 32 &&
	       ENDLESS_DEVICES >> minor(st.st_rdev) & 1;
}

// -1 when it cannot be told.
static FM_SIGSAFE int socket_option(int fd, int name)
{
	int value = 0;
	uint32_t size = sizeof(value);
	return fm_system_call6(SYS_getsockopt, fd, SOL_SOCKET, name, (long)&value, (long)&size, 0) == 0 ? value : -1;
}

// A packet is all that there is of it.
static FM_SIGSAFE bool is_stream_socket(int fd)
{
	return socket_option(fd, SO_TYPE) == SOCK_STREAM;
}

// What the program gave such calls to wait is counted over all of one: one that goes on would start
// anew. True also when it cannot be told.
static FM_SIGSAFE bool has_timeout(int fd, int name)
{
	struct timeval limit = { 0 };
	uint32_t size = sizeof(limit);
	return fm_system_call6(SYS_getsockopt, fd, SOL_SOCKET, name, (long)&limit, (long)&size, 0) != 0 ||
	       limit.tv_sec || limit.tv_usec;
}

// A call that is to do all of it, for a stream that waits. A socket's goes on only where nothing
// tells that it did: it has no time limit, and an error that comes meanwhile is for the next call.
static FM_SIGSAFE bool is_to_do_all(int fd, bool receives, int flags, struct fm_sig_resume *resume)
{
	bool is_socket;
	if (flags & MSG_DONTWAIT || !is_blocking_stream(fd, &is_socket))
		return false;
	if (!is_socket)
		return true;
	if (flags & MSG_ZEROCOPY || has_timeout(fd, receives ? SO_RCVTIMEO : SO_SNDTIMEO))
		return false;
	resume->wait = (struct pollfd){ .fd = fd, .events = receives ? POLLIN : POLLOUT };
	resume->stop = receives ? POLLERR | POLLNVAL : POLLERR | POLLHUP | POLLNVAL;
	return true;
}

// TCP waits for the connection that is under way, and says how that one ended; a unix socket has
// done nothing yet. Others may say EALREADY.
static FM_SIGSAFE bool may_connect_again(int fd)
{
	int domain = socket_option(fd, SO_DOMAIN);
	return domain == AF_UNIX ||
	       ((domain == AF_INET || domain == AF_INET6) && socket_option(fd, SO_PROTOCOL) == IPPROTO_TCP);
}

// The call for the rest of a file finds its end, or a full disk, and says so without harm; only a
// limit of size would be told of by a signal, one call too early.
static FM_SIGSAFE bool is_unlimited_file(int fd)
{
	struct stat st;
	struct rlimit limit;
	return fm_system_call(SYS_fstat, fd, (long)&st, 0, 0) == 0 && S_ISREG(st.st_mode) &&
	       fm_system_call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

// Messages that a blocking call has not got to. Part of a stream's message would be followed by the
// next one.
static FM_SIGSAFE bool has_more_messages(uint32_t nr, int fd, const greg_t *regs, uint64_t done)
{
	bool is_socket;
	if ((uint32_t)regs[REG_RDX] <= done || regs[REG_R10] & MSG_DONTWAIT || !is_blocking_stream(fd, &is_socket))
		return false;
	if (nr == SYS_sendmmsg)
		return !is_stream_socket(fd) && !has_timeout(fd, SO_SNDTIMEO);
	if (regs[REG_R10] & (MSG_WAITFORONE | MSG_ERRQUEUE))
		return false;
	if (!regs[REG_R8] && !has_timeout(fd, SO_RCVTIMEO))
		return true;
	// Who waits for a time has waited. But the kernel keeps why it ended for the next call,
	// which would fail by a number that no program knows (ERESTARTSYS): asking takes it away.
	socket_option(fd, SO_ERROR);
	return false;
}

// Where in a list of pieces a call was cut short: its rest goes into rsi and rdx, and the pieces
// behind it into resume. False when it was not.
static FM_SIGSAFE bool find_piece(greg_t *regs, uint64_t pieces, uint64_t n_pieces, struct fm_sig_resume *resume)
{
	uint64_t done = resume->done;
	for (uint64_t i = 0; i < n_pieces && i < MAX_PIECES; i++, pieces += sizeof(struct iovec)) {
		uint64_t base, len;
		if (!fm_sig_read_u64(pieces + offsetof(struct iovec, iov_base), &base) ||
		    !fm_sig_read_u64(pieces + offsetof(struct iovec, iov_len), &len))
			return false;
		if (done >= len) {
			done -= len;
			continue;
		}
		resume->pieces = pieces + sizeof(struct iovec);
		resume->n_pieces = n_pieces - i - 1;
		regs[REG_RSI] = (greg_t)(base + done);
		regs[REG_RDX] = (greg_t)(len - done);
		return true;
	}
	return false;
}

// The same of a message: what goes on is sendto or recvfrom, with the flags that it had.
static FM_SIGSAFE bool find_message_piece(greg_t *regs, struct fm_sig_resume *resume)
{
	uint64_t message = (uint64_t)regs[REG_RSI], pieces, n_pieces;
	if (!fm_sig_read_u64(message + offsetof(struct msghdr, msg_iov), &pieces) ||
	    !fm_sig_read_u64(message + offsetof(struct msghdr, msg_iovlen), &n_pieces) ||
	    !find_piece(regs, pieces, n_pieces, resume))
		return false;
	regs[REG_R10] = (greg_t)resume->rdx; // its flags
	regs[REG_R8] = regs[REG_R9] = 0;
	return true;
}

// Sets the registers of the call that does the rest, and returns where it is made; NULL when there
// is none, or none that is known.
static FM_SIGSAFE const char *find_rest(uint32_t nr, greg_t *regs, struct fm_sig_resume *resume)
{
	uint64_t done = resume->done, control;
	int fd = (int)regs[REG_RDI], flags = 0;
	greg_t *at = &regs[REG_RSI], *len = &regs[REG_RDX];
	const char *ret = NULL;
	switch (nr) {
	case SYS_write:
		ret = fm_sig_resume_write;
		break;
	case SYS_sendto:
		flags = (int)regs[REG_R10];
		ret = fm_sig_resume_sendto;
		break;
	case SYS_recvfrom:
		flags = (int)regs[REG_R10];
		if (!(flags & MSG_WAITALL) || flags & (MSG_PEEK | MSG_TRUNC | MSG_OOB) || !is_stream_socket(fd))
			return NULL;
		ret = fm_sig_resume_recvfrom;
		break;
	case SYS_writev:
		return is_to_do_all(fd, false, 0, resume) && find_piece(regs, (uint64_t)*at, (uint64_t)*len, resume)
			       ? fm_sig_resume_writev
			       : NULL;
	case SYS_sendmsg:
		if (!is_stream_socket(fd) || !is_to_do_all(fd, false, (int)*len, resume) ||
		    !find_message_piece(regs, resume))
			return NULL;
		return fm_sig_resume_sendmsg;
	case SYS_sendfile:
		if ((uint64_t)regs[REG_R10] <= done || !(is_to_do_all(fd, false, 0, resume) || is_unlimited_file(fd)))
			return NULL;
		regs[REG_R10] -= (greg_t)done;
		return fm_sig_resume_sendfile;
	case SYS_copy_file_range:
		if ((uint64_t)regs[REG_R8] <= done || !is_unlimited_file((int)*len))
			return NULL;
		regs[REG_R8] -= (greg_t)done;
		return fm_sig_resume_copy_file_range;
	case SYS_sendmmsg:
	case SYS_recvmmsg:
		if (!has_more_messages(nr, fd, regs, done))
			return NULL;
		*at += (greg_t)(done * sizeof(struct mmsghdr));
		*len -= (greg_t)done;
		return nr == SYS_sendmmsg ? fm_sig_resume_sendmmsg : fm_sig_resume_recvmmsg;
	case SYS_recvmsg:
		// What comes with the bytes would be lost to who has room for it.
		if (!(*len & MSG_WAITALL) || *len & (MSG_PEEK | MSG_TRUNC | MSG_OOB | MSG_ERRQUEUE) ||
		    !is_stream_socket(fd) || !is_to_do_all(fd, true, (int)*len, resume) ||
		    !fm_sig_read_u64((uint64_t)*at + offsetof(struct msghdr, msg_control), &control) || control ||
		    !find_message_piece(regs, resume))
			return NULL;
		return fm_sig_resume_recvmsg;
	case SYS_readv:
	case SYS_preadv:
	case SYS_preadv2:
		return is_endless(fd) && find_piece(regs, (uint64_t)*at, (uint64_t)*len, resume) ? fm_sig_resume_readv
												 : NULL;
	case SYS_read:
	case SYS_pread64:
		ret = fm_sig_resume_read;
		break;
	case SYS_getrandom:
		ret = fm_sig_resume_getrandom;
		at = &regs[REG_RDI];
		len = &regs[REG_RSI];
		break;
	}
	if (!ret || (uint64_t)*len <= done)
		return NULL;
	if (ret == fm_sig_resume_read
		    ? !is_endless(fd)
		    : nr != SYS_getrandom && !is_to_do_all(fd, ret == fm_sig_resume_recvfrom, flags, resume))
		return NULL;
	*at += (greg_t)done;
	*len -= (greg_t)done;
	return ret;
}

// A connection that goes on in the background.
static FM_SIGSAFE const char *find_connect(const greg_t *regs)
{
	return regs[REG_RAX] == -EINTR && may_connect_again((int)regs[REG_RDI]) ? fm_sig_resume_connect : NULL;
}

static FM_SIGSAFE bool resume_rest(struct fm_sig_thread *t, ucontext_t *uc, uint64_t pc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	if (fm_sig_is_resuming(pc))
		return false;
	uint64_t sp = (uint64_t)regs[REG_RSP];
	struct fm_sig_resume rest = {
		.done = (uint64_t)regs[REG_RAX],
		.pc = pc,
		.sp = sp,
		.rsi = (uint64_t)regs[REG_RSI],
		.rdx = (uint64_t)regs[REG_RDX],
		.r10 = (uint64_t)regs[REG_R10],
		.r8 = (uint64_t)regs[REG_R8],
		.r9 = (uint64_t)regs[REG_R9],
	};
	uint32_t nr = find_number(t, uc);
	const char *where = nr == SYS_connect ? find_connect(regs) : find_rest(nr, regs, &rest);
	if (!where)
		return false;
	// Where the thread goes on must be none of what the handler still stands on, the kernel's
	// frame included: below all of it, or, when we run on an alternate stack, below the red
	// zone of the thread's own.
	uint64_t here = (uint64_t)__builtin_frame_address(0) - HANDLER_REST;
	if (here > sp || sp - here > SAME_STACK)
		here = sp - RED_ZONE - sizeof(rest);
	here &= ~15ull;
	fm_sig_copy((void *)here, &rest, sizeof(rest));
	regs[REG_RSP] = (greg_t)here;
	regs[REG_RIP] = (greg_t)where;
	return true;
}

// A call that did something, or nothing. What it should have done only its number tells.
static FM_SIGSAFE bool is_cut_short(const greg_t *regs)
{
	return regs[REG_RAX] == -EINTR || regs[REG_RAX] > 0;
}

FM_SIGSAFE void fm_sig_mark_interrupted(ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	if (regs[REG_RCX] != regs[REG_RIP] || !is_cut_short(regs))
		return;
	// Also a jump through rcx leads to where rcx says, and what is there may count on it. The
	// program's handler may have blocked what a read of ours raises, and may have come in between
	// reads of a hook's.
	bool was_recoverable = fm_sig_is_recoverable;
	fm_sig_fault_check(NULL);
	if (fm_sig_is_after_syscall((uint64_t)regs[REG_RIP]))
		regs[REG_RCX] = 0; // changed by every system call: nobody counts on it
	fm_sig_is_recoverable = was_recoverable;
}

FM_SIGSAFE bool fm_sig_restart_syscall(struct fm_sig_thread *t, ucontext_t *uc)
{
	greg_t *regs = uc->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)regs[REG_RIP], flags;
	// The kernel is about to make the call again because our handler has SA_RESTART; the
	// program's own may not have it.
	if ((uint64_t)regs[REG_RCX] == pc + 2 && fm_sig_is_after_syscall(pc + 2)) {
		if (fm_call_is_repeatable((uint32_t)regs[REG_RAX]) && fm_sig_is_theirs_pending(uc, &flags) &&
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
	if (!is_cut_short(regs) || fm_sig_is_theirs_pending(uc, &flags))
		return false;
	if (regs[REG_RAX] > 0)
		return resume_rest(t, uc, pc);
	uint32_t nr = find_number(t, uc);
	if (nr == SYS_connect && !fm_sig_is_resuming(pc))
		return resume_rest(t, uc, pc);
	if (!fm_call_is_repeatable(nr))
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
