// SPDX-License-Identifier: Apache-2.0
#include "image/cfa_section.h"

#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"

#ifndef SHT_X86_64_UNWIND
#define SHT_X86_64_UNWIND 0x70000001
#endif

bool fm_cfa_section_find(Elf *elf, const char *name, struct fm_cfa_section *ret)
{
	size_t names;
	*ret = (struct fm_cfa_section){ .elf = elf, .is_eh = !strcmp(name, ".eh_frame") };
	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
		GElf_Shdr header;
		if (!gelf_getshdr(scn, &header) || header.sh_type == SHT_NOBITS)
			continue;
		const char *have = elf_strptr(elf, names, header.sh_name);
		if (have && ret->is_eh && !strcmp(have, ".eh_frame_hdr")) { // libdw looks for it before .eh_frame only
			ret->index = elf_rawdata(scn, NULL);
			ret->index_addr = header.sh_addr;
		}
		if (!have || strcmp(have, name) != 0)
			continue;
		if ((header.sh_flags & SHF_COMPRESSED) && elf_compress(scn, 0, 0) < 0)
			return false;
		ret->data = elf_getdata(scn, NULL);
		ret->addr = header.sh_addr;
		return ret->data && ret->data->d_buf;
	}
	return false;
}

void fm_cfa_make_plain(Elf *elf)
{
	for (Elf_Scn *scn = elf_nextscn(elf, NULL); scn; scn = elf_nextscn(elf, scn)) {
		GElf_Shdr header;
		if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_X86_64_UNWIND)
			continue;
		header.sh_type = SHT_PROGBITS;
		gelf_update_shdr(scn, &header);
	}
}

// A pointer in one of the encodings that .eh_frame uses. False: another encoding, or cut off.
static bool read_pointer(const struct fm_cfa_section *s, const uint8_t **pos, const uint8_t *end, uint8_t enc,
			 uint64_t *ret)
{
	unsigned bytes = (enc & 7) == 2 ? 2 : (enc & 7) == 3 ? 4 : (enc & 7) == 0 || (enc & 7) == 4 ? 8 : 0;
	if (!bytes || (size_t)(end - *pos) < bytes || ((enc & 0x70) && (enc & 0x70) != 0x10))
		return false;
	uint64_t v = 0;
	memcpy(&v, *pos, bytes);
	if (enc & 8)
		v = (uint64_t)((int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes));
	if ((enc & 0x70) == 0x10)
		v += s->addr + (uint64_t)(*pos - (const uint8_t *)s->data->d_buf);
	*pos += bytes;
	*ret = v;
	return true;
}

#define ALIGNED 0x50 // DW_EH_PE_aligned: padding comes first, which nobody writes

// The encoding of addresses in the FDEs of a CIE ('R' in its augmentation). -1: not understood.
static int fde_encoding(const struct fm_cfa_section *s, const Dwarf_CIE *cie)
{
	const uint8_t *at = cie->augmentation_data, *end = at + cie->augmentation_data_size;
	if (cie->augmentation[0] && cie->augmentation[0] != 'z')
		return -1; // of gcc 2
	for (const char *a = cie->augmentation; *a; a++) {
		if (*a == 'R')
			return at < end ? *at : -1;
		if (*a == 'L')
			at++;
		if (*a == 'P') {
			uint64_t ignored;
			if (at >= end || (*at & 0x70) == ALIGNED)
				return -1;
			uint8_t enc = *at++ & 0x0f;
			if (!read_pointer(s, &at, end, enc, &ignored))
				return -1;
		}
	}
	return 0;
}

static void skip_augmentation(const Dwarf_CIE *cie, const uint8_t **pos, const uint8_t *end)
{
	struct fm_cursor c = fm_cursor_over(*pos, (size_t)(end - *pos));
	if (cie->augmentation[0] == 'z')
		fm_cursor_bytes(&c, fm_cursor_varint(&c));
	*pos = c.pos;
}

// What many FDEs in a row share.
struct cie {
	Dwarf_Off off;
	Dwarf_CIE entry;
	int encoding; // of addresses; -1 = not understood
	bool is_there, is_sane;
};

