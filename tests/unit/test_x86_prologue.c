// SPDX-License-Identifier: Apache-2.0
// Rows read off code: the beginnings of real functions, byte by byte.
#include "image/unwind_rows.h"

#include "test.h"

static struct fm_unwind_rows rows;

static void analyse(const uint8_t *code, size_t len)
{
	uint8_t *copy = malloc(len); // exactly as long: a sanitizer sees a read behind it
	memcpy(copy, code, len);
	rows.n = 0;
	fm_x86_prologue_rows(copy, len, 0x1000, &rows);
	free(copy);
}

static void check_row(size_t i, unsigned addr, unsigned reg, int off, int rbp, int rbx)
{
	CHECK(i < rows.n);
	const struct fm_unwind_row *row = &rows.items[i];
	CHECK_EQ(row->addr, addr);
	CHECK_EQ(row->kind, FM_UNWIND_REG);
	CHECK_EQ(row->flags, FM_UNWIND_GUESSED);
	CHECK_EQ(row->cfa_reg, reg);
	CHECK_EQ(row->cfa_off, off);
	CHECK_EQ(row->rbp_off, rbp);
	CHECK_EQ(row->rbx_off, rbx);
}

static void check_gap(size_t i, unsigned addr)
{
	CHECK(i < rows.n);
	CHECK_EQ(rows.items[i].addr, addr);
	CHECK_EQ(rows.items[i].kind, FM_UNWIND_GAP);
}

TEST(a_matrix_kernel_that_realigns_its_stack)
{
	static const uint8_t code[] = {
		0x48, 0x83, 0xec, 0x60,                   // sub $0x60, %rsp
		0x48, 0x89, 0x1c, 0x24,                   // mov %rbx, (%rsp)
		0x48, 0x89, 0x6c, 0x24, 0x08,             // mov %rbp, 8(%rsp)
		0x4c, 0x89, 0x64, 0x24, 0x10,             // mov %r12, 16(%rsp)
		0xc5, 0xf8, 0x77,                         // vzeroupper
		0x4c, 0x8b, 0x54, 0x24, 0x68,             // mov 0x68(%rsp), %r10
		0x48, 0x89, 0xe3,                         // mov %rsp, %rbx
		0x48, 0x81, 0xec, 0x80, 0x70, 0x00, 0x00, // sub $0x7080, %rsp
		0x48, 0x81, 0xe4, 0x00, 0xf0, 0xff, 0xff, // and $-4096, %rsp
		0x90, 0x90, 0x48, 0x83, 0xc4, 0x60, 0xc3, // body; add; ret
	};
	analyse(code, sizeof(code));
	check_row(0, 0x1000, 7, 8, 0, 0);
	check_row(1, 0x1004, 7, 0x68, 0, 0);
	check_row(2, 0x1008, 7, 0x68, 0, -0x68);
	check_row(3, 0x100d, 7, 0x68, -0x60, -0x68);
	size_t last = rows.n - 3; // then ret, then the gap
	check_row(last, 0x102b, 3, 0x68, -0x60, -0x68);
	check_row(last + 1, 0x1000 + sizeof(code) - 1, 7, 8, -0x60, -0x68);
	check_gap(last + 2, 0x1000 + sizeof(code));
}

TEST(pushes_and_pops)
{
	static const uint8_t code[] = { 0x41, 0x57, 0x55, 0x53, 0x90, 0x90, 0x5b, 0x5d, 0x41, 0x5f, 0xc3 };
	analyse(code, sizeof(code));
	check_row(0, 0x1000, 7, 8, 0, 0);
	check_row(1, 0x1002, 7, 16, 0, 0);
	check_row(2, 0x1003, 7, 24, -24, 0);
	check_row(3, 0x1004, 7, 32, -24, -32);
	check_row(4, 0x1006, 7, 32, -24, -32);
	check_row(5, 0x1007, 7, 24, -24, -32);
	check_row(6, 0x1008, 7, 16, -24, -32);
	check_row(7, 0x100a, 7, 8, -24, -32);
	check_gap(8, 0x100b);
}

TEST(a_frame_pointer_is_what_the_frame_hangs_on)
{
	static const uint8_t code[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5,
					0x48, 0x83, 0xec, 0x20, 0x90, 0xc9, 0xc3 };
	analyse(code, sizeof(code));
	check_row(0, 0x1000, 7, 8, 0, 0);
	check_row(1, 0x1005, 7, 16, -16, 0);
	check_row(2, 0x1008, 6, 16, -16, 0);
	check_row(3, 0x100e, 7, 8, -16, 0);
}

TEST(a_frame_pointer_set_up_later_is_left_to_the_agent)
{
	static const uint8_t code[] = { 0x55, 0x31, 0xc0, 0x48, 0x89, 0xe5, 0x90, 0xc9, 0xc3 }; // push; xor; mov
	analyse(code, sizeof(code));
	check_row(0, 0x1000, 7, 8, 0, 0);
	check_gap(1, 0x1001);
}

TEST(a_frame_that_loses_its_cfa_stops_there)
{
	static const uint8_t code[] = { 0x48, 0x83, 0xe4, 0xe0, 0x90, 0xc3 }; // and without a copy of rsp
	analyse(code, sizeof(code));
	check_row(0, 0x1000, 7, 8, 0, 0);
	CHECK_EQ(rows.n, 3);
}

TEST(any_bytes_give_sorted_rows_within_the_function)
{
	uint64_t random = 7;
	for (unsigned n = 0; n < 200000; n++) {
		static const uint8_t likely[] = { 0x48, 0x83, 0xec, 0x81, 0x89, 0xe4, 0xe5, 0x55,
						  0x53, 0x41, 0x24, 0xc3, 0x5d, 0x8b, 0xc5, 0x0f };
		uint8_t code[40];
		for (size_t i = 0; i < sizeof(code); i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			code[i] = random >> 60 ? likely[random >> 40 & 15] : (uint8_t)(random >> 32);
		}
		size_t len = 1 + n % sizeof(code);
		analyse(code, len);
		CHECK(rows.n >= 2);
		for (size_t i = 1; i < rows.n; i++)
			CHECK(rows.items[i].addr >= rows.items[i - 1].addr);
		check_gap(rows.n - 1, 0x1000 + (unsigned)len);
	}
}

TEST_MAIN()
