// SPDX-License-Identifier: Apache-2.0
// Call frame information built by hand, byte by byte, and what the decoder makes of it.
#include "sigsafe/unwind/cfi.h"

#include <sys/mman.h>

#include "format/model.h"
#include "sigsafe/unwind/expr.h"
#include "sigsafe/base/read.h"
#include "test.h"

enum { FUNCTION = 0x1000, FUNCTION_BYTES = 0x100 };

// A CIE and one FDE with absolute addresses, in a heap block of exactly their size: a sanitizer
// sees any read outside.
struct built {
	uint8_t *bytes;
	size_t len, fde;
};

static void put(struct built *b, const void *bytes, size_t len)
{
	b->bytes = realloc(b->bytes, b->len + len);
	memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
}

static void put_u32(struct built *b, uint32_t v)
{
	put(b, &v, 4);
}

static void put_u64(struct built *b, uint64_t v)
{
	put(b, &v, 8);
}

static struct built build_with(const char *augmentation, const uint8_t *program, size_t len)
{
	static const uint8_t cie_program[] = { 0x0c, 7, 8, 0x80 | 16, 1 }; // CFA = rsp + 8; ra at CFA - 8
	struct built b = { 0 };
	size_t aug = strlen(augmentation);
	put_u32(&b, (uint32_t)(4 + 1 + aug + 1 + 3 + (aug ? 2 : 0) + sizeof(cie_program)));
	put_u32(&b, 0);
	put(&b, "\x01", 1);
	put(&b, augmentation, aug + 1);
	put(&b, "\x01\x78\x10", 3); // code 1, data -8, return address in 16
	if (aug)
		put(&b, "\x01\x00", 2); // one byte of augmentation: FDE addresses are absolute
	put(&b, cie_program, sizeof(cie_program));
	b.fde = b.len;
	put_u32(&b, (uint32_t)(4 + 16 + (aug ? 1 : 0) + len));
	put_u32(&b, (uint32_t)(b.len)); // back to the CIE, which is first
	put_u64(&b, FUNCTION);
	put_u64(&b, FUNCTION_BYTES);
	if (aug)
		put(&b, "\x00", 1);
	put(&b, program, len);
	return b;
}

static uint32_t decode_at(const struct built *b, unsigned at, struct fm_cfi_row *row)
{
	uintptr_t start = (uintptr_t)b->bytes;
	return fm_sig_cfi_decode(start + b->fde, start, start + b->len, FUNCTION + at, row);
}

#define BUILD(...)                                                 \
	({                                                         \
		static const uint8_t program_[] = { __VA_ARGS__ }; \
		build_with("zR", program_, sizeof(program_));      \
	})

#define CHECK_CFA(b, at, reg, offset)                            \
	do {                                                     \
		struct fm_cfi_row row_;                          \
		CHECK_EQ(decode_at(b, at, &row_), 0);            \
		CHECK_EQ(row_.state.cfa.where, FM_CFI_REGISTER); \
		CHECK_EQ(row_.state.cfa_reg, reg);               \
		CHECK_EQ(row_.state.cfa.off, offset);            \
	} while (0)

#define CHECK_SAVED(b, at, reg, place, offset)                      \
	do {                                                        \
		struct fm_cfi_row row_;                             \
		CHECK_EQ(decode_at(b, at, &row_), 0);               \
		CHECK_EQ(row_.state.regs[reg].where, place);        \
		if ((place) != FM_CFI_SAME)                         \
			CHECK_EQ(row_.state.regs[reg].off, offset); \
	} while (0)

TEST(a_prologue_with_frame_pointer_advances_row_by_row)
{
	struct built b = BUILD(0x41, 0x0e, 16, 0x86, 2, // +1: CFA offset 16, rbp at CFA - 16
			       0x43, 0x0d, 6,           // +3: CFA register rbp
			       0x02, 0x80, 0x0c, 7, 8); // +128: CFA = rsp + 8
	CHECK_CFA(&b, 0, 7, 8);
	CHECK_SAVED(&b, 0, 6, FM_CFI_SAME, 0);
	CHECK_SAVED(&b, 0, 16, FM_CFI_AT, -8);
	CHECK_CFA(&b, 1, 7, 16);
	CHECK_SAVED(&b, 1, 6, FM_CFI_AT, -16);
	CHECK_CFA(&b, 3, 7, 16);
	CHECK_CFA(&b, 4, 6, 16);
	CHECK_CFA(&b, 131, 6, 16);
	CHECK_CFA(&b, 132, 7, 8);
	CHECK_CFA(&b, FUNCTION_BYTES - 1, 7, 8);
	free(b.bytes);
}

