#include "agent/memory.h"

#include <stdatomic.h>
#include <string.h>

#include "agent/agent.h"
#include "sigsafe/alloc.h"
#include "sigsafe/maps.h"
#include "sigsafe/state.h"

static bool is_malloc_ours;

static void publish_hooks(bool is_python_hooked, bool is_copy_hooked)
{
	uint32_t hooks = (is_malloc_ours ? FM_WIRE_HOOKS_MALLOC : 0) | (is_python_hooked ? FM_WIRE_HOOKS_PYTHON : 0) |
			 (is_copy_hooked ? FM_WIRE_HOOKS_COPY : 0);
	atomic_store(&fm_sig.process->memory_hooks, hooks);
}

void fm_agent_memory_start(void)
{
	if (fm_sig.header->memory == FM_WIRE_MEMORY_OFF)
		return;
	fm_sig_live = fm_agent_map_private(sizeof(*fm_sig_live));
	fm_sig_maps = fm_agent_map_private(sizeof(*fm_sig_maps));
	if (!fm_sig_live || !fm_sig_maps)
		return;
	is_malloc_ours = fm_agent_malloc_resolve();
	fm_agent_maps_resolve();
	publish_hooks(fm_agent_python_hook(), fm_agent_copy_resolve());
	fm_sig_alloc.allocs.left = fm_sig_alloc.copies.left = 0; // what was counted before is not the program's doing
	atomic_store_explicit(&fm_sig_alloc_is_on, true, memory_order_release);
}

void fm_agent_memory_check_python(void)
{
	static _Atomic bool is_checked;
	if (FM_LIKELY(atomic_load_explicit(&is_checked, memory_order_relaxed)) || !fm_sig_alloc_is_on ||
	    !fm_sig.has_python || !fm_sig.python.current_thread_state())
		return;
	atomic_store_explicit(&is_checked, true, memory_order_relaxed);
	fm_agent_python_hook();
}

void fm_agent_memory_fork(bool is_followed)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	if (fm_sig_live)
		fm_sig_live_forget_all();
	a->allocs.mean = a->copies.mean = 0; // it draws blocks of its own
	a->allocs.left = a->copies.left = 0;
	atomic_store_explicit(&fm_sig_alloc_is_on, is_followed && fm_sig_live, memory_order_release);
}
