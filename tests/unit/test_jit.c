// SPDX-License-Identifier: Apache-2.0
// Readers of what JIT compilers tell: ranges and names, unwind tables.
#include "image/jit.h"

#include <stdlib.h>

#include "test.h"

static struct fm_code_ranges ranges;

static void parse(const char *text, size_t expected_used, uint32_t expected_bad)
{
	uint32_t n_bad = 0;
	CHECK_EQ(fm_perf_map_parse(text, strlen(text), 7, &ranges, &n_bad), expected_used);
	CHECK_EQ(n_bad, expected_bad);
}

static void check_name(uint64_t addr, const char *name)
{
	const struct fm_code_range *found = fm_code_ranges_find(&ranges, addr);
	CHECK(found ? name && fm_str_eq(found->name, fm_str_of(name)) : !name);
}

TEST(a_perf_map_has_names_with_blanks_and_later_lines_win)
{
	parse("1000 100 first of all\n1040 10 inside\n1000 20 later\n", 51, 0);
	check_name(0xfff, NULL);
	check_name(0x1000, "later");
	check_name(0x101f, "later");
	check_name(0x1020, "first of all");
	check_name(0x1045, "inside");
	check_name(0x1050, "first of all");
	check_name(0x1100, NULL);
}

TEST(a_line_that_is_being_written_waits)
{
	parse("1000 10 whole\n2000 10 ha", 14, 0);
	check_name(0x2000, NULL);
	parse("2000 10 half\n", 13, 0);
	check_name(0x2000, "half");
}

TEST(lines_that_are_none_are_counted)
{
	parse("hello\n1000\n1000 10\n1000 10 \n12345678901234567 10 long\n0 0 x\nffffffffffff0000 ffff high\n", 87, 5);
	CHECK_EQ(ranges.items.n, 0);
}

TEST(what_an_owner_told_goes_with_it)
{
	fm_code_ranges_add(&ranges, 0x1000, 0x100, FM_STR_LIT("a"), 1);
	fm_code_ranges_add(&ranges, 0x1000, 0x100, FM_STR_LIT("b"), 2);
	fm_code_ranges_add_line(&ranges, 0x1010, 5, FM_STR_LIT("b.c"));
	fm_code_ranges_add_line(&ranges, 0x1020, 6, FM_STR_LIT("b.c"));
	check_name(0x1000, "b");
	struct fm_str file;
	const struct fm_code_range *b = fm_code_ranges_find(&ranges, 0x1018);
	CHECK_EQ(fm_code_ranges_line(&ranges, b, 0x1018, &file), 5);
	CHECK(fm_str_eq(file, FM_STR_LIT("b.c")));
	CHECK_EQ(fm_code_ranges_line(&ranges, b, 0x1008, &file), 0);
	fm_code_ranges_remove(&ranges, 2);
	check_name(0x1018, "a");
}

// A CIE and an FDE for 36 bytes at 0x7f0000001000; the table lies at 0x7f0000002000.
static const uint8_t table[] = {
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1c, 0x0c, 7, 8, 0x90, 1, 0, 0, // CIE: pc-relative, 8
												  // bytes
	36, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 36, 0, 0, 0, 0, 0, 0, 0, 0, // FDE
	0x41, 0x0e, 16, 0x83, 2, 0x4a, 0x0e, 64, 0x57, 0x0e, 16, 0x41, 0x0e, 8, 0xc3, // push rbx; sub 48; add 48; pop
	0, 0, 0, 0
};

static void check_row(const struct fm_jit_rows *r, size_t i, uint32_t addr, unsigned kind, int cfa_off, int rbx_off)
{
	CHECK(i < r->rows.n);
	const struct fm_unwind_row *row = &r->rows.items[i];
	CHECK_EQ(row->addr, addr);
	CHECK_EQ(row->kind, kind);
	CHECK_EQ(row->cfa_off, cfa_off);
	CHECK_EQ(row->rbx_off, rbx_off);
}