TEST(a_row_knows_from_where_to_where_it_holds)
{
	// push rbp at 1; the frame is 32 bytes from 0x20 on, and gone again at 0x80
	struct built b = BUILD(0x41, 0x0e, 16, 0x86, 2, 0x5f, 0x0e, 32, 0x02, 0x60, 0x0e, 8);
	static const unsigned bounds[] = { 0, 1, 0x20, 0x80, FUNCTION_BYTES };
	for (unsigned i = 0; i + 1 < sizeof(bounds) / sizeof(*bounds); i++)
		for (unsigned at = bounds[i]; at < bounds[i + 1]; at++) {
			struct fm_cfi_row row;
			CHECK_EQ(decode_at(&b, at, &row), 0);
			CHECK_EQ(row.start, FUNCTION + bounds[i]);
			CHECK_EQ(row.end, FUNCTION + bounds[i + 1]);
		}
	free(b.bytes);
}

TEST(a_pc_outside_the_function_has_no_information)
{
	struct built b = BUILD(0);
	struct fm_cfi_row row;
	CHECK_EQ(decode_at(&b, FUNCTION_BYTES, &row), FM_STACK_NO_UNWIND_INFO);
	CHECK_EQ(decode_at(&b, (unsigned)-1, &row), FM_STACK_NO_UNWIND_INFO);
	free(b.bytes);
}

TEST(remembered_state_comes_back_whole)
{
	struct built b = BUILD(0x41, 0x0e, 32, 0x83, 3, 0x0a,       // +1: offset 32, rbx at -24, remember
			       0x41, 0x0e, 8, 0xc3,                 // +1: offset 8, restore rbx
			       0x41, 0x0b,                          // +1: restore state
			       0x0a, 0x0a, 0x0a, 0x0b, 0x0b, 0x0b); // nested as deep as allowed
	CHECK_CFA(&b, 1, 7, 32);
	CHECK_SAVED(&b, 1, 3, FM_CFI_AT, -24);
	CHECK_CFA(&b, 2, 7, 8);
	CHECK_SAVED(&b, 2, 3, FM_CFI_SAME, 0);
	CHECK_CFA(&b, 3, 7, 32);
	CHECK_SAVED(&b, 3, 3, FM_CFI_AT, -24);
	free(b.bytes);
}

TEST(restoring_what_was_not_remembered_is_damage)
{
	struct built b = BUILD(0x0b);
	struct fm_cfi_row row;
	CHECK_EQ(decode_at(&b, 0, &row), FM_STACK_BAD_UNWIND_INFO);
	struct built deep = BUILD(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a);
	CHECK_EQ(decode_at(&deep, 0, &row), FM_STACK_BAD_UNWIND_INFO);
	free(b.bytes);
	free(deep.bytes);
}

TEST(every_kind_of_register_rule_is_read)
{
	struct built b = BUILD(0x05, 12, 3,     // offset_extended r12: CFA - 24
			       0x11, 13, 0x7e,  // offset_extended_sf r13: CFA + 16
			       0x07, 14,        // undefined r14
			       0x09, 15, 3,     // r15 is in rbx
			       0x14, 3, 2,      // rbx is CFA - 16
			       0x15, 6, 0x7f,   // rbp is CFA + 8
			       0x2e, 0x10,      // args_size: no rule
			       0x80 | 40, 1,    // a vector register: of no use here
			       0x12, 13, 0x7c); // def_cfa_sf r13 + 32
	CHECK_SAVED(&b, 0, 12, FM_CFI_AT, -24);
	CHECK_SAVED(&b, 0, 13, FM_CFI_AT, 16);
	CHECK_SAVED(&b, 0, 14, FM_CFI_UNDEFINED, 0);
	CHECK_SAVED(&b, 0, 15, FM_CFI_REGISTER, 3);
	CHECK_SAVED(&b, 0, 3, FM_CFI_VALUE, -16);
	CHECK_SAVED(&b, 0, 6, FM_CFI_VALUE, 8);
	CHECK_CFA(&b, 0, 13, 32);
	free(b.bytes);
}

