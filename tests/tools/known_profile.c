// Writes the profile of tests/support/known.h: known_profile OUT [--other-build]
// Its native frames lie in this very program, so that their names can be looked up; --other-build records another build id.
#include "support/known.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "image/symbols.h"

__attribute__((noinline, used)) void known_kernel(void);
__attribute__((noinline, used)) void known_start(void);

void known_kernel(void)
{
	__asm__ volatile("nop; nop; nop; nop");
}

void known_start(void)
{
	known_kernel();
	__asm__ volatile("nop");
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *ctx)
{
	*(uint64_t *)ctx = info->dlpi_addr; // the program itself comes first
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return fputs("usage: known_profile OUT [--other-build]\n", stderr), 2;
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return perror("known_profile"), 1;
	self[n] = 0;
	uint64_t bias = 0;
	dl_iterate_phdr(take_bias, &bias);
	struct fm_diag diag = { "" };
	struct fm_symbols *symbols;
	if (fm_symbols_open(self, &symbols, &diag))
		return fprintf(stderr, "known_profile: %s\n", diag.text), 1;
	struct known_images images = {
		.native_path = self,
		.native_build_id = argc > 2 ? FM_STR_LIT("no such build id") : fm_symbols_build_id(symbols),
		.kernel_addr = (uint64_t)(uintptr_t)known_kernel - bias,
		.start_addr = (uint64_t)(uintptr_t)known_start - bias,
	};
	enum fm_err err = known_write(argv[1], &images, &diag);
	if (err)
		fprintf(stderr, "known_profile: %s\n", diag.text);
	fm_symbols_close(symbols);
	return err != FM_OK;
}
