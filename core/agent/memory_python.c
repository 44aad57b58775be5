// SPDX-License-Identifier: Apache-2.0
// Python's own allocators: raw (malloc), mem and obj (pymalloc, by default). A hook calls what was
// there before it; it adds no header to a block, because free-threaded builds find objects by where
// their blocks lie.
//
// With pymalloc, blocks of up to 512 bytes are cut from arenas. Nothing but a new arena is asked of
// malloc or mmap then, and arenas have a hook of their own; so for these blocks, which are nearly
// all, nobody needs to know that Python is inside one of its allocators, and the hook is a
// countdown and a jump. All else is bracketed by fm_sig_alloc.depth.
#include "agent/agent.h"
#include "agent/memory.h"

#include <stdatomic.h>

#include "sigsafe/memory/alloc.h"
#include "sigsafe/memory/exact.h"
#include "sigsafe/memory/exact_quick.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/python/thread_state.h"
#include "sigsafe/base/state.h"

#define PYMALLOC_MAX_BYTES 512u // SMALL_REQUEST_THRESHOLD of all versions
#define SLOW __attribute__((noinline, cold))

// PyMemAllocatorEx and PyObjectArenaAllocator as the C API documents them; the functions are weak,
// for programs without Python.
struct py_allocator {
	void *ctx;
	void *(*malloc)(void *ctx, size_t size);
	void *(*calloc)(void *ctx, size_t n, size_t size);
	void *(*realloc)(void *ctx, void *p, size_t size);
	void (*free)(void *ctx, void *p);
};

struct py_arena_allocator {
	void *ctx;
	void *(*alloc)(void *ctx, size_t size);
	void (*free)(void *ctx, void *p, size_t size);
};

enum { PY_RAW = 0, PY_MEM = 1, PY_OBJ = 2 }; // PyMemAllocatorDomain

extern void PyMem_GetAllocator(int domain, struct py_allocator *ret) __attribute__((weak));
extern void PyMem_SetAllocator(int domain, struct py_allocator *with) __attribute__((weak));
extern void PyObject_GetArenaAllocator(struct py_arena_allocator *ret) __attribute__((weak));
extern void PyObject_SetArenaAllocator(struct py_arena_allocator *with) __attribute__((weak));

// What we stand in front of. Written before the hook is installed and not changed while it is.
static struct domain {
	struct py_allocator real;
	unsigned domain; // enum fm_alloc_domain
} domains[3] = {
	[PY_RAW] = { .domain = FM_ALLOC_RAW },
	[PY_MEM] = { .domain = FM_ALLOC_MEM },
	[PY_OBJ] = { .domain = FM_ALLOC_OBJ },
};
static struct py_arena_allocator real_arena;
// With pymalloc: one set of functions, and no context, for mem and obj.
static struct py_allocator pymalloc;

// Written by hooks for blocks that pymalloc does not cut: which of them this thread has come to.
static __thread uint8_t asked; // bits, by nth domain

static inline void note_asked(const struct domain *d)
{
	asked |= (uint8_t)(1u << (d - domains));
}

static SLOW void *malloc_slowly(struct domain *d, size_t size)
{
	note_asked(d);
	fm_sig_alloc.depth++;
	void *p = d->real.malloc(d->real.ctx, size);
	fm_sig_alloc.depth--;
	return fm_sig_alloc_count(p, size, d->domain);
}

static SLOW void *calloc_slowly(struct domain *d, size_t n, size_t size)
{
	size_t whole;
	fm_sig_alloc.depth++;
	void *p = d->real.calloc(d->real.ctx, n, size);
	fm_sig_alloc.depth--;
	return __builtin_mul_overflow(n, size, &whole) ? p : fm_sig_alloc_count(p, whole, d->domain);
}

