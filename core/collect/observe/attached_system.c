// SPDX-License-Identifier: Apache-2.0
// How much of a process that is observed from outside is system time.
//
// A thread that is asked to stop does so at its next way out of the kernel. One that works in
// bursts is often in its next sleep by then, and would be shown in a system call however little of
// its time these take. How much they do take, the kernel knows; what is met there beyond that was
// the program's own code, just before (sigsafe/tick/tick.c does the same for a program that was
// started under us).
#include <string.h>

#include "collect/observe/waiting_parts.h"
#include "collect/process/proc.h"

// How far the account may lag behind: it is kept by the kernel's clock tick, and told in hundredths
// of a second.
#define ACCOUNT_LAG_NS 18000000u
// It is asked for again when that could change the answer. With many threads it costs the kernel
// some ten microseconds.
#define ACCOUNT_AGAIN_NS 10000000u
// From a system call's instruction out to who made it: libc's function, what cancels threads, and
// one for luck.
#define MAX_CALL_FRAMES 3u

static uint64_t read_account_ns(uint32_t pid)
{
	return fm_process_ticks_ns(fm_process_stat(pid, FM_STAT_SYSTEM_TICKS));
}

void fm_wait_system_begin(struct wait_process *p)
{
	p->account_ns = p->first_account_ns = read_account_ns(p->pid);
}

static bool is_within_account(const struct wait_process *p, uint64_t weight_ns)
{
	return p->system_ns + weight_ns <= p->account_ns - p->first_account_ns + ACCOUNT_LAG_NS;
}

bool fm_wait_is_system(struct wait_process *p, uint64_t weight_ns, uint64_t now_ns)
{
	if (!is_within_account(p, weight_ns) && now_ns - p->account_at_ns >= ACCOUNT_AGAIN_NS) {
		p->account_ns = FM_MAX(read_account_ns(p->pid), p->account_ns);
		p->account_at_ns = now_ns;
	}
	if (!is_within_account(p, weight_ns))
		return false;
	p->system_ns += weight_ns;
	return true;
}

static bool is_in_python(struct wait_process *p, uint64_t frame)
{
	if (frame >> FM_WIRE_FRAME_SHIFT != FM_WIRE_FRAME_NATIVE)
		return frame >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_PYTHON;
	const struct fm_remote_image *image = fm_remote_find_image(p->remote, frame);
	return image && fm_remote_is_python(p->remote, image);
}

uint8_t fm_wait_step_back(struct fm_waiting *w, struct wait_process *p)
{
	struct fm_remote_stack *s = &w->stack;
	uint64_t *frames = s->frames.items;
	size_t call = s->frames.n && frames[0] >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_SYSCALL, n = call;
	while (n < call + MAX_CALL_FRAMES && n < s->frames.n &&
	       frames[n] >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_NATIVE && !is_in_python(p, frames[n]))
		n++;
	if (n < s->frames.n && !is_in_python(p, frames[n])) // other native code made the call
		n = FM_MIN(n, call + 1);
	if (n < s->frames.n) {
		s->frames.n -= n;
		memmove(frames, frames + n, s->frames.n * sizeof(*frames));
		s->leaf_idx = UINT32_MAX; // a return address
		s->precise_idx =
			s->precise_idx != UINT32_MAX && s->precise_idx >= n ? s->precise_idx - (uint32_t)n : UINT32_MAX;
	}
	return s->frames.n && is_in_python(p, frames[0]) ? FM_CLASS_PYTHON : FM_CLASS_NATIVE;
}
