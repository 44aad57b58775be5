// SPDX-License-Identifier: Apache-2.0
// Images are found by _dl_find_object (glibc 2.35), which is made for unwinders: no locks, callable
// at signal time. Older libcs lack it; there the loader's list answers (loaded.c).
#include "sigsafe/unwind/image.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

#include "format/model.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/ring.h"
#include "sigsafe/unwind/loaded.h"

#include "sigsafe/base/sigsafe.h"

// As <dlfcn.h> of glibc 2.35 declares it; spelt out under a name of our own so that an older libc
// compiles the same file.
struct dl_find_object_result {
	unsigned long long flags;
	void *map_start, *map_end;
	struct link_map *link_map;
	void *eh_frame;
	unsigned long long reserved[7];
};
extern int find_object(void *pc, struct dl_find_object_result *result) __asm__("_dl_find_object") __attribute__((weak));

struct fm_sig_image_info fm_sig_images_at_start[FM_SIG_N_IMAGES_AT_START];
uint32_t fm_sig_n_images_at_start;
bool fm_sig_images_by_list;

static FM_SIGSAFE bool find_at_start(uintptr_t pc, struct fm_sig_image_info *ret)
{
	for (uint32_t i = 0; i < fm_sig_n_images_at_start; i++) {
		const struct fm_sig_image_info *image = &fm_sig_images_at_start[i];
		if (pc >= image->start && pc < image->end) {
			*ret = *image;
			return true;
		}
	}
	return false;
}

FM_SIGSAFE void fm_sig_link_map_read(uintptr_t link_map, struct fm_sig_image_info *ret)
{
	static const char closed[] = "[closed library]";
	uint64_t bias = 0, path = 0;
	uint8_t first = 0;
	bool is_there = !link_map || (fm_sig_read_u64(link_map + offsetof(struct link_map, l_addr), &bias) &&
				      fm_sig_read_u64(link_map + offsetof(struct link_map, l_name), &path) &&
				      (!path || fm_sig_read_u8(path, &first)));
	ret->bias = bias;
	ret->path = !is_there ? (uintptr_t)closed : first ? path : 0;
}

FM_SIGSAFE bool fm_sig_image_needs_list(void)
{
	return FM_UNLIKELY(!find_object || fm_sig_images_by_list);
}

FM_SIGSAFE bool fm_sig_image_find(uintptr_t pc, struct fm_sig_image_info *ret)
{
	if (!fm_sig_image_needs_list()) {
		struct dl_find_object_result found;
		if (find_object((void *)pc, &found) != 0)
			return false;
		ret->start = (uintptr_t)found.map_start;
		ret->end = (uintptr_t)found.map_end;
		ret->eh_frame_hdr = (uintptr_t)found.eh_frame;
		fm_sig_link_map_read((uintptr_t)found.link_map, ret);
		// The kernel maps an executable's segments one by one, and where they leave holes
		// (patchelf makes some) the answer is the one segment that holds pc, without
		// header, tables or unwind information.
		if (FM_UNLIKELY(ret->eh_frame_hdr < ret->start || ret->eh_frame_hdr >= ret->end) && ret->eh_frame_hdr)
			find_at_start(pc, ret);
		return true;
	}
	// What stands there stays: the executable, which may be at fixed addresses and then has no
	// header where the list says.
	return fm_sig_loaded_find(pc, ret) || (find_at_start(pc, ret) && (!ret->path || !fm_sig_loader_list));
}

// Headers that a linker wrote are on the first page; others are damage.
#define MAX_HEADERS 64u

FM_SIGSAFE bool fm_sig_elf_header(uintptr_t start, uint32_t type, uint32_t *nth, ElfW(Phdr) * ret)
{
	ElfW(Ehdr) ehdr;
	if (!fm_sig_read(start, &ehdr, sizeof(ehdr)) || ehdr.e_ident[0] != 0x7f || ehdr.e_ident[1] != 'E' ||
	    ehdr.e_phentsize != sizeof(*ret) || ehdr.e_phnum > MAX_HEADERS)
		return false;
	for (; *nth < ehdr.e_phnum; ++*nth) {
		if (!fm_sig_read(start + ehdr.e_phoff + *nth * sizeof(*ret), ret, sizeof(*ret)))
			return false;
		if (ret->p_type == type)
			return true;
	}
	return false;
}

