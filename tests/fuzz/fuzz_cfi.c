// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as an image with .eh_frame_hdr and .eh_frame. The first byte says where in the
// rest the entry is and whether it is found through the index; the next four are the pc, from the
// image's start.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/model.h"
#include "sigsafe/unwind/cfi.h"
#include "sigsafe/unwind/expr.h"
#include "sigsafe/base/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rule(const struct fm_cfi_rule *rule, const struct fm_cfi_row *row, const uint8_t *image, size_t size)
{
	if (rule->where != FM_CFI_AT_EXPR && rule->where != FM_CFI_VALUE_EXPR)
		return;
	const uint8_t *expr = (const uint8_t *)(row->origin + (uintptr_t)(intptr_t)rule->off);
	if (expr < image || rule->expr_len > size || (size_t)(expr - image) > size - rule->expr_len)
		abort(); // an expression outside of the image
	// An address that is read may, by a fuzzer's luck, be of memory that the sanitizer guards.
	if (rule->expr_len && (memchr(expr, 0x06, rule->expr_len) || memchr(expr, 0x94, rule->expr_len)))
		return;
	struct fm_sig_regs regs = { .known = 0 }; // no addresses to read from: what memory holds is not what is tested
	uint64_t value;
	uint32_t err = fm_sig_expr_eval((uintptr_t)expr, rule->expr_len, &regs, NULL, &value);
	if (err > FM_STACK_LOST && err != FM_SIG_NEEDS_ALL_REGS)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 5)
		return 0;
	// A copy of its own: the decoder wants 8-byte aligned images, as they are mapped.
	size_t image_size = size - 5;
	uint8_t *image = malloc(image_size ? image_size : 1);
	memcpy(image, data + 5, image_size);
	uint32_t pc_off;
	memcpy(&pc_off, data + 1, 4);
	struct fm_cfi_row row;
	uint32_t err;
	fm_sig_is_recoverable = true; // plain loads in this build (read.h): what reads out of bounds is seen
	if (data[0] & 0x80) {
		struct fm_sig_image_info info = {
			.start = (uintptr_t)image,
			.end = (uintptr_t)image + image_size,
			.eh_frame_hdr = (uintptr_t)image + (data[0] & 0x7c),
		};
		err = fm_sig_cfi_find(&info, (uintptr_t)image + pc_off, &row);
	} else {
		uintptr_t start = (uintptr_t)image, fde = start + data[0];
		err = data[0] < image_size ? fm_sig_cfi_decode(fde, start, start + image_size, pc_off, &row)
					   : FM_STACK_NO_UNWIND_INFO;
	}
	if (err == 0) {
		check_rule(&row.state.cfa, &row, image, image_size);
		for (unsigned reg = 0; reg < FM_CFI_N_REGS; reg++)
			check_rule(&row.state.regs[reg], &row, image, image_size);
	} else if (err != FM_STACK_NO_UNWIND_INFO && err != FM_STACK_BAD_UNWIND_INFO) {
		abort();
	}
	free(image);
	return 0;
}
