#include "image/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/mem.h"

struct symbol {
	uint64_t addr, size;
	uint32_t name;    // offset in the string section
	uint8_t rank;     // which of several names for one address is shown: the lowest
	bool is_sizeless; // size is what is left of its section
};

struct fm_symbols {
	int fd;
	Elf *elf;
	size_t strings; // section index
	FM_VEC(struct symbol) table;
	uint8_t build_id[64];
	uint32_t build_id_len;
	const uint8_t
		*starts; // .eh_frame_hdr's table of {int32 start, int32 fde}, both relative to starts_base, by start
	size_t n_starts;
	uint64_t starts_base;
};

// Beyond these a header is lying: the biggest shared objects known have a few million symbols.
#define MAX_SYMBOLS 50000000u
#define MAX_BACKWARD_STEPS 8 // how many inner functions an outer one may enclose before its tail

static int compare(const void *pa, const void *pb)
{
	const struct symbol *a = pa, *b = pb;
	if (a->addr != b->addr)
		return (a->addr > b->addr) - (a->addr < b->addr);
	return (a->rank > b->rank) - (a->rank < b->rank);
}

// Global before weak before local, functions before bare labels; a size makes a name more trustworthy than none.
static uint8_t rank_of(const GElf_Sym *sym)
{
	unsigned bind = GELF_ST_BIND(sym->st_info);
	uint8_t rank = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2;
	if (GELF_ST_TYPE(sym->st_info) == STT_NOTYPE)
		rank = (uint8_t)(rank + 8);
	if (!sym->st_size)
		rank = (uint8_t)(rank + 4);
	return rank;
}

// The executable section that a symbol lies in. False for absolute symbols, data, and addresses outside their section.
static bool find_code(Elf *elf, const GElf_Sym *sym, GElf_Shdr *ret)
{
	Elf_Scn *scn = sym->st_shndx < SHN_LORESERVE ? elf_getscn(elf, sym->st_shndx) : NULL;
	return scn && gelf_getshdr(scn, ret) && (ret->sh_flags & SHF_EXECINSTR) && sym->st_value >= ret->sh_addr &&
	       sym->st_value - ret->sh_addr < ret->sh_size;
}

static bool is_function(const GElf_Sym *sym)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	// Assembly often forgets the type (_start, many hand-written kernels).
	return sym->st_shndx != SHN_UNDEF && sym->st_value && sym->st_name &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

static void read_section(struct fm_symbols *s, Elf_Scn *scn, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	if (!data || !data->d_buf || !header->sh_entsize)
		return;
	size_t n = FM_MIN(data->d_size / header->sh_entsize, (size_t)MAX_SYMBOLS);
	s->strings = header->sh_link;
	for (size_t i = 0; i < n; i++) {
		GElf_Sym sym;
		if (!gelf_getsym(data, (int)i, &sym))
			break;
		GElf_Shdr code;
		if (!is_function(&sym) || !find_code(s->elf, &sym, &code))
			continue;
		uint64_t left = code.sh_size - (sym.st_value - code.sh_addr);
		fm_vec_push(&s->table, (struct symbol){ sym.st_value, sym.st_size ? sym.st_size : left, sym.st_name,
							rank_of(&sym), sym.st_size == 0 });
	}
}

static void read_symbols(struct fm_symbols *s)
{
	static const unsigned kinds[] = { SHT_SYMTAB, SHT_DYNSYM };
	for (size_t k = 0; k < FM_ARRAY_LEN(kinds) && !s->table.n; k++)
		for (Elf_Scn *scn = elf_nextscn(s->elf, NULL); scn; scn = elf_nextscn(s->elf, scn)) {
			GElf_Shdr header;
			if (gelf_getshdr(scn, &header) && header.sh_type == kinds[k])
				read_section(s, scn, &header);
		}
	if (!s->table.n)
		return;
	qsort(s->table.items, s->table.n, sizeof(*s->table.items), compare);
	size_t kept = 1;
	for (size_t i = 1; i < s->table.n; i++)
		if (s->table.items[i].addr != s->table.items[kept - 1].addr)
			s->table.items[kept++] = s->table.items[i];
	s->table.n = kept;
}

static void read_build_id(struct fm_symbols *s)
{
	for (Elf_Scn *scn = elf_nextscn(s->elf, NULL); scn; scn = elf_nextscn(s->elf, scn)) {
		GElf_Shdr header;
		if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_NOTE)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		GElf_Nhdr note;
		size_t name_off, desc_off;
		for (size_t off = 0, next; data && (next = gelf_getnote(data, off, &note, &name_off, &desc_off)) > 0;
		     off = next) {
			if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
			    memcmp((char *)data->d_buf + name_off, "GNU", 4))
				continue;
			s->build_id_len = (uint32_t)FM_MIN((size_t)note.n_descsz, sizeof(s->build_id));
			memcpy(s->build_id, (char *)data->d_buf + desc_off, s->build_id_len);
			return;
		}
	}
}

