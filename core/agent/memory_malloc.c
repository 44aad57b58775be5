// SPDX-License-Identifier: Apache-2.0
// malloc and its kin. Every function counts the bytes asked for, and leaves with a jump to the real
// one unless the block is sampled: most calls add five instructions and no frame.
//
// These may be called before the constructor, by the dynamic linker itself: the table of real
// functions begins with ones that look for the real functions first. What that search asks for, it
// gets from a buffer of ours.
#include "base/compiler.h"
#include "agent/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sigsafe/memory/alloc.h"

#define SLOW __attribute__((noinline, cold))

// dlsym asks for some hundred bytes when it has an error to tell.
#define EARLY_BYTES 16384u
#define EARLY_ALIGN 16u

static _Alignas(EARLY_ALIGN) uint8_t early_bytes[EARLY_BYTES];
static _Atomic size_t early_used;

struct early_head { // in front of each early block
	size_t size, unused;
};

static void *early_take(size_t size)
{
	size_t whole = (sizeof(struct early_head) + size + EARLY_ALIGN - 1) & ~(size_t)(EARLY_ALIGN - 1);
	if (size > EARLY_BYTES || atomic_fetch_add(&early_used, whole) + whole > EARLY_BYTES)
		return NULL;
	struct early_head *head = (void *)(early_bytes + atomic_load(&early_used) - whole);
	head->size = size;
	fm_sig_live_mark(head + 1); // its freeing takes the slow path, where it is known
	return head + 1;
}

static bool is_early(const void *p)
{
	return (uintptr_t)p - (uintptr_t)early_bytes < EARLY_BYTES;
}

// ---- the real ones ----

static void *first_malloc(size_t size);
static void *first_calloc(size_t n, size_t size);
static void *first_realloc(void *p, size_t size);
static void first_free(void *p);
static void *first_memalign(size_t align, size_t size);
static void *first_aligned_alloc(size_t align, size_t size);
static int first_posix_memalign(void **ret, size_t align, size_t size);
static void *first_valloc(size_t size);
static void *first_pvalloc(size_t size);

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
} real = {
	first_malloc,        first_calloc,         first_realloc, first_free,    first_memalign,
	first_aligned_alloc, first_posix_memalign, first_valloc,  first_pvalloc,
};

void *fm_agent_next_symbol(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static bool is_resolving, is_resolved;
// What a call of realloc leads to in this program. Not always to ours: the program may have its own.
static void *(*program_realloc)(void *, size_t);

// One thread at most: it happens at the latest in our constructor. Nothing is changed unless all
// that counts is there.
static bool resolve(void)
{
	if (is_resolved || is_resolving)
		return is_resolved;
	is_resolving = true;
	void *(*malloc_)(size_t) = fm_agent_next_symbol("malloc");
	void *(*calloc_)(size_t, size_t) = fm_agent_next_symbol("calloc");
	void *(*realloc_)(void *, size_t) = fm_agent_next_symbol("realloc");
	void (*free_)(void *) = fm_agent_next_symbol("free");
	if (malloc_ && calloc_ && realloc_ && free_) {
		real.memalign = fm_agent_next_symbol("memalign");
		real.aligned_alloc = fm_agent_next_symbol("aligned_alloc");
		real.posix_memalign = fm_agent_next_symbol("posix_memalign");
		real.valloc = fm_agent_next_symbol("valloc");
		real.pvalloc = fm_agent_next_symbol("pvalloc");
		real.malloc = malloc_;
		real.calloc = calloc_;
		real.realloc = realloc_;
		real.free = free_;
		program_realloc = dlsym(RTLD_DEFAULT, "realloc");
		is_resolved = true;
	}
	is_resolving = false;
	return is_resolved;
}

static void *fail(void)
{
	errno = ENOMEM;
	return NULL;
}

static void *first_malloc(size_t size)
{
	return resolve() ? real.malloc(size) : early_take(size);
}

static void *first_calloc(size_t n, size_t size)
{
	size_t whole;
	if (__builtin_mul_overflow(n, size, &whole))
		return fail();
	return resolve() ? real.calloc(n, size) : early_take(whole); // static memory is zero
}

static void *first_realloc(void *p, size_t size)
{
	if (resolve())
		return real.realloc(p, size);
	void *moved = early_take(size);
	if (p && moved)
		memcpy(moved, p, ((struct early_head *)p)[-1].size < size ? ((struct early_head *)p)[-1].size : size);
	return moved;
}

static void first_free(void *p)
{
	if (p && resolve())
		real.free(p);
}

static void *first_memalign(size_t align, size_t size)
{
	return resolve() && real.memalign ? real.memalign(align, size) : fail();
}

static void *first_aligned_alloc(size_t align, size_t size)
{
	return resolve() && real.aligned_alloc ? real.aligned_alloc(align, size) : fail();
}

static int first_posix_memalign(void **ret, size_t align, size_t size)
{
	return resolve() && real.posix_memalign ? real.posix_memalign(ret, align, size) : ENOMEM;
}

static void *first_valloc(size_t size)
{
	return resolve() && real.valloc ? real.valloc(size) : fail();
}

static void *first_pvalloc(size_t size)
{
	return resolve() && real.pvalloc ? real.pvalloc(size) : fail();
}

// ---- ours ----

// Counts size ahead when the block is not to be sampled.
static inline bool pass(size_t size)
{
	if (FM_UNLIKELY(size > fm_sig_alloc.allocs.left))
		return false;
	fm_sig_alloc.allocs.left -= fm_sig_alloc.depth ? 0 : size;
	return true;
}

static SLOW void *malloc_slowly(size_t size)
{
	void *p = real.malloc(size);
	fm_sig_alloc_sample(p, size, FM_ALLOC_MALLOC);
	return p;
}

FM_EXPORT void *malloc(size_t size)
{
	return FM_LIKELY(pass(size)) ? real.malloc(size) : malloc_slowly(size);
}

static SLOW void *calloc_slowly(size_t n, size_t size)
{
	void *p = real.calloc(n, size);
	fm_sig_alloc_sample(p, (uint64_t)n * size, FM_ALLOC_MALLOC);
	return p;
}

FM_EXPORT void *calloc(size_t n, size_t size)
{
	size_t whole;
	if (FM_LIKELY(!__builtin_mul_overflow(n, size, &whole) && pass(whole)))
		return real.calloc(n, size);
	return calloc_slowly(n, size);
}

// True when that was all: the block is not the allocator's.
static SLOW bool free_slowly(void *p)
{
	fm_sig_alloc_freed(p);
	return is_early(p);
}

static inline void release(void *p)
{
	if (FM_UNLIKELY(fm_sig_live_may_have(p)) && free_slowly(p))
		return;
	real.free(p);
}

FM_EXPORT void free(void *p)
{
	release(p);
}

// C23; what is known of the size helps nobody here.
FM_EXPORT void free_sized(void *p, size_t size);
FM_EXPORT void free_sized(void *p, size_t size)
{
	(void)size;
	release(p);
}

FM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size);
FM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size)
{
	(void)align;
	(void)size;
	release(p);
}

