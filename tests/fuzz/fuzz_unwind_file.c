// SPDX-License-Identifier: Apache-2.0
// Damaged ELF files and unwind tables, as the reader of other processes' stacks meets them. It runs
// in the collector, which has nobody to take its place: here nothing may crash, in libdw neither.
#include "damaged_elf.h"

#include "image/unwind_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = dup(damaged_elf(data, size));
	struct fm_unwind_file *f;
	FUZZ_CHECK(fd >= 0);
	if (fm_unwind_file_open(fd, &f))
		return 0;
	struct fm_unwind_file_info info;
	fm_unwind_file_get(f, &info);
	FUZZ_CHECK(info.start < info.end && info.build_id_len <= 64);
	unsigned n_known = 0;
	for (size_t i = 0; i < N_ADDRS; i++) {
		struct fm_unwind_rule rule;
		uint64_t addr = nth_addr(i), start;
		fm_unwind_file_rule(f, addr, &rule);
		FUZZ_CHECK(rule.kind <= FM_RULE_SIGNAL && rule.cfa_reg < FM_RULE_N_REGS);
		n_known += rule.kind != FM_RULE_NONE && !rule.is_guessed;
		if (fm_unwind_file_function(f, addr, &start) == FM_OK)
			FUZZ_CHECK(start <= addr);
	}
	FUZZ_CHECK(size > 1 || n_known > N_ADDRS / 2); // nothing is damaged
	uint64_t symbol, mapped;
	if (fm_unwind_file_symbol(f, "main", &symbol, NULL) || fm_unwind_file_map(f, 0, &mapped))
		symbol = mapped = 0;
	fm_unwind_file_close(f);
	return 0;
}
