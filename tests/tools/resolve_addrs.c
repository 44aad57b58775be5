// SPDX-License-Identifier: Apache-2.0
// Prints what addresses of an ELF file mean, as binutils' addr2line -afi does, to be compared with
// it.
//   resolve_addrs FILE < addresses     one hexadecimal address a line; rising
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbolize/resolve.h"

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: resolve_addrs FILE < addresses\n", stderr);
		return 2;
	}
	FM_VEC(uint64_t) addrs = { 0 };
	uint64_t addr;
	while (scanf("%" SCNx64, &addr) == 1)
		fm_vec_push(&addrs, addr);
	struct fm_chains chains;
	struct fm_resolve_request request = { .path = argv[1] };
	fm_resolve_here(&request, addrs.items, addrs.n, &chains);
	for (size_t i = 0; i < addrs.n; i++) {
		const struct fm_chain *chain = fm_chains_find(&chains, addrs.items[i]);
		printf("0x%016" PRIx64 "\n", addrs.items[i]);
		for (uint32_t k = chain ? chain->n : 0; k-- > 0;) {
			const struct fm_link *link = &chains.links.items[chain->first_link + k];
			struct fm_str name = fm_chains_str(&chains, link->name),
				      file = fm_chains_str(&chains, link->file);
			printf("%.*s\n%.*s:%u\n", (int)name.len, name.p, (int)file.len, file.p, link->line);
		}
	}
	fm_chains_deinit(&chains);
	fm_vec_deinit(&addrs);
	return 0;
}