static SLOW void *move_early(void *p, size_t size)
{
	void *moved = malloc(size);
	size_t old = ((struct early_head *)p)[-1].size;
	if (moved)
		memcpy(moved, p, old < size ? old : size);
	return moved;
}

// The old block leaves the table first: as soon as the real one returns, its address may be another
// thread's. A reallocation is the end of one block and the beginning of another, also in place.
static SLOW void *realloc_slowly(void *p, size_t size)
{
	if (is_early(p))
		return move_early(p, size);
	uint64_t id = fm_sig_alloc_take(p);
	void *moved = real.realloc(p, size);
	if (id && !moved && size)
		fm_sig_alloc_give_back(p, id); // it failed: the block lives on
	else if (id)
		fm_sig_alloc_id_freed(id);
	return size ? fm_sig_alloc_count(moved, size, FM_ALLOC_MALLOC) : moved;
}

static inline void *resize(void *p, size_t size)
{
	if (FM_LIKELY(!fm_sig_live_may_have(p) && pass(size)))
		return real.realloc(p, size);
	return realloc_slowly(p, size);
}

FM_EXPORT void *realloc(void *p, size_t size)
{
	return resize(p, size);
}

static void *fm_ours_realloc(void *p, size_t size);

// Whether a block of the program's may be given to the real one.
static bool is_realloc_known(void)
{
	return program_realloc == fm_ours_realloc || program_realloc == real.realloc || !program_realloc;
}

// A program that brings malloc, free and realloc mostly leaves this one to libc, whose own calls the program's realloc.
FM_EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t whole;
	if (__builtin_mul_overflow(n, size, &whole))
		return fail();
	return FM_LIKELY(is_realloc_known()) ? resize(p, whole) : program_realloc(p, whole);
}

FM_EXPORT void *memalign(size_t align, size_t size);
FM_EXPORT void *memalign(size_t align, size_t size)
{
	return fm_sig_alloc_count(real.memalign(align, size), size, FM_ALLOC_MALLOC);
}

FM_EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return fm_sig_alloc_count(real.aligned_alloc(align, size), size, FM_ALLOC_MALLOC);
}

FM_EXPORT int posix_memalign(void **ret, size_t align, size_t size)
{
	int err = real.posix_memalign(ret, align, size);
	if (err == 0)
		fm_sig_alloc_count(*ret, size, FM_ALLOC_MALLOC);
	return err;
}

FM_EXPORT void *valloc(size_t size)
{
	return fm_sig_alloc_count(real.valloc(size), size, FM_ALLOC_MALLOC);
}

FM_EXPORT void *pvalloc(size_t size);
FM_EXPORT void *pvalloc(size_t size)
{
	return fm_sig_alloc_count(real.pvalloc(size), size, FM_ALLOC_MALLOC);
}

OURS(malloc);
OURS(calloc);
OURS(realloc);
OURS(reallocarray);
OURS(free);
OURS(free_sized);
OURS(free_aligned_sized);
OURS(memalign);
OURS(aligned_alloc);
OURS(posix_memalign);
OURS(valloc);
OURS(pvalloc);
const struct fm_agent_hook fm_agent_malloc_hooks[] = {
	HOOK(malloc),
	HOOK(calloc),
	HOOK(realloc),
	HOOK(reallocarray),
	HOOK(free),
	HOOK(free_sized),
	HOOK(free_aligned_sized),
	HOOK(memalign),
	HOOK(aligned_alloc),
	HOOK(posix_memalign),
	HOOK(valloc),
	HOOK(pvalloc),
	{ NULL, NULL },
};

// Whether a program's call of malloc comes to us. Addresses do not tell: in an executable at a
// fixed place, malloc's is that of a jump to it. So one call is made as everybody makes it, and the
// countdown says who took it.
static bool is_reached(void)
{
	volatile uint64_t *left = &fm_sig_alloc.allocs.left; // the compiler believes that malloc changes nothing
	uint64_t before = *left;
	*left = 4096;
	void *volatile p = malloc(16);
	bool is_ours = *left == 4096 - 16;
	free(p);
	*left = before;
	return is_ours;
}

bool fm_agent_malloc_resolve(void)
{
	return resolve() && is_reached();
}