// As in memory_malloc.c: the old block leaves the table first.
static __attribute__((noinline)) void *any_realloc(struct domain *d, void *p, size_t size)
{
	uint64_t id = FM_UNLIKELY(fm_sig_live_may_have(p)) ? fm_sig_alloc_take(p) : 0;
	fm_sig_alloc.depth++;
	void *moved = d->real.realloc(d->real.ctx, p, size);
	fm_sig_alloc.depth--;
	if (FM_UNLIKELY(id != 0)) {
		if (moved)
			fm_sig_alloc_id_freed(id);
		else
			fm_sig_alloc_give_back(p, id);
	}
	return fm_sig_alloc_count(moved, size, d->domain);
}

static inline void any_free(struct domain *d, void *p)
{
	if (FM_UNLIKELY(fm_sig_live_may_have(p)))
		fm_sig_alloc_freed(p);
	d->real.free(d->real.ctx, p);
}

static inline void *small_malloc(struct domain *d, void *ctx, size_t size)
{
	if (FM_UNLIKELY(size > PYMALLOC_MAX_BYTES || !fm_sig_alloc_pass(size)))
		return malloc_slowly(d, size);
	return pymalloc.malloc(ctx, size);
}

static inline void *small_calloc(struct domain *d, void *ctx, size_t n, size_t size)
{
	size_t whole;
	if (FM_UNLIKELY(__builtin_mul_overflow(n, size, &whole) || whole > PYMALLOC_MAX_BYTES ||
			!fm_sig_alloc_pass(whole)))
		return calloc_slowly(d, n, size);
	return pymalloc.calloc(ctx, n, size);
}

static SLOW void free_slowly(void *ctx, void *p)
{
	fm_sig_alloc_freed(p);
	pymalloc.free(ctx, p);
}

static void small_free(void *ctx, void *p)
{
	if (FM_UNLIKELY(fm_sig_live_may_have(p)))
		free_slowly(ctx, p);
	else
		pymalloc.free(ctx, p);
}

// In exact mode every block is looked at: no countdown, and no filter.
typedef void *count_fn(void *p, uint64_t size, uint64_t ts, uintptr_t caller);

static SLOW void *count_slowly(void *p, size_t size, unsigned domain, uintptr_t caller)
{
	if (!fm_sig_exact) // a later capture of this process is not
		return fm_sig_alloc_count(p, size, domain);
	fm_sig_exact_python_alloc(p, size, domain, caller);
	return p;
}

static inline __attribute__((always_inline)) uint64_t thread_state(void)
{
	return fm_sig_current_state();
}

static inline bool is_quick(void)
{
	return FM_LIKELY(atomic_load_explicit(&fm_sig_exact_is_quick, memory_order_relaxed));
}

static inline __attribute__((always_inline)) void *counted(void *p, size_t size, struct domain *d, count_fn *count,
							   uintptr_t caller)
{
	return is_quick() ? count(p, size, thread_state(), caller) : count_slowly(p, size, d->domain, caller);
}

// Pymalloc asks malloc for these.
static __attribute__((noinline)) void *exact_large_malloc(struct domain *d, void *ctx, size_t size, count_fn *count,
							  uintptr_t caller)
{
	note_asked(d);
	fm_sig_alloc.depth++;
	void *p = pymalloc.malloc(ctx, size);
	fm_sig_alloc.depth--;
	return counted(p, size, d, count, caller);
}

static __attribute__((noinline)) void *exact_large_calloc(struct domain *d, void *ctx, size_t size, count_fn *count,
							  uintptr_t caller)
{
	fm_sig_alloc.depth++;
	void *p = pymalloc.calloc(ctx, 1, size);
	fm_sig_alloc.depth--;
	return counted(p, size, d, count, caller);
}

static inline __attribute__((always_inline)) void *exact_malloc(struct domain *d, void *ctx, size_t size,
								count_fn *count)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	if (FM_UNLIKELY(size > PYMALLOC_MAX_BYTES))
		return exact_large_malloc(d, ctx, size, count, caller);
	return counted(pymalloc.malloc(ctx, size), size, d, count, caller);
}