// The GNU build-id note of a mapped image: where its bytes are. 0 = it has none.
static FM_SIGSAFE uintptr_t find_build_id(const struct fm_sig_image_info *image, uint32_t *ret_len)
{
	ElfW(Phdr) phdr;
	for (uint32_t nth = 0; fm_sig_elf_header(image->start, PT_NOTE, &nth, &phdr); nth++) {
		uintptr_t pos = image->bias + phdr.p_vaddr, end = pos + phdr.p_memsz;
		if (pos < image->start || end > image->end)
			continue;
		ElfW(Nhdr) note;
		while (pos + sizeof(note) <= end && fm_sig_read(pos, &note, sizeof(note))) {
			uintptr_t name = pos + sizeof(note), desc = name + ((note.n_namesz + 3) & ~3u);
			uintptr_t next = desc + ((note.n_descsz + 3) & ~3u);
			uint8_t first;
			if (next > end || next <= pos)
				break;
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && fm_sig_read_u8(name, &first) &&
			    first == 'G') {
				*ret_len = FM_MIN(note.n_descsz, 64u);
				return desc;
			}
			pos = next;
		}
	}
	return 0;
}

// True for the caller that has to tell; the others find it told or being told.
static FM_SIGSAFE struct fm_sig_image *claim_image(uintptr_t start)
{
	for (uint32_t i = 0, at = (uint32_t)fm_sig_hash(start >> 12); i < 32; i++, at++) {
		struct fm_sig_image *entry = &fm_sig.images[at & (FM_SIG_IMAGES - 1)];
		uint64_t have = atomic_load_explicit(&entry->start, memory_order_acquire);
		if (have == start)
			return atomic_load_explicit(&entry->told, memory_order_acquire) ? NULL : entry;
		if (have == 0 && atomic_compare_exchange_strong(&entry->start, &have, start))
			return entry;
		if (have == start)
			return atomic_load_explicit(&entry->told, memory_order_acquire) ? NULL : entry;
	}
	return NULL;
}

FM_SIGSAFE bool fm_sig_image_publish(struct fm_sig_thread *t, const struct fm_sig_image_info *image)
{
	struct fm_sig_image *entry = claim_image(image->start);
	if (!entry)
		return true;
	// Several threads may tell of the same image at once; the collector takes equal records for
	// one.
	if (!fm_sig.has_python)
		fm_sig_find_python(image->start, image->end, image->bias);
	uintptr_t path = image->path ? image->path : (uintptr_t)fm_sig.exe;
	uint32_t path_len = (uint32_t)fm_sig_read_length(path, 4096), id_len = 0;
	uintptr_t build_id = find_build_id(image, &id_len);
	struct fm_wire_image *rec =
		fm_sig_ring_reserve(t, FM_WIRE_IMAGE, sizeof(struct fm_wire_image) + path_len + id_len);
	if (!rec)
		return false;
	rec->time_ns = t->now_ns; // not later than the sample that met it
	rec->start = image->start;
	rec->end = image->end;
	rec->bias = image->bias;
	rec->flags = image->path ? 0 : FM_IMAGE_IS_MAIN;
	if (fm_sig.has_python && fm_sig.python.image_start == image->start)
		rec->flags |= FM_IMAGE_IS_PYTHON;
	rec->path_len = path_len;
	rec->build_id_len = id_len;
	rec->reserved = 0;
	if (!fm_sig_read(path, rec->bytes, path_len) || !fm_sig_read(build_id, rec->bytes + path_len, id_len))
		return true; // it has just been closed: nothing is committed, and nobody asks again
	const uint8_t *name = rec->bytes;
	if (path_len > 10 && name[0] == 'l' && name[6] == 'v' && name[7] == 'd') // linux-vdso.so.1
		rec->flags |= FM_IMAGE_IS_VDSO;
	fm_sig_ring_commit(t, &rec->rec);
	atomic_store_explicit(&entry->told, 1, memory_order_release);
	return true;
}

