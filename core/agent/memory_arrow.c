// SPDX-License-Identifier: Apache-2.0
// Apache Arrow brings mimalloc inside its library, and calls it by three names that can be taken
// (Arrow 25 and later). Without this, what Arrow makes of the memory it maps would not be seen.
#include "base/compiler.h"
#include "agent/memory.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "agent/agent.h"
#include "sigsafe/memory/alloc.h"

static struct {
	void *(*malloc_aligned)(size_t size, size_t align);
	void *(*realloc_aligned)(void *p, size_t size, size_t align);
	void (*free)(void *p);
} real;
static _Atomic bool is_resolved;

// The caller's library has the real ones: it is in no scope that RTLD_NEXT sees. All three or none.
// Threads that find them at the same time find the same.
static bool resolve(void *caller)
{
	if (FM_LIKELY(atomic_load_explicit(&is_resolved, memory_order_acquire)))
		return true;
	Dl_info info;
	void *library =
		dladdr(caller, &info) && info.dli_fname ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (!library)
		return false;
	void *malloc_ = dlsym(library, "arrow_mi_malloc_aligned"),
	     *realloc_ = dlsym(library, "arrow_mi_realloc_aligned");
	void *free_ = dlsym(library, "arrow_mi_free");
	fm_agent_real_dlclose(library); // it stays: the caller is in it
	if (!malloc_ || !realloc_ || !free_)
		return false;
	real.malloc_aligned = (void *(*)(size_t, size_t))malloc_;
	real.realloc_aligned = (void *(*)(void *, size_t, size_t))realloc_;
	real.free = (void (*)(void *))free_;
	atomic_store_explicit(&is_resolved, true, memory_order_release);
	return true;
}

FM_EXPORT void *arrow_mi_malloc_aligned(size_t size, size_t align);
FM_EXPORT void *arrow_mi_malloc_aligned(size_t size, size_t align)
{
	if (!resolve(__builtin_return_address(0)))
		return NULL; // as if there were no memory; does not happen: who calls it has it
	fm_sig_alloc.depth++;
	void *p = real.malloc_aligned(size, align);
	fm_sig_alloc.depth--;
	return fm_sig_alloc_count(p, size, FM_ALLOC_MALLOC);
}

FM_EXPORT void *arrow_mi_realloc_aligned(void *p, size_t size, size_t align);
FM_EXPORT void *arrow_mi_realloc_aligned(void *p, size_t size, size_t align)
{
	if (!resolve(__builtin_return_address(0)))
		return NULL;
	uint64_t id = fm_sig_live_may_have(p) ? fm_sig_alloc_take(p) : 0;
	fm_sig_alloc.depth++;
	void *moved = real.realloc_aligned(p, size, align);
	fm_sig_alloc.depth--;
	if (id && moved)
		fm_sig_alloc_id_freed(id);
	else if (id)
		fm_sig_alloc_give_back(p, id);
	return fm_sig_alloc_count(moved, size, FM_ALLOC_MALLOC);
}

FM_EXPORT void arrow_mi_free(void *p);
FM_EXPORT void arrow_mi_free(void *p)
{
	if (!resolve(__builtin_return_address(0)))
		return;
	if (fm_sig_live_may_have(p))
		fm_sig_alloc_freed(p);
	real.free(p);
}

OURS(arrow_mi_malloc_aligned);
OURS(arrow_mi_realloc_aligned);
OURS(arrow_mi_free);
const struct fm_agent_hook fm_agent_arrow_hooks[] = {
	HOOK(arrow_mi_malloc_aligned),
	HOOK(arrow_mi_realloc_aligned),
	HOOK(arrow_mi_free),
	{ NULL, NULL },
};