static void read_cie(const struct fm_cfa_section *s, const unsigned char *e_ident, Dwarf_Off off, struct cie *ret)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;
	*ret = (struct cie){ .off = off };
	if (dwarf_next_cfi(e_ident, s->data, s->is_eh, off, &next, &entry) != 0 || !dwarf_cfi_cie_p(&entry))
		return;
	ret->entry = entry.cie;
	ret->encoding = s->is_eh ? fde_encoding(s, &ret->entry) : 0;
	ret->is_there = true;
	ret->is_sane = ret->encoding >= 0 &&
		       fm_cfa_program_is_sane(ret->entry.initial_instructions, ret->entry.initial_instructions_end);
}

static bool each_entry(const struct fm_cfa_section *s, fm_cfa_function_fn each, void *ctx)
{
	const unsigned char *e_ident = (const unsigned char *)elf_getident(s->elf, NULL);
	struct cie cie = { .off = UINT64_MAX };
	for (Dwarf_Off off = 0, next = 0;; off = next) {
		Dwarf_CFI_Entry entry;
		int status = dwarf_next_cfi(e_ident, s->data, s->is_eh, off, &next, &entry);
		if (status > 0 || next <= off)
			return true;
		if (status < 0 || dwarf_cfi_cie_p(&entry))
			continue;
		if (entry.fde.CIE_pointer != cie.off)
			read_cie(s, e_ident, entry.fde.CIE_pointer, &cie);
		if (!cie.is_there)
			continue; // for libdw neither
		const uint8_t *pos = entry.fde.start, *end = entry.fde.end;
		struct fm_cfa_function f = { .off = off };
		uint64_t size;
		if (!cie.is_sane || !read_pointer(s, &pos, end, (uint8_t)cie.encoding, &f.start) ||
		    !read_pointer(s, &pos, end, cie.encoding & 0x0f, &size))
			return false;
		f.end = f.start + size;
		skip_augmentation(&cie.entry, &pos, end);
		if (!fm_cfa_program_is_sane(pos, end))
			return false;
		f.n_program = (uint32_t)(end - pos);
		each(ctx, &f);
	}
}

// ---- the index ----

struct noted {
	fm_cfa_function_fn each;
	void *ctx;
	FM_VEC(uint64_t) offsets; // of entries, rising
};

static void note(void *ctx, const struct fm_cfa_function *f)
{
	struct noted *noted = ctx;
	fm_vec_push(&noted->offsets, f->off);
	noted->each(noted->ctx, f);
}

static int compare_offsets(const void *pa, const void *pb)
{
	const uint64_t *a = pa, *b = pb;
	return (*a > *b) - (*a < *b);
}

static bool leads_to_entries(const struct fm_cfa_section *s, const struct noted *noted)
{
	struct fm_cursor c = fm_cursor_over(s->index->d_buf ? s->index->d_buf : "", s->index->d_size);
	uint32_t head = fm_cursor_u32(&c);
	if (head == FM_CFA_INDEX_EMPTY)
		return true;
	fm_cursor_u32(&c); // where .eh_frame is: found by its name here
	uint32_t n = fm_cursor_u32(&c);
	if (head != FM_CFA_INDEX_HEAD || c.err)
		return false;
	for (uint32_t i = 0; i < n && fm_cursor_left(&c) >= 8; i++) {
		fm_cursor_u32(&c); // the function's start
		uint64_t off = s->index_addr + (uint64_t)(int64_t)(int32_t)fm_cursor_u32(&c) - s->addr;
		if (!noted->offsets.n ||
		    !bsearch(&off, noted->offsets.items, noted->offsets.n, sizeof(off), compare_offsets))
			return false;
	}
	return true;
}

bool fm_cfa_section_each(const struct fm_cfa_section *s, fm_cfa_function_fn each, void *ctx)
{
	if (!s->index)
		return each_entry(s, each, ctx);
	struct noted noted = { each, ctx, { 0 } };
	bool is_sane = each_entry(s, note, &noted) && leads_to_entries(s, &noted);
	fm_vec_deinit(&noted.offsets);
	return is_sane;
}

static void pass(void *ctx, const struct fm_cfa_function *f)
{
}

bool fm_cfa_section_is_sane(const struct fm_cfa_section *s)
{
	return fm_cfa_section_each(s, pass, NULL);
}
