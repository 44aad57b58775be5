// SPDX-License-Identifier: Apache-2.0
#include "image/kallsyms.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"
#include "base/cleanup.h"

struct symbol {
	uint64_t addr;
	char name[120];
};

static int by_addr(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

// The next function whose address is shown.
static bool next_symbol(FILE *f, struct symbol *ret)
{
	char line[512];
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long addr;
		char type;
		if (sscanf(line, "%llx %c %119s", &addr, &type, ret->name) != 3 || addr == 0 || !strchr("tTwW", type))
			continue;
		ret->addr = addr;
		return true;
	}
	return false;
}

size_t fm_kallsyms_name(const struct fm_map *wanted, fm_kallsyms_fn each, void *ctx)
{
	FM_VEC(uint64_t) addrs = { 0 };
	for (size_t i = 0; i < wanted->cap; i++)
		if (wanted->entries[i].used)
			fm_vec_push(&addrs, wanted->entries[i].key);
	struct symbol *best = fm_alloc((addrs.n + 1) * sizeof(*best)), s;
	if (addrs.n)
		qsort(addrs.items, addrs.n, sizeof(*addrs.items), by_addr);
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	while (addrs.n && next_symbol(f, &s)) {
		// The nearest below each address, of those above the address before it: the file is in no
		// order that could be relied on.
		size_t at = fm_bisect(addrs.n, i, addrs.items[i] < s.addr);
		if (at < addrs.n && best[at].addr < s.addr)
			best[at] = s;
	}
	for (size_t i = 1; i < addrs.n; i++)
		if (!best[i].addr)
			best[i] = best[i - 1];
	size_t n_unnamed = 0;
	for (size_t i = 0; i < addrs.n; i++) {
		if (best[i].addr)
			each(ctx, addrs.items[i], best[i].name);
		n_unnamed += !best[i].addr;
	}
	free(best);
	fm_vec_deinit(&addrs);
	return n_unnamed;
}

uint64_t fm_kallsyms_address(const char *name)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/kallsyms", "re");
	struct symbol s;
	while (next_symbol(f, &s))
		if (!strcmp(s.name, name))
			return s.addr;
	return 0;
}
