// Images are found by _dl_find_object (glibc 2.35), which is made for unwinders: no locks, callable at signal time.
// Older libcs lack it; there the table that the agent built at start (fm_sig_images_at_start) answers.
#include "sigsafe/image.h"

#include <elf.h>
#include <link.h>

#include "format/model.h"
#include "sigsafe/python.h"
#include "sigsafe/raw.h"
#include "sigsafe/ring.h"

#include "sigsafe/sigsafe.h"

// As <dlfcn.h> of glibc 2.35 declares it; spelt out under a name of our own so that an older libc compiles the same file.
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

FM_SIGSAFE bool fm_sig_image_find(uintptr_t pc, struct fm_sig_image_info *ret)
{
	if (FM_LIKELY(find_object != NULL)) {
		struct dl_find_object_result found;
		if (find_object((void *)pc, &found) != 0)
			return false;
		ret->start = (uintptr_t)found.map_start;
		ret->end = (uintptr_t)found.map_end;
		ret->eh_frame_hdr = (uintptr_t)found.eh_frame;
		ret->bias = found.link_map ? found.link_map->l_addr : 0;
		ret->path = found.link_map && found.link_map->l_name ? found.link_map->l_name : "";
		// The kernel maps an executable's segments one by one, and where they leave holes (patchelf makes some) the
		// answer is the one segment that holds pc, without header, tables or unwind information.
		if (FM_UNLIKELY(ret->eh_frame_hdr < ret->start || ret->eh_frame_hdr >= ret->end) && ret->eh_frame_hdr)
			find_at_start(pc, ret);
		return true;
	}
	return find_at_start(pc, ret);
}

static FM_SIGSAFE size_t length_of(const char *s, size_t max)
{
	size_t n = 0;
	while (n < max && s[n])
		n++;
	return n;
}

// The GNU build-id note of a mapped image; its bytes are borrowed from the image.
static FM_SIGSAFE const uint8_t *find_build_id(const struct fm_sig_image_info *image, uint32_t *ret_len)
{
	const ElfW(Ehdr) *ehdr = (const void *)image->start;
	if (ehdr->e_ident[0] != 0x7f || ehdr->e_ident[1] != 'E' || ehdr->e_phentsize != sizeof(ElfW(Phdr)) ||
	    ehdr->e_phoff + (uint64_t)ehdr->e_phnum * sizeof(ElfW(Phdr)) > 4096)
		return NULL;
	const ElfW(Phdr) *phdr = (const void *)(image->start + ehdr->e_phoff);
	for (uint32_t i = 0; i < ehdr->e_phnum; i++) {
		if (phdr[i].p_type != PT_NOTE)
			continue;
		uintptr_t pos = image->bias + phdr[i].p_vaddr, end = pos + phdr[i].p_memsz;
		if (pos < image->start || end > image->end)
			continue;
		while (pos + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *note = (const void *)pos;
			uintptr_t name = pos + sizeof(*note), desc = name + ((note->n_namesz + 3) & ~3u);
			uintptr_t next = desc + ((note->n_descsz + 3) & ~3u);
			if (next > end || next <= pos)
				break;
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && *(const char *)name == 'G') {
				*ret_len = FM_MIN(note->n_descsz, 64u);
				return (const uint8_t *)desc;
			}
			pos = next;
		}
	}
	return NULL;
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

FM_SIGSAFE bool fm_sig_image_tell(struct fm_sig_thread *t, const struct fm_sig_image_info *image)
{
	struct fm_sig_image *entry = claim_image(image->start);
	if (!entry)
		return true;
	// Several threads may tell of the same image at once; the collector takes equal records for one.
	if (!fm_sig.has_python)
		fm_sig_python_look(image->start, image->end, image->bias);
	const char *path = image->path[0] ? image->path : fm_sig.exe;
	uint32_t path_len = (uint32_t)length_of(path, 4096), id_len = 0;
	const uint8_t *build_id = find_build_id(image, &id_len);
	struct fm_wire_image *rec =
		fm_sig_ring_reserve(t, FM_WIRE_IMAGE, sizeof(struct fm_wire_image) + path_len + id_len);
	if (!rec)
		return false;
	rec->time_ns = t->now_ns; // not later than the sample that met it
	rec->start = image->start;
	rec->end = image->end;
	rec->bias = image->bias;
	rec->flags = image->path[0] ? 0 : FM_IMAGE_IS_MAIN;
	if (fm_sig.has_python && fm_sig.python.image_start == image->start)
		rec->flags |= FM_IMAGE_IS_PYTHON;
	if (path_len > 10 && path[0] == 'l' && path[6] == 'v' && path[7] == 'd') // linux-vdso.so.1
		rec->flags |= FM_IMAGE_IS_VDSO;
	rec->path_len = path_len;
	rec->build_id_len = id_len;
	rec->reserved = 0;
	fm_sig_copy(rec->bytes, path, path_len);
	fm_sig_copy(rec->bytes + path_len, build_id, id_len);
	fm_sig_ring_commit(t, &rec->rec);
	atomic_store_explicit(&entry->told, 1, memory_order_release);
	return true;
}

