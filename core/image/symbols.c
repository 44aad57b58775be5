// SPDX-License-Identifier: Apache-2.0
#include "image/symbols.h"

#include <elf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "image/object.h"
#include "image/elf_file.h"

struct symbol {
	uint64_t addr, size;
	uint32_t name;    // offset in the string section
	uint8_t source;   // index into sources
	uint8_t rank;     // which of several names for one address is shown: the lowest
	bool is_sizeless; // size is what is left of its section
};

// A symbol table: the image's own, or its separate debug file's.
struct source {
	Elf *elf;
	size_t strings; // section index
};

struct fm_symbols {
	struct fm_object *own; // when nobody else holds it
	const struct fm_elf *main;
	struct fm_arena arena; // names of stubs
	struct source sources[3];
	unsigned n_sources;
	FM_VEC(struct symbol) table;
	struct fm_str build_id;
	// .eh_frame_hdr's table of {int32 start, int32 fde}, both relative to starts_base, by start
	const uint8_t *starts;
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

// Global before weak before local, functions before bare labels; a size makes a name more
// trustworthy than none.
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

// The executable section that a symbol lies in. False for absolute symbols, data, and addresses
// outside their section.
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

static bool read_table(struct fm_symbols *s, const struct fm_elf *e, unsigned type)
{
	GElf_Shdr header;
	Elf_Scn *scn = fm_elf_find_type(e, type);
	if (!scn || !gelf_getshdr(scn, &header))
		return false;
	Elf_Data *data = elf_getdata(scn, NULL);
	if (!data || !data->d_buf || !header.sh_entsize)
		return false;
	size_t n = FM_MIN(data->d_size / header.sh_entsize, (size_t)MAX_SYMBOLS), before = s->table.n;
	uint8_t source = (uint8_t)s->n_sources;
	s->sources[s->n_sources++] = (struct source){ e->elf, header.sh_link };
	for (size_t i = 0; i < n; i++) {
		GElf_Sym sym;
		if (!gelf_getsym(data, (int)i, &sym))
			break;
		GElf_Shdr code;
		if (!is_function(&sym) || !find_code(e->elf, &sym, &code))
			continue;
		uint64_t left = code.sh_size - (sym.st_value - code.sh_addr);
		fm_vec_push(&s->table, (struct symbol){ sym.st_value, sym.st_size ? sym.st_size : left, sym.st_name,
							source, rank_of(&sym), sym.st_size == 0 });
	}
	return s->table.n > before;
}

// A .symtab has everything. Without one, exported functions are in .dynsym and, where
// .gnu_debugdata is, the others there.
static void read_symbols(struct fm_symbols *s, const struct fm_object *o)
{
	if (!read_table(s, &o->main, SHT_SYMTAB) && !read_table(s, &o->debug, SHT_SYMTAB)) {
		read_table(s, &o->mini, SHT_SYMTAB);
		read_table(s, &o->main, SHT_DYNSYM);
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

// LSB, "Exception Frame Header": version 1, three encodings, then pointer to .eh_frame (pcrel
// sdata4), count (udata4) and the sorted table (datarel sdata4). Every linker writes these
// encodings; any other table is left alone.
#define HDR_BYTES 12
static void read_function_starts(struct fm_symbols *s, const struct fm_elf *e)
{
	GElf_Shdr header;
	Elf_Data *data = fm_elf_section(e, ".eh_frame_hdr", &header);
	if (!data || data->d_size < HDR_BYTES)
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
}

static uint64_t start_at(const struct fm_symbols *s, size_t i)
{
	struct fm_cursor c = fm_cursor_over(s->starts + i * 8, 8);
	return s->starts_base + (uint64_t)(int64_t)(int32_t)fm_cursor_u32(&c);
}

enum fm_err fm_symbols_function_start(const struct fm_symbols *s, uint64_t addr, uint64_t *ret)
{
	size_t low = fm_bisect(s->n_starts, i, start_at(s, i) <= addr); // the first start past addr
	// The table has no ends. Past the last start anything may follow, so only what another
	// function bounds is told.
	if (low == 0 || low == s->n_starts || start_at(s, low - 1) > addr)
		return FM_E_NOT_FOUND;
	*ret = start_at(s, low - 1);
	return FM_OK;
}

struct fm_symbols *fm_symbols_create(const struct fm_object *o)
{
	struct fm_symbols *s = fm_alloc(sizeof(*s));
	s->main = &o->main;
	s->build_id = (struct fm_str){ (const char *)o->main.build_id, o->main.build_id_len };
	read_symbols(s, o);
	read_function_starts(s, &o->main);
	return s;
}

static enum fm_err open_own(const struct fm_object_request *request, struct fm_symbols **ret, struct fm_diag *diag)
{
	struct fm_object *o;
	enum fm_err err = fm_object_open(request, &o, diag);
	if (err)
		return err;
	*ret = fm_symbols_create(o);
	(*ret)->own = o;
	return FM_OK;
}

enum fm_err fm_symbols_open(const char *path, struct fm_symbols **ret, struct fm_diag *diag)
{
	return open_own(&(struct fm_object_request){ .path = path }, ret, diag);
}

enum fm_err fm_symbols_open_vdso(struct fm_symbols **ret, struct fm_diag *diag)
{
	return open_own(&(struct fm_object_request){ .path = "", .is_vdso = true }, ret, diag);
}

void fm_symbols_close(struct fm_symbols *s)
{
	if (!s)
		return;
	fm_vec_deinit(&s->table);
	fm_arena_deinit(&s->arena);
	fm_object_close(s->own);
	free(s);
}

// How many symbols begin at or before the address.
static size_t count_before(const struct fm_symbols *s, uint64_t addr)
{
	return fm_bisect(s->table.n, i, s->table.items[i].addr <= addr);
}

enum fm_err fm_symbols_find_before(const struct fm_symbols *s, uint64_t addr, struct fm_symbol *ret)
{
	size_t n = count_before(s, addr);
	const struct symbol *sym = n ? &s->table.items[n - 1] : NULL;
	const char *name =
		sym ? elf_strptr(s->sources[sym->source].elf, s->sources[sym->source].strings, sym->name) : NULL;
	if (!name || !*name)
		return FM_E_NOT_FOUND;
	*ret = (struct fm_symbol){ sym->addr, sym->size, name };
	return FM_OK;
}

enum fm_err fm_symbols_find(const struct fm_symbols *s, uint64_t addr, struct fm_symbol *ret)
{
	size_t low = count_before(s, addr);
	for (size_t step = 0; step < MAX_BACKWARD_STEPS && low > step; step++) {
		const struct symbol *sym = &s->table.items[low - step - 1];
		// Without a size a label reaches to the next one, and only the nearest can mean us.
		if (addr - sym->addr >= sym->size || (sym->is_sizeless && step > 0))
			continue;
		const char *name = elf_strptr(s->sources[sym->source].elf, s->sources[sym->source].strings, sym->name);
		if (!name || !*name)
			return FM_E_NOT_FOUND;
		*ret = (struct fm_symbol){ sym->addr, sym->size, name };
		return FM_OK;
	}
	return FM_E_NOT_FOUND;
}

enum fm_err fm_symbols_find_stub(struct fm_symbols *s, uint64_t addr, struct fm_symbol *ret)
{
	const char *name;
	uint64_t start;
	if (fm_x86_plt_find(s->main, addr, &name, &start))
		return FM_E_NOT_FOUND;
	static const char suffix[] = "@plt";
	size_t len = strlen(name);
	char *whole = fm_arena_alloc(&s->arena, len + sizeof(suffix));
	memcpy(whole, name, len);
	memcpy(whole + len, suffix, sizeof(suffix));
	*ret = (struct fm_symbol){ start, 16, whole };
	return FM_OK;
}

size_t fm_symbols_count(const struct fm_symbols *s)
{
	return s->table.n;
}

struct fm_str fm_symbols_build_id(const struct fm_symbols *s)
{
	return s->build_id;
}
