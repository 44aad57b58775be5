// SPDX-License-Identifier: Apache-2.0
#include "sigsafe/base/places.h"

#include <fcntl.h>
#include <linux/mman.h>

#include "sigsafe/base/raw.h"

#include "sigsafe/base/sigsafe.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define PAGE_BYTES 4096u

static FM_SIGSAFE bool is_error(long ret)
{
	return (unsigned long)ret >= (unsigned long)-4095;
}

static FM_SIGSAFE struct fm_sig_thread *map_thread(void)
{
	size_t size = (sizeof(struct fm_sig_thread) + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	long p = fm_system_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (is_error(p))
		return NULL;
	fm_system_call(SYS_madvise, p, (long)size, MADV_WIPEONFORK, 0); // a child claims slots of its own
	fm_system_call(SYS_madvise, p, (long)size, MADV_DONTDUMP, 0);
	fm_system_call(SYS_madvise, p, (long)size, MADV_NOHUGEPAGE, 0); // a few pages here and there are touched
	return (struct fm_sig_thread *)p;
}

// Where mremap does not do that (valgrind's), for the moment of a descriptor.
static FM_SIGSAFE __attribute__((cold)) struct fm_wire_slot *map_slot_by_name(uint32_t idx)
{
	long fd = fm_system_call(SYS_openat, AT_FDCWD, (long)fm_sig.shared_path, O_RDWR | O_CLOEXEC, 0);
	if (is_error(fd))
		return NULL;
	long p = fm_system_call6(SYS_mmap, 0, FM_WIRE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
				 fd, (long)(FM_WIRE_SLOTS_OFFSET + (uint64_t)idx * FM_WIRE_SLOT_BYTES));
	fm_system_call(SYS_close, fd, 0, 0, 0);
	return is_error(p) ? NULL : (struct fm_wire_slot *)p;
}

// The shared memory's descriptor is closed, and none is opened at signal time: the program may
// count on the next free number. But mremap(2) of no bytes of a shared mapping maps its file once
// more, from that page on and as far as is asked for. So it begins with the last page before the
// slot that is mapped, and what lies between is given back.
static FM_SIGSAFE struct fm_wire_slot *map_slot(uint32_t idx)
{
	uint8_t *end = fm_sig.shared + FM_WIRE_SLOTS_OFFSET;
	uint32_t first = 0; // the slot that would begin at end
	for (uint32_t i = idx; i-- > 0;) {
		struct fm_wire_slot *slot = atomic_load_explicit(&fm_sig.places[i].slot, memory_order_relaxed);
		if (slot) {
			end = (uint8_t *)slot + FM_WIRE_SLOT_BYTES;
			first = i + 1;
			break;
		}
	}
	uint64_t before = PAGE_BYTES + (uint64_t)(idx - first) * FM_WIRE_SLOT_BYTES;
	long p = fm_system_call(SYS_mremap, (long)(end - PAGE_BYTES), 0, (long)(before + FM_WIRE_SLOT_BYTES),
				MREMAP_MAYMOVE);
	if (is_error(p))
		return map_slot_by_name(idx);
	fm_system_call(SYS_munmap, p, (long)before, 0, 0);
	return (struct fm_wire_slot *)(p + (long)before);
}

FM_SIGSAFE struct fm_sig_thread *fm_sig_place_get(uint32_t idx)
{
	// Relaxed: only the slot's owner comes here, and one owner follows another by way of the
	// slot table.
	struct fm_sig_place *place = &fm_sig.places[idx];
	struct fm_sig_thread *t = atomic_load_explicit(&place->thread, memory_order_relaxed);
	struct fm_wire_slot *slot = atomic_load_explicit(&place->slot, memory_order_relaxed);
	if (!t && !(t = map_thread()))
		return NULL;
	atomic_store_explicit(&place->thread, t, memory_order_relaxed);
	if (!slot && !(slot = map_slot(idx)))
		return NULL;
	atomic_store_explicit(&place->slot, slot, memory_order_relaxed);
	t->idx = idx;
	t->slot = slot;
	t->ring = (uint8_t *)slot + FM_WIRE_CONTROL_BYTES;
	return t;
}
