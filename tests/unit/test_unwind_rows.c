// SPDX-License-Identifier: Apache-2.0
// Unwind rows from files: a small library, compiled here in the ways that leave no index, against
// what the compiler was told.
#include "image/unwind_rows.h"

#include <stdlib.h>

#include "image/cfa_section.h"
#include "image/symbols.h"
#include "test.h"

static const char source[] =
	"	.text\n"
	"	.globl f\n	.type f, @function\n"
	"f:	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n	.cfi_rel_offset %rbp, 0\n"
	"	mov %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	push %rbx\n"
	"	.cfi_offset %rbx, -24\n"
	"	nop\n"
	"	pop %rbx\n"
	"	.cfi_restore %rbx\n"
	"	pop %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n	.cfi_restore %rbp\n"
	"	ret\n	.cfi_endproc\n	.size f, . - f\n"
	"	.balign 64\n"
	"	.globl g\n	.type g, @function\n"
	"g:	.cfi_startproc\n	.cfi_undefined %rip\n	hlt\n	.cfi_endproc\n	.size g, . - g\n";

// Compiles into a folder of its own; false where there is no compiler.
static bool compile(const char *head, const char *options, char *ret_path, size_t cap)
{
	char folder[] = "/tmp/fathom-rows-XXXXXX", command[512], file[64];
	CHECK(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/f.s", folder);
	FILE *f = fopen(file, "w");
	CHECK(f);
	fprintf(f, "%s%s", head, source);
	fclose(f);
	snprintf(ret_path, cap, "%s/f.so", folder);
	snprintf(command, sizeof(command), "cc -shared -nostdlib %s -o %s %s/f.s", options, ret_path, folder);
	return system(command) == 0;
}

static void clean(char *path)
{
	unlink(path);
	strcpy(strrchr(path, '/'), "/f.s");
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
}

static void check_row(const struct fm_unwind_row *row, uint64_t addr, unsigned kind, unsigned reg, int off, int rbp,
		      int rbx)
{
	CHECK_EQ(row->addr, addr);
	CHECK_EQ(row->kind, kind);
	if (kind != FM_UNWIND_REG)
		return;
	CHECK_EQ(row->cfa_reg, reg);
	CHECK_EQ(row->cfa_off, off);
	CHECK_EQ(row->rbp_off, rbp);
	CHECK_EQ(row->rbx_off, rbx);
	CHECK_EQ(row->flags, 0);
}

static uint64_t address_of(const char *path, const char *name)
{
	struct fm_symbols *symbols;
	struct fm_diag diag;
	CHECK_EQ(fm_symbols_open(path, &symbols, &diag), FM_OK);
	uint64_t found = 0;
	for (uint64_t addr = 0; addr < 0x4000 && !found; addr++) {
		struct fm_symbol s;
		if (fm_symbols_find(symbols, addr, &s) == FM_OK && !strcmp(s.name, name))
			found = s.addr;
	}
	fm_symbols_close(symbols);
	return found;
}

static void check_rows(const char *head, const char *options)
{
	char path[128];
	struct fm_unwind_rows rows = { 0 };
	struct fm_diag diag;
	CHECK(compile(head, options, path, sizeof(path)));
	CHECK_EQ(fm_unwind_rows_read(path, &rows, &diag), FM_OK);
	uint64_t f = address_of(path, "f"), g = address_of(path, "g");
	CHECK(f && g);
	CHECK_EQ(rows.n, 9);
	const struct fm_unwind_row *row = rows.items;
	check_row(row++, f, FM_UNWIND_REG, 7, 8, 0, 0);
	check_row(row++, f + 1, FM_UNWIND_REG, 7, 16, -16, 0);
	check_row(row++, f + 4, FM_UNWIND_REG, 6, 16, -16, 0);
	check_row(row++, f + 5, FM_UNWIND_REG, 6, 16, -16, -24);
	check_row(row++, f + 7, FM_UNWIND_REG, 6, 16, -16, 0);
	check_row(row++, f + 8, FM_UNWIND_REG, 7, 8, 0, 0);
	check_row(row++, f + 9, FM_UNWIND_GAP, 0, 0, 0, 0);
	check_row(row++, g, FM_UNWIND_END, 0, 0, 0, 0);
	check_row(row++, g + 1, FM_UNWIND_GAP, 0, 0, 0, 0);
	fm_vec_deinit(&rows);
	clean(path);
}

TEST(debug_frame_becomes_rows)
{
	check_rows("	.cfi_sections .debug_frame\n", "");
}

TEST(eh_frame_without_index_becomes_rows)
{
	check_rows("", "-Wl,--no-eh-frame-hdr");
}

TEST(what_the_image_describes_itself_needs_no_rows)
{
	char path[128];
	struct fm_unwind_rows rows = { 0 };
	struct fm_diag diag;
	CHECK(compile("	.cfi_sections .eh_frame, .debug_frame\n", "-Wl,--eh-frame-hdr", path, sizeof(path)));
	CHECK_EQ(fm_unwind_rows_read(path, &rows, &diag), FM_OK);
	CHECK_EQ(rows.n, 0);
	clean(path);
}

TEST(a_damaged_file_gives_fewer_rows_and_no_crash)
{
	char path[128];
	CHECK(compile("	.cfi_sections .debug_frame\n", "", path, sizeof(path)));
	FILE *f = fopen(path, "r+");
	CHECK(f && fseek(f, 0, SEEK_END) == 0);
	long size = ftell(f);
	uint64_t random = 1;
	for (unsigned n = 0; n < 300; n++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		long at = (long)(random >> 33) % size;
		fseek(f, at, SEEK_SET);
		int before = fgetc(f);
		fseek(f, at, SEEK_SET);
		fputc((int)(random >> 24 & 0xff), f);
		fflush(f);
		struct fm_unwind_rows rows = { 0 };
		struct fm_diag diag;
		(void)!fm_unwind_rows_read(path, &rows, &diag);
		for (size_t i = 1; i < rows.n; i++)
			CHECK(rows.items[i].addr >= rows.items[i - 1].addr);
		fm_vec_deinit(&rows);
		if (n % 3) { // let some damage stay
			fseek(f, at, SEEK_SET);
			fputc(before, f);
		}
	}
	fclose(f);
	clean(path);
}

TEST(no_file_and_no_elf_are_told_apart)
{
	struct fm_unwind_rows rows = { 0 };
	struct fm_diag diag;
	CHECK_EQ(fm_unwind_rows_read("/nonexistent", &rows, &diag), FM_E_NOT_FOUND);
	CHECK_EQ(fm_unwind_rows_read("/proc/self/status", &rows, &diag), FM_E_CORRUPT);
}

#define IS_SANE(...)                                                        \
	({                                                                  \
		static const uint8_t program[] = { __VA_ARGS__ };           \
		fm_cfa_program_is_sane(program, program + sizeof(program)); \
	})

TEST(programs_with_wild_registers_are_refused)
{
	CHECK(IS_SANE(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0xc6, 0x0c, 7, 8, 0, 0)); // what compilers write
	CHECK(IS_SANE(0x05, 0xff, 0x01, 1));                          // offset_extended of register 255
	CHECK(IS_SANE(0x10, 16, 2, 0x77, 0x08));                      // an expression, passed over
	CHECK(!IS_SANE(0x05, 0x80, 0x02, 1));                         // register 256
	CHECK(!IS_SANE(0x41, 0x2d, 0x09, 1, 0xff, 0xff, 0xff, 0x44)); // the second of two, behind others
	CHECK(!IS_SANE(0x10, 16, 9, 0x77));                           // cut off
	CHECK(!IS_SANE(0x3f));                                        // no such instruction
}

TEST_MAIN()
