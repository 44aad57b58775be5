// SPDX-License-Identifier: Apache-2.0
#include "agent/memory.h"

#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/py_api.h"
#include "sigsafe/memory/alloc.h"
#include "sigsafe/memory/blocks.h"
#include "sigsafe/memory/exact.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/memory/maps.h"
#include "sigsafe/memory/stack_hash.h"
#include "sigsafe/python/thread_state.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/state.h"

// Fewer are not worth a start: a program has blocks in three or four.
#define MIN_STRETCHES 8u

static bool is_malloc_ours;
static bool is_watched;
static uint32_t hooks; // enum fm_wire_hooks

static void publish_hooks(bool is_python_hooked, bool is_copy_hooked)
{
	hooks = (is_malloc_ours ? FM_WIRE_HOOKS_MALLOC : 0) | (is_python_hooked ? FM_WIRE_HOOKS_PYTHON : 0) |
		(is_copy_hooked ? FM_WIRE_HOOKS_COPY : 0);
	atomic_store(&fm_sig.process->memory_hooks, hooks);
	if (!is_malloc_ours)
		atomic_fetch_add(&fm_sig.counts->n_without_malloc, 1);
	if (fm_sig.has_python && !is_python_hooked)
		atomic_fetch_add(&fm_sig.counts->n_without_python, 1);
}

// Libraries that bring an allocator of their own, by the names it exports. What it maps is seen,
// what it makes of that is not.
static int look_for_allocator(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const names[] = { "mi_malloc", "je_malloc", "_rjem_malloc", "tc_malloc", "scalable_malloc" };
	(void)size;
	(void)arg;
	uintptr_t start, end;
	// One that is the program's malloc, too, is behind ours.
	if (!fm_agent_image_range(info, &start, &end) || fm_agent_symbol(start, end, info->dlpi_addr, "malloc", NULL))
		return 0;
	for (unsigned i = 0; i < FM_ARRAY_LEN(names); i++) {
		uint32_t nobody = FM_WIRE_FREE;
		if (!fm_agent_symbol(start, end, info->dlpi_addr, names[i], NULL) ||
		    !atomic_compare_exchange_strong(&fm_sig.counts->own_allocator_state, &nobody, FM_WIRE_CLAIMED))
			continue;
		const char *path = info->dlpi_name ? info->dlpi_name : "", *base = strrchr(path, '/');
		strncpy(fm_sig.counts->own_allocator, base ? base + 1 : path, sizeof(fm_sig.counts->own_allocator) - 1);
		atomic_store(&fm_sig.counts->own_allocator_state, FM_WIRE_LIVE);
	}
	return 0;
}

// At the end all that a program loads is there.
__attribute__((destructor)) static void look_for_allocators(void)
{
	if (fm_sig.header && atomic_load(&fm_sig_alloc_is_on) &&
	    atomic_load(&fm_sig.counts->own_allocator_state) == FM_WIRE_FREE)
		dl_iterate_phdr(look_for_allocator, NULL);
}

static uint8_t *all_sums; // of all processes: FM_WIRE_N_EXACT times FM_WIRE_EXACT_BYTES