TEST(expressions_are_found_and_not_run)
{
	struct built b = BUILD(0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0x00, 0x16, 3, 1, 0x31);
	struct fm_cfi_row row;
	CHECK_EQ(decode_at(&b, 0, &row), 0);
	CHECK_EQ(row.state.cfa.where, FM_CFI_VALUE_EXPR);
	CHECK_EQ(row.state.cfa.expr_len, 3);
	CHECK_EQ(((const uint8_t *)row.origin)[row.state.cfa.off], 0x76);
	CHECK_EQ(row.state.regs[6].where, FM_CFI_AT_EXPR);
	CHECK_EQ(row.state.regs[3].where, FM_CFI_VALUE_EXPR);
	CHECK_EQ(((const uint8_t *)row.origin)[row.state.regs[3].off], 0x31);
	struct built mixed = BUILD(0x0f, 1, 0x31, 0x0e, 16); // an offset without a register
	CHECK_EQ(decode_at(&mixed, 0, &row), FM_STACK_BAD_UNWIND_INFO);
	free(mixed.bytes);
	struct built cut = BUILD(0x0f, 9, 0x76);
	CHECK_EQ(decode_at(&cut, 0, &row), FM_STACK_BAD_UNWIND_INFO);
	free(b.bytes);
	free(cut.bytes);
}

TEST(a_signal_frame_says_so)
{
	struct fm_cfi_row row;
	struct built b = build_with("zRS", (const uint8_t *)"", 1);
	CHECK_EQ(decode_at(&b, 0, &row), 0);
	CHECK(row.is_signal_frame);
	struct built plain = build_with("zR", (const uint8_t *)"", 1);
	CHECK_EQ(decode_at(&plain, 0, &row), 0);
	CHECK(!row.is_signal_frame);
	free(b.bytes);
	free(plain.bytes);
}

// Each byte of a rich entry set to each value: whatever comes out, no read leaves the block (an
// unmapped page is behind it, and loads here are believed to be mended while nobody mends them),
// and the work is bounded.
TEST(damage_at_every_byte_stays_within_bounds)
{
	struct built b = BUILD(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x0a, 0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2,
			       0x76, 0, 0x44, 0x0b, 0x05, 12, 3, 0x11, 13, 0x7e, 0x02, 0x10, 0x03, 0x20, 0, 0x04, 1, 0,
			       0, 0, 0x2e, 0x90, 0x01);
	uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
	uint8_t *guarded = pages + 4096 - b.len;
	unsigned n_good = 0;
	fm_sig_is_recoverable = true;
	for (size_t at = 0; at < b.len; at++)
		for (unsigned value = 0; value < 256; value++) {
			struct fm_cfi_row row;
			memcpy(guarded, b.bytes, b.len);
			guarded[at] = (uint8_t)value;
			uintptr_t start = (uintptr_t)guarded;
			n_good += fm_sig_cfi_decode(start + b.fde, start, start + b.len, FUNCTION + 80, &row) == 0;
			uint8_t before = b.bytes[at];
			b.bytes[at] = (uint8_t)value;
			(void)decode_at(&b, 80, &row);
			b.bytes[at] = before;
		}
	CHECK(n_good >= b.len); // undamaged, once for each byte
	for (size_t len = 0; len < b.len; len++) {
		struct fm_cfi_row row;
		uintptr_t cut = (uintptr_t)pages + 4096 - len;
		memcpy((void *)cut, b.bytes, len);
		if (len > b.fde)
			CHECK_EQ(fm_sig_cfi_decode(cut + b.fde, cut, cut + len, FUNCTION + 80, &row),
				 FM_STACK_BAD_UNWIND_INFO);
	}
	fm_sig_is_recoverable = false;
	free(b.bytes);
}

// ---- expressions ----

