// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/unwind/loaded.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

#include "sigsafe/base/fault.h"
#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

// Programs with every large library there is load some 700. More than these are not found, and
// their frames say so.
#define MAX_IMAGES 4096u
// Entries that one sample adds: 64 x 0.5 us, a sixth of what it may take. The next sample goes on.
#define MAX_NEW 64u

uintptr_t fm_sig_loader_list;

struct entry {
	uintptr_t start, end;
	uintptr_t eh_frame_hdr;
	uintptr_t link_map;
	uintptr_t bias;
};

// Even: whole; odd: somebody changes the table, and readers do without it. Whoever makes it odd by
// compare-and-swap is the writer; nobody ever waits for it, since it may be a thread that this one
// has interrupted.
static _Atomic uint32_t sequence;
static uint32_t n_entries;
static uintptr_t last; // the loader's last entry that the table knows
// Something was closed, and the table could not be filled anew: the loader or another thread was at
// work.
static _Atomic bool is_stale;
static struct entry entries[MAX_IMAGES];

static FM_SIGSAFE bool read_node(uintptr_t node, struct link_map *ret)
{
	return fm_sig_read(node, ret, offsetof(struct link_map, l_prev) + sizeof(ret->l_prev));
}

// The loader says when it is in the middle of a change.
static FM_SIGSAFE bool is_consistent(void)
{
	uint32_t state = RT_ADD;
	return fm_sig_loader_list && fm_sig_read_u32(fm_sig_loader_list + offsetof(struct r_debug, r_state), &state) &&
	       state == RT_CONSISTENT;
}

static FM_SIGSAFE uintptr_t first_node(void)
{
	uint64_t node;
	return fm_sig_read_u64(fm_sig_loader_list + offsetof(struct r_debug, r_map), &node) ? node : 0;
}

static FM_SIGSAFE bool read_entry(uintptr_t node, uintptr_t bias, struct entry *ret)
{
	ElfW(Phdr) phdr;
	uintptr_t start = UINTPTR_MAX, end = 0, hdr = 0;
	for (uint32_t nth = 0; fm_sig_elf_header(bias, PT_LOAD, &nth, &phdr); nth++) {
		start = FM_MIN(start, (bias + phdr.p_vaddr) & ~(uintptr_t)4095);
		end = FM_MAX(end, bias + phdr.p_vaddr + phdr.p_memsz);
	}
	uint32_t nth = 0;
	if (fm_sig_elf_header(bias, PT_GNU_EH_FRAME, &nth, &phdr))
		hdr = bias + phdr.p_vaddr;
	*ret = (struct entry){ start, end, hdr, node, bias };
	return start == bias && start < end;
}