static inline __attribute__((always_inline)) void *exact_calloc(struct domain *d, void *ctx, size_t n, size_t size,
								count_fn *count)
{
	size_t whole;
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	if (FM_UNLIKELY(__builtin_mul_overflow(n, size, &whole)))
		return calloc_slowly(d, n, size);
	if (FM_UNLIKELY(whole > PYMALLOC_MAX_BYTES))
		return exact_large_calloc(d, ctx, whole, count, caller);
	return counted(pymalloc.calloc(ctx, n, size), whole, d, count, caller);
}

// The old block leaves the table first, as above.
static inline __attribute__((always_inline)) void *exact_realloc(struct domain *d, void *ctx, void *p, size_t size,
								 count_fn *count)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);
	if (FM_UNLIKELY(!is_quick()))
		return any_realloc(d, p, size);
	uint64_t token = fm_sig_exact_take(p);
	fm_sig_alloc.depth++; // it may be a large one, or have been
	void *moved = pymalloc.realloc(ctx, p, size);
	fm_sig_alloc.depth--;
	if (FM_UNLIKELY(!moved)) {
		if (token)
			fm_sig_exact_give_back(p, token);
		return NULL;
	}
	if (token)
		fm_sig_exact_token_freed(token);
	return count(moved, size, thread_state(), caller);
}

static SLOW void exact_free_slowly(void *ctx, void *p)
{
	if (fm_sig_exact)
		fm_sig_exact_free(p);
	else if (fm_sig_live_may_have(p))
		fm_sig_alloc_freed(p);
	pymalloc.free(ctx, p);
}

static void exact_free(void *ctx, void *p)
{
	if (FM_LIKELY(fm_sig_exact_free_quickly(p)))
		pymalloc.free(ctx, p);
	else
		exact_free_slowly(ctx, p);
}

// Functions of its own for each domain, and the context stays what it was: while a hook is put in
// front of allocators in use, a thread without the GIL, or with another interpreter's, may see one
// word of the change before the other.
#define ANY_HOOKS(of, nth)                                         \
	static void *of##_malloc(void *ctx, size_t size)           \
	{                                                          \
		(void)ctx;                                         \
		return malloc_slowly(&domains[nth], size);         \
	}                                                          \
	static void *of##_calloc(void *ctx, size_t n, size_t size) \
	{                                                          \
		(void)ctx;                                         \
		return calloc_slowly(&domains[nth], n, size);      \
	}                                                          \
	static void *of##_realloc(void *ctx, void *p, size_t size) \
	{                                                          \
		(void)ctx;                                         \
		return any_realloc(&domains[nth], p, size);        \
	}                                                          \
	static void of##_free(void *ctx, void *p)                  \
	{                                                          \
		(void)ctx;                                         \
		any_free(&domains[nth], p);                        \
	}
#define SMALL_HOOKS(of, nth)                                       \
	static void *of##_malloc(void *ctx, size_t size)           \
	{                                                          \
		return small_malloc(&domains[nth], ctx, size);     \
	}                                                          \
	static void *of##_calloc(void *ctx, size_t n, size_t size) \
	{                                                          \
		return small_calloc(&domains[nth], ctx, n, size);  \
	}
#define EXACT_HOOKS(of, nth, count)                                       \
	static void *of##_malloc(void *ctx, size_t size)                  \
	{                                                                 \
		return exact_malloc(&domains[nth], ctx, size, count);     \
	}                                                                 \
	static void *of##_calloc(void *ctx, size_t n, size_t size)        \
	{                                                                 \
		return exact_calloc(&domains[nth], ctx, n, size, count);  \
	}                                                                 \
	static void *of##_realloc(void *ctx, void *p, size_t size)        \
	{                                                                 \
		return exact_realloc(&domains[nth], ctx, p, size, count); \
	}