static uint32_t eval(const uint8_t *expr, size_t len, const uint64_t *first, uint64_t *ret)
{
	static uint64_t memory[4] = { 11, 22, 33, 44 };
	struct fm_sig_regs regs = { .known = 1u << 7 | 1u << 16 };
	regs.r[7] = (uint64_t)memory;
	regs.r[16] = 0x100b;
	return fm_sig_expr_eval((uintptr_t)expr, (uint32_t)len, &regs, first, ret);
}

#define CHECK_EVAL(expected, ...)                             \
	do {                                                  \
		static const uint8_t e_[] = { __VA_ARGS__ };  \
		uint64_t v_ = 0;                              \
		CHECK_EQ(eval(e_, sizeof(e_), NULL, &v_), 0); \
		CHECK_EQ(v_, expected);                       \
	} while (0)
#define CHECK_NO_EVAL(error, ...)                                 \
	do {                                                      \
		static const uint8_t e_[] = { __VA_ARGS__ };      \
		uint64_t v_ = 0;                                  \
		CHECK_EQ(eval(e_, sizeof(e_), NULL, &v_), error); \
	} while (0)

TEST(expressions_give_what_dwarf_says)
{
	CHECK_EVAL(22, 0x77, 8, 0x06);                              // *(rsp + 8)
	CHECK_EVAL(41, 0x77, 16, 0x06, 0x23, 8);                    // *(rsp + 16) + 8: OpenSSL's
	CHECK_EVAL(8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24); // the PLT's: ((rip & 15) >= 11) << 3
	CHECK_EVAL(-2, 0x09, 0xfe);                                 // const1s
	CHECK_EVAL(254, 0x08, 0xfe);                                // const1u
	CHECK_EVAL(-2, 0x11, 0x7e);                                 // consts
	CHECK_EVAL(6, 0x32, 0x33, 0x1e);                            // 2 * 3
	CHECK_EVAL(-1, 0x32, 0x33, 0x1c);                           // 2 - 3
	CHECK_EVAL(1, 0x32, 0x33, 0x16, 0x1c);                      // swap
	CHECK_EVAL(2, 0x32, 0x33, 0x14);                            // over
	CHECK_EVAL(3, 0x32, 0x33, 0x34, 0x17);                      // rot: 4 goes below 2 and 3
	CHECK_EVAL(4, 0x32, 0x33, 0x34, 0x17, 0x13, 0x13);          // ... and is what is left
	CHECK_EVAL(9, 0x31, 0x28, 1, 0, 0x35, 0x39);                // bra over a push
	CHECK_EVAL(22, 0x77, 8, 0x94, 1);                           // one byte of memory
}

TEST(bad_expressions_are_refused)
{
	CHECK_NO_EVAL(FM_STACK_BAD_UNWIND_INFO, 0x22);             // plus of nothing
	CHECK_NO_EVAL(FM_STACK_BAD_UNWIND_INFO, 0x32, 0x30, 0x1b); // division by zero
	CHECK_NO_EVAL(FM_STACK_BAD_UNWIND_INFO, 0x2f, 0xfd, 0xff); // an endless loop
	CHECK_NO_EVAL(FM_STACK_BAD_UNWIND_INFO, 0x2f, 0x00, 0x10); // a jump out of it
	CHECK_NO_EVAL(FM_STACK_BAD_UNWIND_INFO, 0x10, 0x80);       // a number cut off
	CHECK_NO_EVAL(FM_STACK_BAD_UNWIND_INFO, 0xe0);             // unknown
	CHECK_NO_EVAL(FM_STACK_BAD_UNWIND_INFO, 0x96);             // no value at the end
	CHECK_NO_EVAL(FM_STACK_UNREADABLE, 0x31, 0x06);            // *1
	CHECK_NO_EVAL(FM_SIG_NEEDS_ALL_REGS, 0x7c, 0);             // r12 is not known
	uint8_t pushes[40];
	memset(pushes, 0x31, sizeof(pushes));
	uint64_t v;
	CHECK_EQ(eval(pushes, sizeof(pushes), NULL, &v), FM_STACK_BAD_UNWIND_INFO);
}

TEST(rules_of_registers_begin_with_the_cfa)
{
	static const uint8_t expr[] = { 0x23, 16 };
	uint64_t cfa = 1000, v = 0;
	CHECK_EQ(eval(expr, sizeof(expr), &cfa, &v), 0);
	CHECK_EQ(v, 1016);
}

TEST_MAIN()
