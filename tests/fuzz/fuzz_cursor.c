// SPDX-License-Identifier: Apache-2.0
// Reads arbitrary bytes with an arbitrary order of reads: the first half says what to read, the
// second is read.
#include "fuzz.h"

#include "base/cursor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 2;
	struct fm_cursor c = fm_cursor_over(data + half, size - half);
	uint64_t seen = 0;
	for (size_t i = 0; i < half; i++) {
		size_t left = fm_cursor_left(&c);
		enum fm_err before = c.err;
		switch (data[i] % 6) {
		case 0:
			seen += fm_cursor_u8(&c);
			break;
		case 1:
			seen += fm_cursor_u32(&c);
			break;
		case 2:
			seen += fm_cursor_u64(&c);
			break;
		case 3:
			seen += fm_cursor_varint(&c);
			break;
		case 4:
			seen += (uint64_t)fm_cursor_svarint(&c);
			break;
		case 5: {
			struct fm_str s = fm_cursor_str(&c);
			for (uint32_t k = 0; k < s.len; k++)
				seen += (uint8_t)s.p[k];
			break;
		}
		}
		// A failed cursor never moves again and never forgets; a sound one never moves
		// backwards.
		FUZZ_CHECK(fm_cursor_left(&c) <= left && c.pos <= c.end);
		FUZZ_CHECK(!before || c.err == before);
	}
	return seen == 0x5eed ? -1 : 0; // uses every byte read, so that no read is left out by the compiler
}