ANY_HOOKS(raw, PY_RAW)
ANY_HOOKS(mem, PY_MEM)
ANY_HOOKS(obj, PY_OBJ)
SMALL_HOOKS(small_mem, PY_MEM)
SMALL_HOOKS(small_obj, PY_OBJ)
EXACT_HOOKS(exact_mem, PY_MEM, fm_sig_exact_mem)
EXACT_HOOKS(exact_obj, PY_OBJ, fm_sig_exact_obj)

static const struct py_allocator any_hooks[3] = {
	[PY_RAW] = { NULL, raw_malloc, raw_calloc, raw_realloc, raw_free },
	[PY_MEM] = { NULL, mem_malloc, mem_calloc, mem_realloc, mem_free },
	[PY_OBJ] = { NULL, obj_malloc, obj_calloc, obj_realloc, obj_free },
};
static const struct py_allocator small_hooks[3] = {
	[PY_RAW] = { NULL, raw_malloc, raw_calloc, raw_realloc, raw_free },
	[PY_MEM] = { NULL, small_mem_malloc, small_mem_calloc, mem_realloc, small_free },
	[PY_OBJ] = { NULL, small_obj_malloc, small_obj_calloc, obj_realloc, small_free },
};
static const struct py_allocator exact_hooks[3] = {
	[PY_RAW] = { NULL, raw_malloc, raw_calloc, raw_realloc, raw_free },
	[PY_MEM] = { NULL, exact_mem_malloc, exact_mem_calloc, exact_mem_realloc, exact_free },
	[PY_OBJ] = { NULL, exact_obj_malloc, exact_obj_calloc, exact_obj_realloc, exact_free },
};

static void *arena_alloc(void *ctx, size_t size)
{
	(void)ctx;
	fm_sig_alloc.depth++;
	void *p = real_arena.alloc(real_arena.ctx, size);
	fm_sig_alloc.depth--;
	return p;
}

static void arena_free(void *ctx, void *p, size_t size)
{
	(void)ctx;
	real_arena.free(real_arena.ctx, p, size);
}

static bool is_ours(int nth, const struct py_allocator *a)
{
	return a->malloc == any_hooks[nth].malloc || a->malloc == small_hooks[nth].malloc ||
	       a->malloc == exact_hooks[nth].malloc;
}

// mem and obj have the same functions and no context, and are not malloc: of all allocators that
// CPython brings (pymalloc, malloc, mimalloc, each with or without its debug hooks) that is
// pymalloc alone.
static bool is_pymalloc(void)
{
	const struct py_allocator *raw = &domains[PY_RAW].real, *mem = &domains[PY_MEM].real,
				  *obj = &domains[PY_OBJ].real;
	return obj->malloc == mem->malloc && obj->free == mem->free && obj->malloc != raw->malloc && !obj->ctx &&
	       !mem->ctx && PyObject_GetArenaAllocator && PyObject_SetArenaAllocator;
}

// Where PyMem_RawMalloc and its kin lie: who called them is the next frame
// (sigsafe/memory/alloc.c).
static void find_raw_functions(void)
{
	static const char *const names[] = { "PyMem_RawMalloc", "PyMem_RawCalloc", "PyMem_RawRealloc" };
	uintptr_t first = UINTPTR_MAX, last = 0;
	const struct fm_sig_python *py = &fm_sig.python;
	for (unsigned i = 0; i < FM_ARRAY_LEN(names); i++) {
		uint64_t size = 0;
		uintptr_t at = fm_agent_symbol(py->image_start, py->image_end, py->image_bias, names[i], &size);
		if (!at)
			continue;
		first = FM_MIN(first, at);
		last = FM_MAX(last, at + size);
	}
	if (last > first && last - first < 4096) { // together, as they stand in the source
		fm_sig.raw_malloc_start = first;
		fm_sig.raw_malloc_end = last + 1;
	}
}

// Somebody put an allocator of his own on top of ours and still had it there when we went: he calls
// us, and we must not call him.
static bool is_below[3];

