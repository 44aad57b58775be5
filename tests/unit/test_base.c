// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include "base/hash.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "base/str.h"

TEST(varints_survive_a_round_trip)
{
	static const uint64_t values[] = { 0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX };
	struct fm_buf b = { 0 };
	for (size_t i = 0; i < FM_ARRAY_LEN(values); i++) {
		fm_buf_varint(&b, values[i]);
		fm_buf_svarint(&b, -(int64_t)values[i]);
	}
	struct fm_cursor c = fm_cursor_over(b.data, b.len);
	for (size_t i = 0; i < FM_ARRAY_LEN(values); i++) {
		CHECK(fm_cursor_varint(&c) == values[i]);
		CHECK(fm_cursor_svarint(&c) == -(int64_t)values[i]);
	}
	CHECK_EQ(c.err, FM_OK);
	CHECK_EQ(fm_cursor_left(&c), 0);
	fm_buf_deinit(&b);
}

TEST(cursor_error_is_sticky_and_does_not_run_past_the_end)
{
	uint8_t two[2] = { 1, 2 };
	struct fm_cursor c = fm_cursor_over(two, 2);
	CHECK_EQ(fm_cursor_u32(&c), 0);
	CHECK_EQ(c.err, FM_E_TRUNCATED);
	CHECK_EQ(fm_cursor_u8(&c), 0); // the bytes are there, but the first failure wins
	uint8_t endless[12];
	memset(endless, 0xff, sizeof(endless));
	c = fm_cursor_over(endless, sizeof(endless));
	fm_cursor_varint(&c);
	CHECK_EQ(c.err, FM_E_CORRUPT);
}

TEST(cursor_gives_the_last_byte_and_none_behind_it)
{
	static const uint8_t bytes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	for (size_t len = 0; len <= 8; len++)
		for (size_t want = 0; want <= 9; want++) {
			struct fm_cursor c = fm_cursor_over(bytes, len);
			CHECK_EQ(fm_cursor_bytes(&c, want) != NULL, want <= len);
			CHECK_EQ(c.err != FM_OK, want > len);
			CHECK_EQ(fm_cursor_left(&c), want > len ? 0 : len - want);
		}
	struct fm_cursor c = fm_cursor_over(bytes, 1);
	CHECK_EQ(fm_cursor_u8(&c), 1);
	CHECK_EQ(c.err, FM_OK);
	CHECK_EQ(fm_cursor_u8(&c), 0);
	CHECK_EQ(c.err, FM_E_TRUNCATED);
}

TEST(intern_gives_dense_ids_in_order_of_first_sight)
{
	struct fm_intern in = { 0 };
	char name[16];
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 5000; i++) {
			bool is_new;
			snprintf(name, sizeof(name), "name%u", i);
			CHECK_EQ(fm_intern_id(&in, fm_str_of(name), &is_new), i);
			CHECK_EQ(is_new, round == 0);
		}
	CHECK_STR(fm_intern_get(&in, 4321), "name4321");
	fm_intern_deinit(&in);
}

TEST(map_keeps_every_key)
{
	struct fm_map map = { 0 };
	for (uint64_t i = 0; i < 100000; i++)
		*fm_map_at(&map, i * 4096, NULL) = i;
	for (uint64_t i = 0; i < 100000; i++)
		CHECK_EQ(*fm_map_find(&map, i * 4096), i);
	CHECK(fm_map_find(&map, 1) == NULL);
	fm_map_deinit(&map);
}

TEST(arena_hands_out_zeroed_aligned_memory)
{
	struct fm_arena arena;
	fm_arena_init(&arena);
	for (size_t size = 1; size < 300000; size = size * 3 + 1) {
		uint8_t *p = fm_arena_alloc(&arena, size);
		CHECK_EQ((uintptr_t)p % 16, 0);
		CHECK(p[0] == 0 && p[size - 1] == 0);
		memset(p, 0xab, size);
	}
	fm_arena_deinit(&arena);
}

TEST(every_varint_length_reads_back_wherever_the_buffer_ends)
{
	// The fast path takes eight bytes at once; near the end and above 56 bits the slow one must
	// agree.
	for (unsigned bits = 0; bits < 64; bits++)
		for (size_t slack = 0; slack < 10; slack++) {
			uint64_t v = ((uint64_t)1 << bits) | (UINT64_MAX >> (63 - bits) & 0x5555555555555555u);
			struct fm_buf b = { 0 };
			fm_buf_varint(&b, v);
			for (size_t i = 0; i < slack; i++)
				fm_buf_u8(&b, 0xff);
			struct fm_cursor c = fm_cursor_over(b.data, b.len);
			CHECK(fm_cursor_varint(&c) == v);
			CHECK_EQ(c.err, FM_OK);
			CHECK_EQ(fm_cursor_left(&c), slack);
			fm_buf_deinit(&b);
		}
}

TEST(checksum_is_xxh64)
{
	// Values of the reference implementation (xxHash 0.8.1) for bytes i * 7 + 1 and seed 0.
	static const struct {
		size_t len;
		uint64_t hash;
	} vectors[] = {
		{ 0, 0xef46db3751d8e999 },  { 3, 0xb6e6c910c2fd373a },   { 31, 0x6ab1c40e29f50073 },
		{ 32, 0x5a0756fbe9ecd3d1 }, { 100, 0xd248bfc5208b0b16 },
	};
	uint8_t bytes[100];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + 1);
	for (size_t i = 0; i < FM_ARRAY_LEN(vectors); i++)
		CHECK(fm_checksum_xxh64(bytes, vectors[i].len, 0) == vectors[i].hash);
	CHECK(fm_checksum_xxh64(bytes, 100, 1) != vectors[4].hash);
}

TEST_MAIN()
