// SPDX-License-Identifier: Apache-2.0
// memcpy and its kin: counts the bytes and leaves with a jump to the real one. The address it jumps
// to is the one that the loader would have chosen for this CPU.
#include "base/compiler.h"
#include "agent/memory.h"

#include <string.h>
#include <strings.h>

#include "sigsafe/memory/alloc.h"

typedef void *(*copy_fn)(void *, const void *, size_t);

// Until the real one is known, which is at the latest in our constructor. volatile: else the
// compiler makes a call of memcpy of it.
static void *first_copy(void *to, const void *from, size_t n)
{
	volatile uint8_t *t = to;
	const volatile uint8_t *f = from;
	if ((uintptr_t)to - (uintptr_t)from >= n)
		for (size_t i = 0; i < n; i++)
			t[i] = f[i];
	else // the end of from lies in to
		for (size_t i = n; i--;)
			t[i] = f[i];
	return to;
}

// memmove for all: programs linked against an old libc rely on memcpy being right for overlapping
// ranges, which the old symbol version was. glibc has one and the same code for both.
static copy_fn real = first_copy;

bool fm_agent_copy_resolve(void)
{
	copy_fn fn = (copy_fn)fm_agent_next_symbol("memmove");
	if (fn)
		real = fn;
	return fn != NULL;
}

static __attribute__((noinline, cold)) void *copy_slowly(void *to, const void *from, size_t n)
{
	fm_sig_copy_sample(n);
	return real(to, from, n);
}

static inline void *copy(void *to, const void *from, size_t n)
{
	if (FM_UNLIKELY(n > fm_sig_alloc.copies.left))
		return copy_slowly(to, from, n);
	fm_sig_alloc.copies.left -= n;
	return real(to, from, n);
}

FM_EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	return copy(to, from, n);
}

FM_EXPORT void *memmove(void *to, const void *from, size_t n)
{
	return copy(to, from, n);
}

FM_EXPORT void *mempcpy(void *restrict to, const void *restrict from, size_t n)
{
	return (char *)copy(to, from, n) + n;
}

FM_EXPORT void bcopy(const void *from, void *to, size_t n)
{
	copy(to, from, n);
}

// What a fortified program calls: libc's own ends the program when the room is too small.
typedef void *(*checked_fn)(void *, const void *, size_t, size_t);

static void *checked(const char *name, void *to, const void *from, size_t n, size_t room)
{
	if (FM_UNLIKELY(n > room)) {
		checked_fn fn = (checked_fn)fm_agent_next_symbol(name);
		if (fn)
			return fn(to, from, n, room);
	}
	return copy(to, from, n);
}

FM_EXPORT void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room);
FM_EXPORT void *__memcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room)
{
	return checked("__memcpy_chk", to, from, n, room);
}

FM_EXPORT void *__memmove_chk(void *to, const void *from, size_t n, size_t room);
FM_EXPORT void *__memmove_chk(void *to, const void *from, size_t n, size_t room)
{
	return checked("__memmove_chk", to, from, n, room);
}

FM_EXPORT void *__mempcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room);
FM_EXPORT void *__mempcpy_chk(void *restrict to, const void *restrict from, size_t n, size_t room)
{
	return (char *)checked("__mempcpy_chk", to, from, n, room) + n;
}

OURS(memcpy);
OURS(memmove);
OURS(mempcpy);
OURS(bcopy);
OURS(__memcpy_chk);
OURS(__memmove_chk);
OURS(__mempcpy_chk);
const struct fm_agent_hook fm_agent_copy_hooks[] = {
	HOOK(memcpy),       HOOK(memmove),       HOOK(mempcpy),       HOOK(bcopy),
	HOOK(__memcpy_chk), HOOK(__memmove_chk), HOOK(__mempcpy_chk), { NULL, NULL },
};
