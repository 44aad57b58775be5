// Damaged ELF files and unwind tables, as the reader of other processes' stacks meets them.
#include "damaged_elf.h"

#include "image/unwind_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = damaged_elf(NULL, data, size);
	struct fm_unwind_file *f;
	if (fm_unwind_file_open(fd, &f))
		return 0;
	struct fm_unwind_file_info info;
	fm_unwind_file_get(f, &info);
	FUZZ_CHECK(info.start < info.end && info.build_id_len <= 64);
	for (uint64_t i = 0; i < 64; i++) {
		struct fm_unwind_rule rule;
		uint64_t addr = 0x1000 + i * 0x3f7, start;
		fm_unwind_file_rule(f, addr, &rule);
		FUZZ_CHECK(rule.kind <= FM_RULE_SIGNAL && rule.cfa_reg < FM_RULE_N_REGS);
		if (fm_unwind_file_function(f, addr, &start) == FM_OK)
			FUZZ_CHECK(start <= addr);
	}
	uint64_t symbol, mapped;
	if (fm_unwind_file_symbol(f, "main", &symbol, NULL) || fm_unwind_file_map(f, 0, &mapped))
		symbol = mapped = 0;
	fm_unwind_file_close(f);
	return 0;
}