// The number of entries that begin at or below pc.
static FM_SIGSAFE uint32_t count_below(uintptr_t pc, uint32_t n)
{
	uint32_t low = 0, high = n;
	while (low < high) {
		uint32_t mid = (low + high) / 2;
		if (entries[mid].start <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static FM_SIGSAFE void insert(const struct entry *e)
{
	uint32_t at = count_below(e->start, n_entries);
	for (uint32_t i = n_entries; i > at; i--)
		entries[i] = entries[i - 1];
	entries[at] = *e;
	n_entries++;
}

// Adds what stands behind `last`. A node that does not point back to the one before it is no node:
// that one was freed.
static FM_SIGSAFE void add_new(uint32_t max)
{
	uint64_t next = 0;
	struct link_map node;
	if (!last)
		next = first_node();
	else if (!fm_sig_read_u64(last + offsetof(struct link_map, l_next), &next))
		return;
	for (uint32_t i = 0; next && i < max && n_entries < MAX_IMAGES; i++) {
		struct entry e;
		if (!read_node(next, &node) || (uintptr_t)node.l_prev != last)
			return;
		if (read_entry(next, node.l_addr, &e))
			insert(&e);
		last = next;
		next = (uintptr_t)node.l_next;
	}
}

static FM_SIGSAFE bool change(bool is_whole, uint32_t max)
{
	uint32_t seq = atomic_load_explicit(&sequence, memory_order_relaxed);
	if (seq & 1 || !atomic_compare_exchange_strong(&sequence, &seq, seq + 1))
		return false;
	atomic_thread_fence(memory_order_release); // readers that see what follows see the odd number, too
	if (is_whole) {
		n_entries = 0;
		last = 0;
		atomic_store_explicit(&is_stale, false, memory_order_relaxed);
	}
	add_new(max);
	atomic_store_explicit(&sequence, seq + 2, memory_order_release);
	return true;
}

// From the table. False: nothing there holds pc, or the table is being changed.
static FM_SIGSAFE bool look_up(uintptr_t pc, struct entry *ret, bool *ret_is_whole)
{
	uint32_t seq = atomic_load_explicit(&sequence, memory_order_acquire);
	*ret_is_whole = !(seq & 1);
	if (!*ret_is_whole)
		return false;
	uint32_t n = FM_MIN(n_entries, MAX_IMAGES), below = count_below(pc, n);
	if (below)
		*ret = entries[below - 1];
	atomic_thread_fence(memory_order_acquire);
	*ret_is_whole = atomic_load_explicit(&sequence, memory_order_relaxed) == seq;
	uint64_t bias;
	return *ret_is_whole && below && pc < ret->end && fm_sig_read_u64(ret->link_map, &bias) && bias == ret->bias;
}

// From the list itself, while another thread changes the table: the node with the highest address
// below pc is the only one it can be.
static FM_SIGSAFE bool search_list(uintptr_t pc, struct entry *ret)
{
	uintptr_t node_addr = first_node(), best = 0, best_bias = 0;
	struct link_map node;
	for (uint32_t i = 0; node_addr && i < MAX_IMAGES && read_node(node_addr, &node); i++) {
		if (node.l_addr <= pc && node.l_addr > best_bias) {
			best = node_addr;
			best_bias = node.l_addr;
		}
		node_addr = (uintptr_t)node.l_next;
	}
	return best && read_entry(best, best_bias, ret) && pc < ret->end;
}

static FM_SIGSAFE bool has_new(void)
{
	uint64_t next = 0;
	return !last || (fm_sig_read_u64(last + offsetof(struct link_map, l_next), &next) && next);
}

// While a table is not whole, or the loader is in the middle of a change, the list itself has the
// answer.
static FM_SIGSAFE bool find(uintptr_t pc, struct entry *ret)
{
	bool is_whole;
	if (FM_UNLIKELY(atomic_load_explicit(&is_stale, memory_order_acquire)) &&
	    !(is_consistent() && change(true, MAX_NEW)))
		return search_list(pc, ret);
	if (FM_LIKELY(look_up(pc, ret, &is_whole)))
		return true;
	if (is_whole && !has_new())
		return false;
	if (is_whole && is_consistent() && change(false, MAX_NEW) && look_up(pc, ret, &is_whole))
		return true;
	return search_list(pc, ret);
}

FM_SIGSAFE bool fm_sig_loaded_find(uintptr_t pc, struct fm_sig_image_info *ret)
{
	struct entry found;
	if (!fm_sig_loader_list || !find(pc, &found))
		return false;
	ret->start = found.start;
	ret->end = found.end;
	ret->eh_frame_hdr = found.eh_frame_hdr;
	fm_sig_link_map_read(found.link_map, ret);
	return true;
}

FM_SIGSAFE void fm_sig_loaded_refill(void)
{
	// No lock keeps images from going meanwhile, and one that was linked for another address
	// (prelink) has no header where the list says.
	fm_sig_fault_check(NULL);
	atomic_store_explicit(&is_stale, true, memory_order_release);
	if (is_consistent())
		change(true, MAX_IMAGES);
}

FM_SIGSAFE void fm_sig_loaded_fork(void)
{
	uint32_t seq = atomic_load_explicit(&sequence, memory_order_relaxed);
	if (!(seq & 1))
		return;
	atomic_store_explicit(&sequence, seq + 1, memory_order_release);
	fm_sig_loaded_refill();
}
