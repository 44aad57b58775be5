// SPDX-License-Identifier: Apache-2.0
// __register_frame: how JIT compilers (LLVM's, so numba's) give the unwind tables of their code to
// the C++ runtime. The agent stands in front of it, writes the table's address where the collector
// sees it, and calls the real one.
#include "base/compiler.h"
#include "agent/agent.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "sigsafe/base/state.h"

typedef void (*frame_fn)(void *);

static struct fm_wire_frame_table *table(void)
{
	return (void *)(fm_sig.shared + FM_WIRE_FRAME_TABLES_OFFSET);
}

static uint64_t owner_of(uint32_t process_idx, enum fm_wire_frame_state state)
{
	return (uint64_t)(process_idx + 1) << 2 | state;
}

static void announce(uint64_t addr)
{
	struct fm_wire_counts *counts = fm_sig.counts;
	for (uint32_t i = 0; i < FM_WIRE_N_FRAME_TABLES; i++) {
		struct fm_wire_frame_table *e = &table()[i];
		uint64_t expected = 0;
		if (atomic_load_explicit(&e->owner, memory_order_relaxed))
			continue;
		if (!atomic_compare_exchange_strong(&e->owner, &expected,
						    owner_of(fm_sig.process_idx, FM_WIRE_FRAME_CLAIMED)))
			continue;
		e->addr = addr;
		atomic_store_explicit(&e->owner, owner_of(fm_sig.process_idx, FM_WIRE_FRAME_LIVE),
				      memory_order_release);
		uint32_t n = atomic_load(&counts->n_frame_tables);
		while (n <= i && !atomic_compare_exchange_weak(&counts->n_frame_tables, &n, i + 1))
			;
		atomic_fetch_add_explicit(&counts->frame_tables_generation, 1, memory_order_release);
		return;
	}
	atomic_fetch_add(&counts->n_frame_tables_lost, 1);
}

static void withdraw(uint64_t addr)
{
	struct fm_wire_counts *counts = fm_sig.counts;
	uint32_t n = atomic_load(&counts->n_frame_tables);
	for (uint32_t i = 0; i < n && i < FM_WIRE_N_FRAME_TABLES; i++) {
		struct fm_wire_frame_table *e = &table()[i];
		uint64_t live = owner_of(fm_sig.process_idx, FM_WIRE_FRAME_LIVE);
		if (e->addr != addr ||
		    !atomic_compare_exchange_strong(&e->owner, &live, owner_of(fm_sig.process_idx, FM_WIRE_FRAME_GONE)))
			continue;
		atomic_fetch_add_explicit(&counts->frame_tables_generation, 1, memory_order_release);
		return;
	}
}

void fm_agent_frame_tables_inherit(uint32_t parent_idx)
{
	uint32_t n = atomic_load(&fm_sig.counts->n_frame_tables);
	for (uint32_t i = 0; i < n && i < FM_WIRE_N_FRAME_TABLES; i++)
		if (atomic_load_explicit(&table()[i].owner, memory_order_acquire) ==
		    owner_of(parent_idx, FM_WIRE_FRAME_LIVE))
			announce(table()[i].addr);
}

// What the caller would have got without us: the next one in the global scope, else that of its own
// libraries (an extension module's are in no scope that RTLD_NEXT sees).
static frame_fn find_real(const char *name, void *caller)
{
	frame_fn fn = (frame_fn)dlsym(RTLD_NEXT, name);
	Dl_info info;
	if (!fn && dladdr(caller, &info) && info.dli_fname) {
		void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		if (library) {
			fn = (frame_fn)dlsym(library, name);
			fm_agent_real_dlclose(library); // it stays: the caller is in it
		}
	}
	if (!fn) {
		void *runtime = dlopen("libgcc_s.so.1", RTLD_LAZY);
		fn = runtime ? (frame_fn)dlsym(runtime, name) : NULL;
	}
	return fn;
}

FM_EXPORT void __register_frame(void *begin);
FM_EXPORT void __register_frame(void *begin)
{
	frame_fn real = find_real("__register_frame", __builtin_return_address(0));
	if (real)
		real(begin);
	if (fm_sig.header && begin)
		announce((uintptr_t)begin);
}

FM_EXPORT void __deregister_frame(void *begin);
FM_EXPORT void __deregister_frame(void *begin)
{
	// First: the memory may be used again as soon as this returns.
	if (fm_sig.header && begin)
		withdraw((uintptr_t)begin);
	frame_fn real = find_real("__deregister_frame", __builtin_return_address(0));
	if (real)
		real(begin);
}
