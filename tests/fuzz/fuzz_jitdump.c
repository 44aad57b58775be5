// SPDX-License-Identifier: Apache-2.0
// Any bytes as a jitdump, read whole and in two pieces.
#include "fuzz.h"

#include "image/jit.h"

static void take(void *ctx, uint64_t start, uint64_t size, const uint8_t *eh_frame, size_t len, uint64_t addr)
{
	struct fm_jit_rows rows = { 0 };
	(void)ctx;
	FUZZ_CHECK(size && addr >= start);
	fm_jit_eh_frame_read(eh_frame, len, addr, &rows);
	fm_jit_rows_deinit(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_code_ranges ranges = { 0 };
	struct fm_jitdump dump = { 0 };
	size_t used;
	enum fm_err err = fm_jitdump_parse(&dump, data, size, 1, &ranges, take, NULL, &used);
	FUZZ_CHECK(used <= size);
	for (size_t i = 0; i < ranges.items.n; i++) {
		struct fm_str file;
		const struct fm_code_range *found = fm_code_ranges_find(&ranges, ranges.items.items[i].start);
		FUZZ_CHECK(found);
		fm_code_ranges_line(&ranges, found, found->end - 1, &file);
	}
	struct fm_code_ranges again = { 0 };
	struct fm_jitdump second = { 0 };
	size_t first_used, rest_used;
	if (!fm_jitdump_parse(&second, data, size / 2, 1, &again, NULL, NULL, &first_used) &&
	    !fm_jitdump_parse(&second, data + first_used, size - first_used, 1, &again, NULL, NULL, &rest_used) && !err)
		FUZZ_CHECK(again.items.n == ranges.items.n);
	fm_jitdump_deinit(&dump);
	fm_jitdump_deinit(&second);
	fm_code_ranges_deinit(&ranges);
	fm_code_ranges_deinit(&again);
	return 0;
}