// LSB, "Exception Frame Header": version 1, three encodings, then pointer to .eh_frame (pcrel sdata4), count (udata4)
// and the sorted table (datarel sdata4). Every linker writes these encodings; any other table is left alone.
#define HDR_BYTES 12
static void read_function_starts(struct fm_symbols *s)
{
	size_t names;
	if (elf_getshdrstrndx(s->elf, &names))
		return;
	for (Elf_Scn *scn = elf_nextscn(s->elf, NULL); scn; scn = elf_nextscn(s->elf, scn)) {
		GElf_Shdr header;
		const char *name = gelf_getshdr(scn, &header) ? elf_strptr(s->elf, names, header.sh_name) : NULL;
		if (!name || strcmp(name, ".eh_frame_hdr"))
			continue;
		Elf_Data *data = elf_rawdata(scn, NULL);
		if (!data || !data->d_buf || data->d_size < HDR_BYTES)
			return;
		struct fm_cursor c = fm_cursor_over(data->d_buf, data->d_size);
		uint32_t encodings = fm_cursor_u32(&c);
		fm_cursor_u32(&c);
		uint32_t n = fm_cursor_u32(&c);
		if (encodings != 0x3b031b01)
			return;
		s->starts = c.pos;
		s->n_starts = FM_MIN((size_t)n, fm_cursor_left(&c) / 8);
		s->starts_base = header.sh_addr;
		return;
	}
}

static uint64_t start_at(const struct fm_symbols *s, size_t i)
{
	struct fm_cursor c = fm_cursor_over(s->starts + i * 8, 8);
	return s->starts_base + (uint64_t)(int64_t)(int32_t)fm_cursor_u32(&c);
}

enum fm_err fm_symbols_function_start(const struct fm_symbols *s, uint64_t addr, uint64_t *ret)
{
	size_t low = 0, high = s->n_starts; // the first start past addr
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (start_at(s, mid) <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	// The table has no ends. Past the last start anything may follow, so only what another function bounds is told.
	if (low == 0 || low == s->n_starts || start_at(s, low - 1) > addr)
		return FM_E_NOT_FOUND;
	*ret = start_at(s, low - 1);
	return FM_OK;
}

static enum fm_err take_elf(struct fm_symbols *s, const char *what, struct fm_symbols **ret, struct fm_diag *diag)
{
	if (!s->elf || elf_kind(s->elf) != ELF_K_ELF) {
		fm_symbols_close(s);
		return fm_diag_set(diag, FM_E_CORRUPT, "%s is no ELF file", what);
	}
	read_build_id(s);
	read_symbols(s);
	read_function_starts(s);
	*ret = s;
	return FM_OK;
}

enum fm_err fm_symbols_open(const char *path, struct fm_symbols **ret, struct fm_diag *diag)
{
	elf_version(EV_CURRENT);
	// A fifo or device under a recorded path must not block us: look before opening.
	struct stat st;
	if (stat(path, &st))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fm_diag_set(diag, FM_E_CORRUPT, "%s is no regular file", path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot read %s: %s", path, strerror(errno));
	struct fm_symbols *s = fm_alloc(sizeof(*s));
	s->fd = fd;
	s->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	return take_elf(s, path, ret, diag);
}

enum fm_err fm_symbols_open_vdso(struct fm_symbols **ret, struct fm_diag *diag)
{
	elf_version(EV_CURRENT);
	_cleanup_fclose_ FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	uint64_t start = 0, end = 0;
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "[vdso]") && sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
			break;
		else
			start = end = 0;
	if (!start)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "this process has no vDSO");
	struct fm_symbols *s = fm_alloc(sizeof(*s));
	s->fd = -1;
	s->elf = elf_memory((char *)(uintptr_t)start, end - start);
	return take_elf(s, "the vDSO", ret, diag);
}

void fm_symbols_close(struct fm_symbols *s)
{
	if (!s)
		return;
	elf_end(s->elf);
	if (s->fd >= 0)
		close(s->fd);
	fm_vec_deinit(&s->table);
	free(s);
}

enum fm_err fm_symbols_find(const struct fm_symbols *s, uint64_t addr, struct fm_symbol *ret)
{
	size_t low = 0, high = s->table.n; // the first symbol past addr
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (s->table.items[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t step = 0; step < MAX_BACKWARD_STEPS && low > step; step++) {
		const struct symbol *sym = &s->table.items[low - step - 1];
		// Without a size a label reaches to the next one, and only the nearest can mean us.
		if (addr - sym->addr >= sym->size || (sym->is_sizeless && step > 0))
			continue;
		const char *name = elf_strptr(s->elf, s->strings, sym->name);
		if (!name || !*name)
			return FM_E_NOT_FOUND;
		*ret = (struct fm_symbol){ sym->addr, sym->size, name };
		return FM_OK;
	}
	return FM_E_NOT_FOUND;
}

size_t fm_symbols_count(const struct fm_symbols *s)
{
	return s->table.n;
}

struct fm_str fm_symbols_build_id(const struct fm_symbols *s)
{
	return (struct fm_str){ (const char *)s->build_id, s->build_id_len };
}