static FM_SIGSAFE bool same_name(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

FM_SIGSAFE uintptr_t fm_sig_elf_symbol(uintptr_t start, uintptr_t end, uintptr_t bias, const char *name,
				       uint64_t *ret_size)
{
	const ElfW(Ehdr) *ehdr = (const void *)start;
	if (ehdr->e_ident[0] != 0x7f || ehdr->e_ident[1] != 'E' || ehdr->e_phentsize != sizeof(ElfW(Phdr)) ||
	    ehdr->e_phoff + (uint64_t)ehdr->e_phnum * sizeof(ElfW(Phdr)) > 4096)
		return 0;
	const ElfW(Phdr) *phdr = (const void *)(start + ehdr->e_phoff);
	uintptr_t dynamic = 0, dynamic_end = 0;
	for (uint32_t i = 0; i < ehdr->e_phnum; i++)
		if (phdr[i].p_type == PT_DYNAMIC) {
			dynamic = bias + phdr[i].p_vaddr;
			dynamic_end = dynamic + phdr[i].p_memsz;
		}
	if (dynamic < start || dynamic_end > end)
		return 0;
	uintptr_t symtab = 0, strtab = 0, gnu_hash = 0;
	uint64_t strsz = 0;
	for (uintptr_t pos = dynamic; pos + sizeof(ElfW(Dyn)) <= dynamic_end; pos += sizeof(ElfW(Dyn))) {
		const ElfW(Dyn) *dyn = (const void *)pos;
		if (dyn->d_tag == DT_NULL)
			break;
		uintptr_t ptr = dyn->d_un.d_ptr;
		// glibc relocates these in place for most images, but not for the vDSO and not on every CPU.
		if (ptr < start)
			ptr += bias;
		if (dyn->d_tag == DT_SYMTAB)
			symtab = ptr;
		else if (dyn->d_tag == DT_STRTAB)
			strtab = ptr;
		else if (dyn->d_tag == DT_STRSZ)
			strsz = dyn->d_un.d_val;
		else if (dyn->d_tag == DT_GNU_HASH)
			gnu_hash = ptr;
	}
	if (symtab < start || symtab >= end || strtab < start || strtab + strsz > end || gnu_hash < start ||
	    gnu_hash + 16 > end)
		return 0;
	const uint32_t *head = (const void *)gnu_hash;
	uint32_t n_buckets = head[0], first_symbol = head[1], n_bloom = head[2];
	uintptr_t buckets = gnu_hash + 16 + (uint64_t)n_bloom * sizeof(ElfW(Addr));
	uintptr_t chains = buckets + (uint64_t)n_buckets * 4;
	if (n_buckets == 0 || buckets > end || chains > end)
		return 0;
	uint32_t hash = 5381;
	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	uint32_t idx = *(const uint32_t *)(buckets + (uint64_t)(hash % n_buckets) * 4);
	if (idx < first_symbol)
		return 0;
	for (uint32_t limit = 0; limit < 100000; limit++, idx++) {
		uintptr_t chain = chains + (uint64_t)(idx - first_symbol) * 4;
		uintptr_t sym_addr = symtab + (uint64_t)idx * sizeof(ElfW(Sym));
		if (chain + 4 > end || sym_addr + sizeof(ElfW(Sym)) > end)
			return 0;
		uint32_t chain_hash = *(const uint32_t *)chain;
		const ElfW(Sym) *sym = (const void *)sym_addr;
		if ((chain_hash | 1) == (hash | 1) && sym->st_name < strsz && sym->st_shndx != SHN_UNDEF &&
		    same_name((const char *)strtab + sym->st_name, name)) {
			if (ret_size)
				*ret_size = sym->st_size;
			return bias + sym->st_value;
		}
		if (chain_hash & 1)
			return 0;
	}
	return 0;
}