extern void *PyMem_RawMalloc(size_t size) __attribute__((weak));
extern void PyMem_RawFree(void *p) __attribute__((weak));
extern void *PyMem_Malloc(size_t size) __attribute__((weak));
extern void PyMem_Free(void *p) __attribute__((weak));
extern void *PyObject_Malloc(size_t size) __attribute__((weak));
extern void PyObject_Free(void *p) __attribute__((weak));

// Whether he still has: by a block, whose way leads through ours, or does not. He may have gone in a way that took ours
// off, as tracemalloc does when it was there first.
static bool is_still_below(int nth)
{
	static void *(*const take[3])(size_t) = { PyMem_RawMalloc, PyMem_Malloc, PyObject_Malloc };
	static void (*const give[3])(void *) = { PyMem_RawFree, PyMem_Free, PyObject_Free };
	if (!take[nth] || !give[nth])
		return true;
	asked = 0;
	fm_sig_alloc.depth++; // it is not the program's
	void *volatile p = take[nth](PYMALLOC_MAX_BYTES + 1);
	bool is_asked = asked & 1u << nth;
	if (p)
		give[nth](p);
	fm_sig_alloc.depth--;
	return is_asked;
}

static void hook_arenas(void)
{
	struct py_arena_allocator arena;
	PyObject_GetArenaAllocator(&arena);
	if (arena.alloc == arena_alloc)
		return;
	real_arena = arena;
	arena.alloc = arena_alloc;
	arena.free = arena_free;
	PyObject_SetArenaAllocator(&arena);
}

bool fm_agent_python_hook(void)
{
	if (!PyMem_GetAllocator || !PyMem_SetAllocator)
		return false;
	struct py_allocator now[3];
	for (int i = PY_RAW; i <= PY_OBJ; i++) {
		is_below[i] = is_below[i] && is_still_below(i);
		PyMem_GetAllocator(i, &now[i]);
	}
	if (is_ours(PY_OBJ, &now[PY_OBJ]) || is_below[PY_OBJ])
		return true;
	for (int i = PY_RAW; i <= PY_OBJ; i++)
		if (!is_ours(i, &now[i]) && !is_below[i])
			domains[i].real = now[i];
	bool is_small = is_pymalloc();
	if (is_small) {
		pymalloc = domains[PY_OBJ].real;
		hook_arenas();
	}
	find_raw_functions();
	for (int i = PY_RAW; i <= PY_OBJ; i++) {
		struct py_allocator hook = !is_small ? any_hooks[i] : fm_sig_exact ? exact_hooks[i] : small_hooks[i];
		hook.ctx = domains[i].real.ctx;
		if (!is_below[i])
			PyMem_SetAllocator(i, &hook);
	}
	return true;
}

void fm_agent_python_unhook(void)
{
	if (!PyMem_GetAllocator || !PyMem_SetAllocator)
		return;
	for (int i = PY_RAW; i <= PY_OBJ; i++) {
		struct py_allocator now;
		PyMem_GetAllocator(i, &now);
		is_below[i] = domains[i].real.malloc && !is_ours(i, &now);
		if (is_ours(i, &now))
			PyMem_SetAllocator(i, &domains[i].real);
	}
	struct py_arena_allocator arena = { 0 };
	if (PyObject_GetArenaAllocator && PyObject_SetArenaAllocator)
		PyObject_GetArenaAllocator(&arena);
	if (arena.alloc == arena_alloc)
		PyObject_SetArenaAllocator(&real_arena);
}

void fm_agent_python_without_hooks(void (*fn)(void *arg), void *arg)
{
	struct py_allocator now[3];
	for (int i = PY_RAW; i <= PY_OBJ; i++) {
		PyMem_GetAllocator(i, &now[i]);
		if (is_ours(i, &now[i]))
			PyMem_SetAllocator(i, &domains[i].real);
	}
	fn(arg);
	for (int i = PY_RAW; i <= PY_OBJ; i++)
		if (is_ours(i, &now[i]))
			PyMem_SetAllocator(i, &now[i]);
}