TEST(a_bare_table_becomes_rows)
{
	bool is_bad;
	CHECK_EQ(fm_jit_eh_frame_length(table, sizeof(table), &is_bad), sizeof(table) - 4);
	CHECK_EQ(fm_jit_eh_frame_length(table, sizeof(table) - 4, &is_bad), 0);
	CHECK(!is_bad);
	struct fm_jit_rows rows = { 0 };
	fm_jit_eh_frame_read(table, sizeof(table) - 4, 0x7f0000002000, &rows);
	CHECK_EQ(rows.base, 0x7f0000001000);
	CHECK_EQ(rows.end, 0x7f0000001024);
	CHECK_EQ(rows.rows.n, 6);
	check_row(&rows, 0, 0, FM_UNWIND_REG, 8, 0);
	check_row(&rows, 1, 1, FM_UNWIND_REG, 16, -16);
	check_row(&rows, 2, 11, FM_UNWIND_REG, 64, -16);
	check_row(&rows, 3, 34, FM_UNWIND_REG, 16, -16);
	check_row(&rows, 4, 35, FM_UNWIND_REG, 8, 0);
	check_row(&rows, 5, 36, FM_UNWIND_GAP, 0, 0);
	fm_jit_rows_deinit(&rows);
}

TEST(what_is_no_object_is_refused)
{
	uint8_t bytes[200] = { 0x7f, 'E', 'L', 'F' };
	struct fm_jit_rows rows = { 0 };
	CHECK_EQ(fm_jit_elf_read(bytes, sizeof(bytes), 1, &ranges, &rows), FM_E_CORRUPT);
	CHECK_EQ(fm_jit_elf_read(bytes, 3, 1, &ranges, &rows), FM_E_CORRUPT);
}

static void put(struct fm_buf *b, uint32_t id, const struct fm_buf *body)
{
	fm_buf_u32(b, id);
	fm_buf_u32(b, 16 + (uint32_t)body->len);
	fm_buf_u64(b, 0);
	fm_buf_bytes(b, body->data, body->len);
}

static void put_load(struct fm_buf *b, uint64_t addr, const char *name)
{
	struct fm_buf body = { 0 };
	fm_buf_u64(&body, 0); // pid, tid
	fm_buf_u64(&body, addr);
	fm_buf_u64(&body, addr);
	fm_buf_u64(&body, 0x20);
	fm_buf_u64(&body, 0);
	fm_buf_bytes(&body, name, strlen(name) + 1);
	put(b, 0, &body);
	fm_buf_deinit(&body);
}

TEST(a_jitdump_is_read_as_it_grows)
{
	struct fm_buf file = { 0 }, move = { 0 };
	fm_buf_u32(&file, FM_JITDUMP_MAGIC);
	fm_buf_u32(&file, 1);
	fm_buf_u32(&file, 40);
	for (size_t i = 0; i < 7; i++)
		fm_buf_u32(&file, 0);
	put_load(&file, 0x1000, "f");
	fm_buf_u64(&move, 0);
	fm_buf_u64(&move, 0x1000);
	fm_buf_u64(&move, 0x1000);
	fm_buf_u64(&move, 0x3000);
	fm_buf_u64(&move, 0x20);
	fm_buf_u64(&move, 0);
	put(&file, 1, &move);
	struct fm_jitdump dump = { 0 };
	size_t at = 0, used;
	for (size_t end = 0; end <= file.len; end++) { // byte by byte
		CHECK_EQ(fm_jitdump_parse(&dump, file.data + at, end - at, 1, &ranges, NULL, NULL, &used), FM_OK);
		at += used;
	}
	CHECK_EQ(at, file.len);
	CHECK_EQ(ranges.items.n, 2);
	check_name(0x1010, "f");
	check_name(0x3010, "f");
	fm_buf_deinit(&file);
	fm_buf_deinit(&move);
	fm_jitdump_deinit(&dump);
}

TEST(a_record_that_cannot_be_ends_a_jitdump)
{
	uint8_t bytes[64] = { 0x44, 0x54, 0x69, 0x4a, 1, 0, 0, 0, 40 };
	bytes[44] = 5; // shorter than its own head
	struct fm_jitdump dump = { 0 };
	size_t used;
	CHECK_EQ(fm_jitdump_parse(&dump, bytes, sizeof(bytes), 1, &ranges, NULL, NULL, &used), FM_E_CORRUPT);
	bytes[0] = 0;
	dump.has_header = false;
	CHECK_EQ(fm_jitdump_parse(&dump, bytes, sizeof(bytes), 1, &ranges, NULL, NULL, &used), FM_E_BAD_MAGIC);
}

TEST_MAIN()
