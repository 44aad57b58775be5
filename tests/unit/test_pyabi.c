// SPDX-License-Identifier: Apache-2.0
// core/pyabi over made tables: what is true must pass, what cannot be true must be refused, no
// bytes may crash it. Whether the facts themselves are true is asked of real Pythons in
// tests/e2e/test_pyabi.py.
#include "test.h"

#include "pyabi/lines.h"
#include "pyabi/pyabi.h"

#define LINE(kind, table, first, off) fm_pyabi_line(kind, table, sizeof(table), first, off)

TEST(lnotab_line_holds_from_its_address_on)
{
	// Line 10 at 0; 11 from 6; back to 9 from 8; address 264 needs two entries, the first of
	// which moves no line.
	const uint8_t table[] = { 6, 1, 2, 0xfe, 255, 0, 1, 5 };
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, table, 10, 0), 10);
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, table, 10, 5), 10);
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, table, 10, 6), 11);
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, table, 10, 8), 9);
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, table, 10, 263), 9);
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, table, 10, 264), 14);
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, table, 10, UINT32_MAX), 14);
}

TEST(lines_that_were_looked_up_need_no_table)
{
	const uint8_t table[] = { 1 };
	CHECK_EQ(LINE(FM_PY_LINES_DIRECT, table, 10, 0), 1);
	CHECK_EQ(LINE(FM_PY_LINES_DIRECT, table, 10, 41), 42);
	CHECK_EQ(LINE(FM_PY_LINES_DIRECT, table, 10, UINT32_MAX), 0);
}

TEST(line_table_310_knows_bytes_without_a_line)
{
	// 4 bytes at 10, 2 bytes of no line, nothing (moves 200 lines in two steps), 6 bytes at
	// 208, then the end.
	const uint8_t table[] = { 4, 0, 2, 0x80, 0, 127, 0, 71, 6, 0 };
	CHECK_EQ(LINE(FM_PY_LINES_310, table, 10, 0), 10);
	CHECK_EQ(LINE(FM_PY_LINES_310, table, 10, 3), 10);
	CHECK_EQ(LINE(FM_PY_LINES_310, table, 10, 4), 0);
	CHECK_EQ(LINE(FM_PY_LINES_310, table, 10, 6), 208);
	CHECK_EQ(LINE(FM_PY_LINES_310, table, 10, 11), 208);
	CHECK_EQ(LINE(FM_PY_LINES_310, table, 10, 12), 208); // past the end: the last known
}

#define ENTRY_311(form, n_units) (uint8_t)(0x80 | (form) << 3 | ((n_units)-1))

TEST(line_table_311_reads_every_form)
{
	const uint8_t table[] = {
		ENTRY_311(0, 1), 0x00,        // bytes 0..1: short form, line 100
		ENTRY_311(9, 2), 0x12,        // 2..5: short form, line 100
		ENTRY_311(10, 1), 0x05, 0x06, // 6..7: line +0
		ENTRY_311(11, 1), 0x05, 0x06, // 8..9: line +1 = 101
		ENTRY_311(12, 1), 0x05, 0x06, // 10..11: line +2 = 103
		ENTRY_311(13, 8), 0x07,       // 12..27: svarint 7 = -3, line 100
		ENTRY_311(15, 1),             // 28..29: no location
		// 30..31: svarint 0x48 0x03 = 8 + 3 * 64 = 200 = +100, line 200
		ENTRY_311(14, 1), 0x48, 0x03, 0x02, 0x01, 0x4f, 0x01, ENTRY_311(0, 1), 0x00, // 32..33: line 200
	};
	const uint32_t expected[] = {
		100, 100, 100, 100, 101, 103, 100, 100, 100, 100, 100, 100, 100, 100, 0, 200, 200
	};
	for (uint32_t i = 0; i < FM_ARRAY_LEN(expected); i++) {
		CHECK_EQ(LINE(FM_PY_LINES_311, table, 100, 2 * i), expected[i]);
		CHECK_EQ(LINE(FM_PY_LINES_311, table, 100, 2 * i + 1), expected[i]);
	}
	CHECK_EQ(LINE(FM_PY_LINES_311, table, 100, 34), 200); // past the end: the last known
}

