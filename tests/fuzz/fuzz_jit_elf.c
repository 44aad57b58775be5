// SPDX-License-Identifier: Apache-2.0
// Any bytes as an in-memory object, and as a bare unwind table: rows come out sorted and within
// what they say they describe.
#include "fuzz.h"

#include "image/jit.h"

static void check_rows(struct fm_jit_rows *rows)
{
	for (size_t i = 0; i < rows->rows.n; i++) {
		FUZZ_CHECK(rows->rows.items[i].addr <= rows->end - rows->base);
		FUZZ_CHECK(!i || rows->rows.items[i].addr >= rows->rows.items[i - 1].addr);
	}
	fm_jit_rows_deinit(rows);
}

static void check_chain(void *ctx, size_t idx, const struct fm_line_frame *frames, size_t n)
{
	size_t *n_chars = ctx;
	FUZZ_CHECK(idx < 64 && n > 0);
	for (size_t i = 0; i < n; i++) {
		FUZZ_CHECK(frames[i].is_inlined == (i > 0));
		*n_chars +=
			(frames[i].name ? strlen(frames[i].name) : 0) + (frames[i].file ? strlen(frames[i].file) : 0);
	}
}

// Addresses in and around its functions. Takes over the object.
static void resolve(uint8_t *elf, size_t size, const struct fm_code_ranges *ranges)
{
	struct fm_jit_debug *debug = fm_jit_debug_open(elf, size);
	uint64_t addrs[64];
	size_t n = 0, n_chars = 0;
	for (size_t i = 0; debug && i < ranges->items.n && n < 60; i++) {
		uint64_t start = ranges->items.items[i].start;
		for (uint64_t k = 0; k < 4 && (!n || start + k * 9 > addrs[n - 1]); k++)
			addrs[n++] = start + k * 9;
	}
	if (n)
		fm_jit_debug_resolve(debug, addrs, n, check_chain, &n_chars);
	FUZZ_CHECK(n_chars < SIZE_MAX);
	fm_jit_debug_close(debug);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_code_ranges ranges = { 0 };
	struct fm_jit_rows rows = { 0 }, bare = { 0 };
	uint8_t *copy = malloc(size ? size : 1);
	memcpy(copy, data, size);
	if (fm_jit_elf_read(copy, size, 1, &ranges, &rows) == FM_OK) {
		for (size_t i = 0; i < ranges.items.n; i++)
			FUZZ_CHECK(ranges.items.items[i].start < ranges.items.items[i].end);
		resolve(copy, size, &ranges);
	} else {
		free(copy);
	}
	check_rows(&rows);
	bool is_bad;
	size_t len = fm_jit_eh_frame_length(data, size, &is_bad);
	FUZZ_CHECK(len <= size);
	fm_jit_eh_frame_read(data, len, 0x7f0000001000, &bare);
	check_rows(&bare);
	fm_code_ranges_deinit(&ranges);
	return 0;
}