static FM_SIGSAFE bool has_name(uintptr_t at, const char *name)
{
	for (;; at++, name++) {
		uint8_t c;
		if (!fm_sig_read_u8(at, &c) || c != (uint8_t)*name)
			return false;
		if (!c)
			return true;
	}
}

// What is needed of an image's dynamic section to look a symbol up.
struct symbols {
	uintptr_t table, names, hash;
	uint64_t names_bytes;
};

static FM_SIGSAFE bool find_symbols(uintptr_t start, uintptr_t end, uintptr_t bias, struct symbols *ret)
{
	ElfW(Phdr) phdr;
	uint32_t nth = 0;
	*ret = (struct symbols){ 0 };
	if (!fm_sig_elf_header(start, PT_DYNAMIC, &nth, &phdr))
		return false;
	uintptr_t pos = bias + phdr.p_vaddr, dynamic_end = pos + phdr.p_memsz;
	if (pos < start || dynamic_end > end)
		return false;
	ElfW(Dyn) dyn;
	for (; pos + sizeof(dyn) <= dynamic_end; pos += sizeof(dyn)) {
		if (!fm_sig_read(pos, &dyn, sizeof(dyn)))
			return false;
		if (dyn.d_tag == DT_NULL)
			break;
		uintptr_t ptr = dyn.d_un.d_ptr;
		// glibc relocates these in place for most images, but not for the vDSO and not on
		// every CPU.
		if (ptr < start)
			ptr += bias;
		if (dyn.d_tag == DT_SYMTAB)
			ret->table = ptr;
		else if (dyn.d_tag == DT_STRTAB)
			ret->names = ptr;
		else if (dyn.d_tag == DT_STRSZ)
			ret->names_bytes = dyn.d_un.d_val;
		else if (dyn.d_tag == DT_GNU_HASH)
			ret->hash = ptr;
	}
	return ret->table >= start && ret->table < end && ret->names >= start && ret->names + ret->names_bytes <= end &&
	       ret->hash >= start && ret->hash + 16 <= end;
}

FM_SIGSAFE uintptr_t fm_sig_elf_symbol(uintptr_t start, uintptr_t end, uintptr_t bias, const char *name,
				       uint64_t *ret_size)
{
	struct symbols s;
	uint32_t head[4]; // buckets, first symbol, bloom words, shift
	if (!find_symbols(start, end, bias, &s) || !fm_sig_read(s.hash, head, sizeof(head)))
		return 0;
	uint32_t n_buckets = head[0], first_symbol = head[1], n_bloom = head[2];
	uintptr_t buckets = s.hash + 16 + (uint64_t)n_bloom * sizeof(ElfW(Addr));
	uintptr_t chains = buckets + (uint64_t)n_buckets * 4;
	if (n_buckets == 0 || buckets > end || chains > end)
		return 0;
	uint32_t hash = 5381;
	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	uint32_t idx;
	if (!fm_sig_read_u32(buckets + (uint64_t)(hash % n_buckets) * 4, &idx) || idx < first_symbol)
		return 0;
	for (uint32_t limit = 0; limit < 100000; limit++, idx++) {
		uintptr_t chain = chains + (uint64_t)(idx - first_symbol) * 4;
		uintptr_t sym_addr = s.table + (uint64_t)idx * sizeof(ElfW(Sym));
		uint32_t chain_hash;
		ElfW(Sym) sym;
		if (chain + 4 > end || sym_addr + sizeof(sym) > end || !fm_sig_read_u32(chain, &chain_hash))
			return 0;
		if ((chain_hash | 1) == (hash | 1)) {
			if (!fm_sig_read(sym_addr, &sym, sizeof(sym)))
				return 0;
			if (sym.st_name < s.names_bytes && sym.st_shndx != SHN_UNDEF &&
			    has_name(s.names + sym.st_name, name)) {
				if (ret_size)
					*ret_size = sym.st_size;
				return bias + sym.st_value;
			}
		}
		if (chain_hash & 1)
			return 0;
	}
	return 0;
}