TEST(empty_and_odd_tables_give_the_first_line)
{
	const uint8_t half[] = { 4 };
	for (int kind = FM_PY_LINES_LNOTAB; kind <= FM_PY_LINES_311; kind++) {
		CHECK_EQ(fm_pyabi_line((enum fm_py_lines)kind, half, 0, 7, 0), 7);
		CHECK_EQ(fm_pyabi_line((enum fm_py_lines)kind, half, sizeof(half), 7, 0), 7);
	}
	CHECK_EQ(fm_pyabi_line(FM_PY_LINES_NONE, half, sizeof(half), 7, 0), 0);
	CHECK_EQ(fm_pyabi_line((enum fm_py_lines)99, half, sizeof(half), 7, 0), 0);
}

TEST(lines_no_source_can_have_are_none)
{
	const uint8_t below_zero[] = { 0, 0x81, 2, 0 };
	CHECK_EQ(LINE(FM_PY_LINES_LNOTAB, below_zero, 10, 0), 0);
	const uint8_t long_varint[] = { ENTRY_311(13, 1), 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f };
	CHECK(LINE(FM_PY_LINES_311, long_varint, 10, 0) <= INT32_MAX);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

TEST(random_tables_give_an_answer)
{
	uint32_t random = 1;
	for (int round = 0; round < 20000; round++) {
		size_t len = next_random(&random) % 64;
		uint8_t *table = malloc(len + 1); // its own block, so that ASan sees a read beyond
		for (size_t i = 0; i < len; i++)
			table[i] = (uint8_t)next_random(&random);
		uint32_t first = next_random(&random), off = next_random(&random) % 512;
		for (int kind = FM_PY_LINES_NONE; kind <= FM_PY_LINES_311; kind++)
			CHECK(fm_pyabi_line((enum fm_py_lines)kind, table, len, first, off) <= INT32_MAX);
		free(table);
	}
}

TEST(rows_of_known_minors_are_valid_and_others_refused)
{
	for (unsigned minor = 0; minor < 300; minor++) {
		struct fm_py_row row = { .minor = 77 };
		enum fm_err err = fm_pyabi_row_by_minor(minor, &row);
		if (minor >= 8 && minor <= 13) {
			CHECK_EQ(err, FM_OK);
			CHECK_EQ(row.minor, minor);
			CHECK_EQ(fm_pyabi_row_validate(&row), FM_OK);
		} else {
			CHECK_EQ(err, FM_E_UNSUPPORTED);
			CHECK_EQ(row.minor, 77); // untouched on failure
		}
	}
}

static struct fm_py_row row_of(unsigned minor)
{
	struct fm_py_row row;
	CHECK_EQ(fm_pyabi_row_by_minor(minor, &row), FM_OK);
	return row;
}

#define CHECK_REFUSED(minor, statement)                              \
	do {                                                         \
		struct fm_py_row row = row_of(minor);                \
		statement;                                           \
		CHECK_EQ(fm_pyabi_row_validate(&row), FM_E_CORRUPT); \
	} while (0)

TEST(rows_that_cannot_be_true_are_refused)
{
	CHECK_REFUSED(11, row.frame_previous = 0);              // needed
	CHECK_REFUSED(11, row.frame_previous = 49);             // misaligned
	CHECK_REFUSED(11, row.frame_previous = 60000);          // beyond bounds
	CHECK_REFUSED(11, row.frame_previous = row.frame_code); // two fields in one place
	CHECK_REFUSED(11, row.frame_lasti = (uint16_t)(row.frame_code + 4));
	CHECK_REFUSED(11, row.ts_frame = 24);                     // 3.11 has none
	CHECK_REFUSED(12, row.frame_is_entry = 68);               // gone in 3.12
	CHECK_REFUSED(13, row.frames = FM_PY_FRAMES_SHIM_CFRAME); // another version's
	CHECK_REFUSED(13, row.line_table = FM_PY_LINES_310);
	CHECK_REFUSED(13, row.first_shim_owner = 0);    // every frame would be a shim
	CHECK_REFUSED(13, row.executable_tag_mask = 8); // would change pointers
	CHECK_REFUSED(13, row.code_tlbc = 200);         // free-threaded 3.14 only
	CHECK_REFUSED(12, row.is_free_threaded = 1);
	CHECK_REFUSED(9, row.interp_gc_collecting = 0);
	CHECK_REFUSED(8, row.interp_gc_collecting = 816);
	CHECK_REFUSED(8, row.str_ascii_data = 32); // on top of the state
	CHECK_REFUSED(8, row.str_kind_mask = 0x18);
	CHECK_REFUSED(8, row.str_kind_shift = 31);
	struct fm_py_row newer = row_of(13);
	newer.minor = 16;
	CHECK_EQ(fm_pyabi_row_validate(&newer), FM_E_UNSUPPORTED);
}

// A true _Py_DebugOffsets of 3.13 (GIL build), slot by slot as its header orders them.
enum {
	N_SLOTS_313 = 73,
	SLOT_INTERP_SIZE = 6,
	SLOT_THREAD_SIZE = 19,
	SLOT_CURRENT_FRAME = 23,
	SLOT_FRAME_SIZE = 28,
	SLOT_THREAD_SIZE_314 = 22
};
static const uint64_t table_313[N_SLOTS_313] = {
	0x7970677562656478,
	0x030d00f0,
	0, // "xdebugpy", 3.13.0 final, has a GIL
	283320,
	608,
	632, // runtime
	194968,
	7272,
	7264,
	7344,
	7400,
	7656,
	7680,
	7688,
	16,
	7752,
	0,
	7768,
	7760, // interpreter
	304,
	0,
	8,
	16,
	72,
	152,
	160,
	232,
	32, // thread
	80,
	8,
	0,
	56,
	72,
	70, // frame
	208,
	112,
	120,
	128,
	136,
	68,
	52,
	96,
	104,
	200, // code
	16,
	8,
	416,
	24,
	88,
	168,
	32,
	24,
	16,
	40,
	24,
	16,
	48,
	32,
	40,
	24,
	16,
	32,
	16,
	24, // object, type, ..., int
	40,
	16,
	32, // bytes
	64,
	32,
	16,
	40, // str
	240,
	200, // gc
};

static enum fm_err read_table(const uint64_t *table, struct fm_py_row *row, uint32_t *hexversion)
{
	return fm_pyabi_row_from_debug_offsets((const uint8_t *)table, sizeof(table_313), row, hexversion);
}

TEST(debug_offsets_of_313_give_the_row_of_the_table)
{
	struct fm_py_row row, expected = row_of(13);
	uint32_t hexversion = 0;
	memset(&row, 0, sizeof(row));
	CHECK_EQ(read_table(table_313, &row, &hexversion), FM_OK);
	CHECK_EQ(hexversion, 0x030d00f0);
	CHECK(memcmp(&row, &expected, sizeof(row)) == 0);
}

TEST(debug_offsets_that_lie_unaligned_are_read)
{
	uint8_t bytes[sizeof(table_313) + 1];
	struct fm_py_row row;
	uint32_t hexversion;
	memcpy(bytes + 1, table_313, sizeof(table_313));
	CHECK_EQ(fm_pyabi_row_from_debug_offsets(bytes + 1, sizeof(table_313), &row, &hexversion), FM_OK);
	CHECK_EQ(row.frame_owner, 70);
}

#define CHECK_TABLE(slot, value, expected)                                \
	do {                                                              \
		uint64_t table[N_SLOTS_313];                              \
		struct fm_py_row row;                                     \
		uint32_t hexversion = 0;                                  \
		memcpy(table, table_313, sizeof(table));                  \
		table[slot] = value;                                      \
		CHECK_EQ(read_table(table, &row, &hexversion), expected); \
	} while (0)

TEST(damaged_debug_offsets_are_refused)
{
	CHECK_TABLE(0, 0x7970677562656479, FM_E_UNSUPPORTED);
	CHECK_TABLE(1, 0x030c00f0, FM_E_UNSUPPORTED); // 3.12 has no table
	CHECK_TABLE(1, 0x031000f0, FM_E_UNSUPPORTED); // newer than we know
	CHECK_TABLE(1, 0x030d00a6, FM_E_UNSUPPORTED); // an alpha
	CHECK_TABLE(1, 0x030d00c2, FM_OK);            // a candidate
	CHECK_TABLE(1, 0x020d00f0, FM_E_UNSUPPORTED);
	CHECK_TABLE(1, 0x1030d00f0, FM_E_CORRUPT);
	CHECK_TABLE(1, 0x030e00f0, FM_E_TRUNCATED); // 3.14's is longer
	CHECK_TABLE(2, 2, FM_E_CORRUPT);
	CHECK_TABLE(SLOT_INTERP_SIZE, 7600, FM_E_CORRUPT); // the collector's state would not fit
	CHECK_TABLE(SLOT_INTERP_SIZE, UINT64_MAX, FM_E_CORRUPT);
	CHECK_TABLE(SLOT_THREAD_SIZE, 64, FM_E_CORRUPT);
	CHECK_TABLE(SLOT_THREAD_SIZE, 1u << 20, FM_E_CORRUPT);
	CHECK_TABLE(SLOT_CURRENT_FRAME, 0, FM_E_CORRUPT);
	CHECK_TABLE(SLOT_CURRENT_FRAME, 300, FM_E_CORRUPT);
	CHECK_TABLE(SLOT_CURRENT_FRAME, UINT64_MAX - 3, FM_E_CORRUPT);
	CHECK_TABLE(SLOT_FRAME_SIZE, 0, FM_E_CORRUPT);
	for (unsigned len = 0; len < sizeof(table_313); len++) {
		struct fm_py_row row;
		uint32_t hexversion = 0;
		CHECK(fm_pyabi_row_from_debug_offsets((const uint8_t *)table_313, len, &row, &hexversion) != FM_OK);
	}
}

TEST(random_debug_offsets_do_not_crash_and_rows_are_valid)
{
	uint32_t random = 7;
	for (int round = 0; round < 20000; round++) {
		uint64_t table[FM_PY_DEBUG_OFFSETS_BYTES / 8] = { 0 };
		struct fm_py_row row;
		uint32_t hexversion;
		memcpy(table, table_313, sizeof(table_313));
		table[1] = 0x030000f0 | (uint64_t)(13 + next_random(&random) % 3) << 16;
		table[2] = next_random(&random) % 2;
		for (unsigned i = next_random(&random) % 8; i > 0; i--)
			table[3 + next_random(&random) % 108] = next_random(&random) % 400;
		if (!fm_pyabi_row_from_debug_offsets((const uint8_t *)table, sizeof(table), &row, &hexversion))
			CHECK_EQ(fm_pyabi_row_validate(&row), FM_OK);
	}
}

TEST(where_a_script_is_left_lies_within_the_thread_state)
{
	uint32_t random = 11, n_good = 0;
	for (int round = 0; round < 20000; round++) {
		uint64_t table[FM_PY_DEBUG_OFFSETS_BYTES / 8] = { 0 };
		struct fm_py_remote_exec exec;
		table[0] = table_313[0];
		table[1] = 0x030000f0 | (uint64_t)(13 + next_random(&random) % 3) << 16;
		for (unsigned i = 3; i < FM_ARRAY_LEN(table); i++)
			table[i] = next_random(&random) % 400;
		table[SLOT_THREAD_SIZE_314] = 300 + next_random(&random) % 600;
		if (fm_pyabi_remote_exec((const uint8_t *)table, sizeof(table), &exec))
			continue;
		n_good++;
		CHECK(exec.script_path + exec.script_path_size <= table[SLOT_THREAD_SIZE_314]);
		CHECK(exec.pending_call + 4u <= table[SLOT_THREAD_SIZE_314]);
		CHECK(exec.eval_breaker + 8u <= table[SLOT_THREAD_SIZE_314]);
	}
	CHECK(n_good > 100);
}

TEST_MAIN()
