// Python's own allocators: raw (malloc), mem and obj (pymalloc, by default). A hook calls what was there before it; it adds no
// header to a block, because free-threaded builds find objects by where their blocks lie.
//
// With pymalloc, blocks of up to 512 bytes are cut from arenas. Nothing but a new arena is asked of malloc or mmap then, and
// arenas have a hook of their own; so for these blocks, which are nearly all, nobody needs to know that Python is inside one
// of its allocators, and the hook is a countdown and a jump. All else is bracketed by fm_sig_alloc.depth.
#include "agent/memory.h"

#include <stdatomic.h>

#include "sigsafe/alloc.h"
#include "sigsafe/exact.h"
#include "sigsafe/image.h"
#include "sigsafe/state.h"

#define PYMALLOC_MAX_BYTES 512u // SMALL_REQUEST_THRESHOLD of all versions
#define SLOW __attribute__((noinline, cold))

// PyMemAllocatorEx and PyObjectArenaAllocator as the C API documents them; the functions are weak, for programs without Python.
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

static SLOW void *malloc_slowly(struct domain *d, size_t size)
{
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
static void *any_realloc(void *ctx, void *p, size_t size)
{
	struct domain *d = ctx;
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

static void *any_malloc(void *ctx, size_t size)
{
	return malloc_slowly(ctx, size);
}

static void *any_calloc(void *ctx, size_t n, size_t size)
{
	return calloc_slowly(ctx, n, size);
}

static void any_free(void *ctx, void *p)
{
	struct domain *d = ctx;
	if (FM_UNLIKELY(fm_sig_live_may_have(p)))
		fm_sig_alloc_freed(p);
	d->real.free(d->real.ctx, p);
}

// pymalloc takes no notice of its context, so ours can stay in its register all the way.
static void *small_malloc(void *ctx, size_t size)
{
	if (FM_UNLIKELY(size > PYMALLOC_MAX_BYTES || !fm_sig_alloc_pass(size)))
		return malloc_slowly(ctx, size);
	return pymalloc.malloc(ctx, size);
}

static void *small_calloc(void *ctx, size_t n, size_t size)
{
	size_t whole;
	if (FM_UNLIKELY(__builtin_mul_overflow(n, size, &whole) || whole > PYMALLOC_MAX_BYTES ||
			!fm_sig_alloc_pass(whole)))
		return calloc_slowly(ctx, n, size);
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

// In exact mode every block goes the long way: no countdown to look at, and no filter.
static void *exact_malloc(void *ctx, size_t size)
{
	struct domain *d = ctx;
	if (FM_UNLIKELY(!fm_sig_exact)) // a later capture of this process is not
		return small_malloc(ctx, size);
	if (FM_UNLIKELY(size > PYMALLOC_MAX_BYTES))
		return malloc_slowly(ctx, size);
	void *p = pymalloc.malloc(ctx, size);
	fm_sig_exact_python_alloc(p, size, d->domain, (uintptr_t)__builtin_return_address(0));
	return p;
}

static void *exact_calloc(void *ctx, size_t n, size_t size)
{
	struct domain *d = ctx;
	size_t whole;
	if (FM_UNLIKELY(!fm_sig_exact))
		return small_calloc(ctx, n, size);
	if (FM_UNLIKELY(__builtin_mul_overflow(n, size, &whole) || whole > PYMALLOC_MAX_BYTES))
		return calloc_slowly(ctx, n, size);
	void *p = pymalloc.calloc(ctx, n, size);
	fm_sig_exact_python_alloc(p, whole, d->domain, (uintptr_t)__builtin_return_address(0));
	return p;
}

static void exact_free(void *ctx, void *p)
{
	if (FM_LIKELY(fm_sig_exact) || fm_sig_live_may_have(p))
		fm_sig_alloc_freed(p);
	pymalloc.free(ctx, p);
}

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

static bool is_ours(const struct py_allocator *a)
{
	return a->malloc == any_malloc || a->malloc == small_malloc || a->malloc == exact_malloc;
}

// mem and obj have the same functions and no context, and are not malloc: of all allocators that CPython brings (pymalloc, malloc,
// mimalloc, each with or without its debug hooks) that is pymalloc alone.
static bool is_pymalloc(void)
{
	const struct py_allocator *raw = &domains[PY_RAW].real, *mem = &domains[PY_MEM].real,
				  *obj = &domains[PY_OBJ].real;
	return obj->malloc == mem->malloc && obj->free == mem->free && obj->malloc != raw->malloc && !obj->ctx &&
	       !mem->ctx && PyObject_GetArenaAllocator && PyObject_SetArenaAllocator;
}

// Where PyMem_RawMalloc and its kin lie: who called them is the next frame (sigsafe/alloc.c).
static void find_raw_functions(void)
{
	static const char *const names[] = { "PyMem_RawMalloc", "PyMem_RawCalloc", "PyMem_RawRealloc" };
	uintptr_t first = UINTPTR_MAX, last = 0;
	const struct fm_sig_python *py = &fm_sig.python;
	for (unsigned i = 0; i < FM_ARRAY_LEN(names); i++) {
		uint64_t size = 0;
		uintptr_t at = fm_sig_elf_symbol(py->image_start, py->image_end, py->image_bias, names[i], &size);
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

bool fm_agent_python_hook(void)
{
	if (!PyMem_GetAllocator || !PyMem_SetAllocator)
		return false;
	struct py_allocator now[3];
	for (int i = PY_RAW; i <= PY_OBJ; i++)
		PyMem_GetAllocator(i, &now[i]);
	if (is_ours(&now[PY_OBJ]))
		return true;
	for (int i = PY_RAW; i <= PY_OBJ; i++)
		if (!is_ours(&now[i]))
			domains[i].real = now[i];
	bool is_small = is_pymalloc();
	if (is_small) {
		pymalloc = domains[PY_OBJ].real;
		struct py_arena_allocator arena = { .alloc = arena_alloc, .free = arena_free }, before;
		PyObject_GetArenaAllocator(&before);
		if (before.alloc != arena_alloc) {
			real_arena = before;
			PyObject_SetArenaAllocator(&arena);
		}
	}
	find_raw_functions();
	for (int i = PY_RAW; i <= PY_OBJ; i++) {
		struct py_allocator hook = { &domains[i], any_malloc, any_calloc, any_realloc, any_free };
		if (is_small && i != PY_RAW) {
			hook.malloc = fm_sig_exact ? exact_malloc : small_malloc;
			hook.calloc = fm_sig_exact ? exact_calloc : small_calloc;
			hook.free = fm_sig_exact ? exact_free : small_free;
		}
		PyMem_SetAllocator(i, &hook);
	}
	return true;
}
