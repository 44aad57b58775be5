// SPDX-License-Identifier: Apache-2.0
// Every address that can be a block's has an entry of its own, and a stretch that finds no room
// harms no other.
#include "sigsafe/memory/blocks.h"

#include <sys/mman.h>

#include "test.h"

static void *reserve(uint64_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static void begin(uint32_t n_stretches)
{
	fm_sig_blocks = reserve(sizeof(*fm_sig_blocks));
	fm_sig_tokens = reserve(n_stretches * FM_SIG_STRETCH_BYTES);
	fm_sig_n_stretches = n_stretches;
}

static void end(void)
{
	munmap(fm_sig_blocks, sizeof(*fm_sig_blocks));
	munmap(fm_sig_tokens, fm_sig_n_stretches * FM_SIG_STRETCH_BYTES);
}

static const void *at(uint64_t addr)
{
	return (const void *)(uintptr_t)addr;
}

TEST(each_address_has_its_own_entry)
{
	static const uint64_t bases[] = { 0, 0x10, 0x3fff800, 0x555555550000, 0x7fffffff0000 };
	begin(8);
	uint64_t token = 0;
	for (unsigned b = 0; b < sizeof(bases) / sizeof(bases[0]); b++)
		for (uint64_t offset = 16; offset < 4096; offset += 8) {
			uint64_t *entry = fm_sig_block_get(at(bases[b] + offset));
			CHECK(entry != NULL);
			if (*entry == 0)
				*entry = ++token;
		}
	// The first two overlap but for 16 bytes; all else is disjoint, also across a seam: no
	// entry was found taken.
	CHECK_EQ(token, 4 * ((4096 - 16) / 8) + 2);
	CHECK_EQ(fm_sig_blocks->n_used, 4u);
	end();
}

TEST(nothing_is_known_of_an_untouched_stretch)
{
	begin(2);
	CHECK(fm_sig_block_find(at(0x1000)) == NULL);
	*fm_sig_block_get(at(0x1000)) = 7;
	CHECK_EQ(*fm_sig_block_find(at(0x1000)), 7u);
	CHECK_EQ(*fm_sig_block_find(at(0x1010)), 0u);
	CHECK(fm_sig_block_find(at(1ull << FM_SIG_STRETCH_LOG2 | 0x1000)) == NULL);
	end();
}

TEST(no_room_is_said_and_harms_nobody)
{
	begin(2);
	*fm_sig_block_get(at(0x1000)) = 1;
	*fm_sig_block_get(at(1ull << FM_SIG_STRETCH_LOG2)) = 2;
	CHECK(fm_sig_block_get(at(2ull << FM_SIG_STRETCH_LOG2)) == NULL);
	CHECK_EQ(*fm_sig_block_get(at(0x1000)), 1u);
	CHECK_EQ(*fm_sig_block_get(at(1ull << FM_SIG_STRETCH_LOG2)), 2u);
	end();
}

TEST_MAIN()
