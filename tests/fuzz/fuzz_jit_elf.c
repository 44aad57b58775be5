// Any bytes as an in-memory object, and as a bare unwind table: rows come out sorted and within what they say they describe.
#include "fuzz.h"

#include "image/jit_elf.h"

static void check_rows(struct fm_jit_rows *rows)
{
	for (size_t i = 0; i < rows->rows.n; i++) {
		FUZZ_CHECK(rows->rows.items[i].addr <= rows->end - rows->base);
		FUZZ_CHECK(!i || rows->rows.items[i].addr >= rows->rows.items[i - 1].addr);
	}
	fm_jit_rows_deinit(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_code_ranges ranges = { 0 };
	struct fm_jit_rows rows = { 0 }, bare = { 0 };
	uint8_t *copy = malloc(size ? size : 1);
	memcpy(copy, data, size);
	if (fm_jit_elf_read(copy, size, 1, &ranges, &rows) == FM_OK)
		for (size_t i = 0; i < ranges.items.n; i++)
			FUZZ_CHECK(ranges.items.items[i].start < ranges.items.items[i].end);
	check_rows(&rows);
	bool is_bad;
	size_t len = fm_jit_eh_frame_length(data, size, &is_bad);
	FUZZ_CHECK(len <= size);
	fm_jit_eh_frame_read(data, len, 0x7f0000001000, &bare);
	check_rows(&bare);
	fm_code_ranges_deinit(&ranges);
	free(copy);
	return 0;
}