static bool map_sums(void)
{
	size_t size = FM_WIRE_EXACT_END - FM_WIRE_EXACT_OFFSET;
	int fd = open(fm_sig.shared_path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	// In place of the last capture's.
	void *p = mmap(all_sums, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | (all_sums ? MAP_FIXED : 0),
		       fd, (off_t)FM_WIRE_EXACT_OFFSET);
	close(fd);
	if (p == MAP_FAILED)
		return false;
	madvise(p, size, MADV_DONTDUMP);
	all_sums = p;
	return true;
}

// A place among the sums of wire/exact.h. Without one nothing is counted, and that is.
static void claim_sums(void)
{
	fm_sig_exact_sums = NULL;
	for (uint32_t i = 0; i < FM_WIRE_N_EXACT; i++) {
		struct fm_wire_exact *e = (void *)(all_sums + i * FM_WIRE_EXACT_BYTES);
		uint32_t nobody = 0;
		if (!atomic_compare_exchange_strong(&e->process_idx1, &nobody, fm_sig.process_idx + 1))
			continue;
		fm_sig_exact_sums = e;
		return;
	}
	atomic_fetch_add(&fm_sig.counts->n_no_exact, 1);
}

static void set_quick(bool is_counted)
{
	atomic_store_explicit(&fm_sig_exact_is_quick,
			      is_counted && fm_sig_exact && fm_sig_exact_sums && !fm_sig_log_ids && !fm_sig.is_late &&
				      fm_sig.has_python && !fm_sig_is_quiet(),
			      memory_order_relaxed);
}

// What a capture before this one left.
static void forget_last(void)
{
	if (fm_sig_exact)
		for (uint32_t i = 0; i < FM_SIG_FILTER_BYTES; i++)
			atomic_store_explicit(&fm_sig_live_filter[i], 0, memory_order_relaxed);
	fm_sig_exact = NULL;
	set_quick(false);
	fm_sig_live_forget_all();
}

// What a limit leaves for our own tables: where there is one, most is the program's.
static uint64_t our_part_of(int resource)
{
	struct rlimit limit;
	return getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur / 8;
}

static bool start_exact(void)
{
	static struct fm_sig_exact *exact; // fm_sig_exact is NULL in a capture that samples
	exact = fm_agent_map_or_clear(exact, sizeof(*exact));
	fm_sig_blocks = fm_agent_map_or_clear(fm_sig_blocks, sizeof(*fm_sig_blocks));
	fm_sig_mirrors = fm_agent_map_or_clear(fm_sig_mirrors, sizeof(*fm_sig_mirrors) * FM_WIRE_N_SLOTS);
	if (!fm_sig_blocks || !fm_sig_mirrors || !exact || !map_sums())
		return false;
	// Address space for blocks, used as far as it is needed. The second limit counts what could be
	// written to, whether it is or not.
	uint64_t most = FM_MIN(our_part_of(RLIMIT_AS), our_part_of(RLIMIT_DATA));
	if (fm_sig_tokens) // of an earlier capture
		madvise(fm_sig_tokens, fm_sig_n_stretches * FM_SIG_STRETCH_BYTES, MADV_DONTNEED);
	for (uint32_t n = FM_SIG_MAX_STRETCHES; n >= MIN_STRETCHES && !fm_sig_tokens; n /= 2) {
		if (n > MIN_STRETCHES && n * FM_SIG_STRETCH_BYTES > most)
			continue;
		fm_sig_tokens = fm_agent_map_private(n * FM_SIG_STRETCH_BYTES);
		fm_sig_n_stretches = n;
	}
	if (!fm_sig_tokens)
		return false;
	static uint64_t *log_ids; // fm_sig_log_ids is NULL in a capture without a log
	if (atomic_load(&fm_sig.header->memory_log))
		log_ids = fm_agent_map_or_clear(log_ids, fm_sig_n_stretches * FM_SIG_STRETCH_BYTES);
	fm_sig_log_ids = atomic_load(&fm_sig.header->memory_log) ? log_ids : NULL;
	// A page of entries is touched here and there; two megabytes of them for that would be too
	// much.
	madvise(fm_sig_tokens, fm_sig_n_stretches * FM_SIG_STRETCH_BYTES, MADV_NOHUGEPAGE);
	for (uint32_t i = 0; i < FM_SIG_FILTER_BYTES; i++) // every block is looked for when it is freed
		atomic_store_explicit(&fm_sig_live_filter[i], FM_SIG_FILTER_STUCK, memory_order_relaxed);
	claim_sums();
	fm_sig_exact_find_alone();
	fm_sig_exact = exact;
	return true;
}

void fm_agent_memory_start(void)
{
	is_watched = false;
	if (fm_sig.header->memory == FM_WIRE_MEMORY_OFF)
		return;
	fm_sig_live = fm_agent_map_or_clear(fm_sig_live, sizeof(*fm_sig_live));
	fm_sig_maps = fm_agent_map_or_clear(fm_sig_maps, sizeof(*fm_sig_maps));
	if (!fm_sig_live || !fm_sig_maps) {
		atomic_fetch_add(&fm_sig.counts->n_no_tables, 1);
		return;
	}
	forget_last();
	if (fm_sig.header->memory == FM_WIRE_MEMORY_EXACT && !start_exact()) {
		atomic_fetch_add(&fm_sig.counts->n_no_exact, 1);
		return;
	}
	is_malloc_ours = fm_agent_malloc_resolve();
	fm_agent_maps_resolve();
	bool is_copy_ours = fm_agent_copy_resolve();
	fm_agent_bind_prepare();
	is_watched = true;
	atomic_store_explicit(&fm_sig_alloc_is_on, true, memory_order_release); // before threads come to the hooks
	set_quick(true);
	bool is_python_ours = fm_agent_python_hook();
	if (fm_sig.is_late) {
		if (is_python_ours)
			fm_agent_answer_stats();
		is_malloc_ours = is_copy_ours = fm_agent_bind_all();
	}
	publish_hooks(is_python_ours, is_copy_ours);
	fm_sig_alloc.allocs.left = fm_sig_alloc.copies.left = 0; // what was counted before is not the program's doing
}

// Before the first end that goes untold.
static void tell_no_more_ends(void)
{
	if (atomic_load(&fm_sig_alloc_is_on)) // a fork's child that is not followed has its parent's entry
		atomic_fetch_or(&fm_sig.process->memory_hooks, FM_WIRE_HOOKS_ENDED);
}

void fm_agent_memory_stop(void)
{
	if (!is_watched)
		return;
	look_for_allocators();
	tell_no_more_ends();
	atomic_store(&fm_sig_alloc_is_on, false);
	fm_agent_python_unhook();
	fm_agent_unbind_all();
}

FM_PY_WEAK int Py_IsFinalizing(void);  // from 3.13 on
FM_PY_WEAK int _Py_IsFinalizing(void); // before

// An interpreter that ends gives all memory back. What it held is a question about the program,
// which is over by then: from here on nothing is counted, unless it is started again.
static void follow_the_end(void)
{
	static bool was_on, is_held; // written with the GIL held
	bool is_ending = Py_IsFinalizing ? Py_IsFinalizing() : _Py_IsFinalizing && _Py_IsFinalizing();
	if (FM_LIKELY(is_ending == is_held))
		return;
	if (is_ending) {
		look_for_allocators();
		was_on = atomic_load(&fm_sig_alloc_is_on);
		tell_no_more_ends();
	}
	is_held = is_ending;
	if (is_ending)
		fm_agent_python_unhook(); // PYTHONMALLOCSTATS tells of Python's own allocators last of all
	else
		fm_agent_python_hook();
	if (!is_ending && was_on)
		atomic_store(&fm_sig.process->memory_hooks, hooks);
	atomic_store(&fm_sig_alloc_is_on, !is_ending && was_on);
	set_quick(!is_ending && was_on);
	atomic_fetch_add(&fm_sig_mirror_epoch, 1); // nobody watches code objects meanwhile
}

static _Atomic bool is_checked;

bool fm_agent_memory_knows_python(void)
{
	return atomic_load_explicit(&is_checked, memory_order_relaxed);
}

void fm_agent_memory_check_python(void)
{
	if (FM_LIKELY(atomic_load_explicit(&is_checked, memory_order_relaxed))) {
		if (is_watched && !fm_sig.is_late)
			follow_the_end();
		return;
	}
	if (!fm_sig_alloc_is_on || !fm_sig.has_python || !fm_sig_is_python_up())
		return;
	atomic_store_explicit(&is_checked, true, memory_order_relaxed);
	if (fm_agent_python_hook())
		fm_agent_answer_stats();
}

void fm_agent_memory_fork(bool is_followed)
{
	struct fm_sig_alloc_thread *a = &fm_sig_alloc;
	if (fm_sig_live)
		fm_sig_live_forget_all();
	a->has_lock = false;
	a->frame_cache = NULL;
	if (is_followed)
		atomic_store(&fm_sig.process->memory_hooks, hooks);
	if (fm_sig_exact && is_followed)
		claim_sums();
	set_quick(is_followed && is_watched);
	a->allocs.mean = a->copies.mean = 0; // it draws blocks of its own
	a->allocs.left = a->copies.left = 0;
	atomic_store_explicit(&fm_sig_alloc_is_on, is_followed && is_watched, memory_order_release);
}
