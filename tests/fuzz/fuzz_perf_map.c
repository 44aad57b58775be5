// SPDX-License-Identifier: Apache-2.0
// Any bytes as a perf map: every range that comes out is sane, and each address of one is found.
#include "fuzz.h"

#include "image/jit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_code_ranges ranges = { 0 };
	uint32_t n_bad = 0;
	size_t used = fm_perf_map_parse((const char *)data, size, 1, &ranges, &n_bad);
	FUZZ_CHECK(used <= size && (used == size || !memchr(data + used, '\n', size - used)));
	for (size_t i = 0; i < ranges.items.n; i++) {
		const struct fm_code_range r = ranges.items.items[i];
		FUZZ_CHECK(r.start < r.end);
		const struct fm_code_range *found = fm_code_ranges_find(&ranges, r.start);
		FUZZ_CHECK(found && found->start <= r.start && r.start < found->end);
	}
	// In two pieces it says the same.
	struct fm_code_ranges again = { 0 };
	size_t half = fm_perf_map_parse((const char *)data, size / 2, 1, &again, &n_bad);
	fm_perf_map_parse((const char *)data + half, size - half, 1, &again, &n_bad);
	FUZZ_CHECK(again.items.n == ranges.items.n);
	fm_code_ranges_deinit(&ranges);
	fm_code_ranges_deinit(&again);
	return 0;
}
