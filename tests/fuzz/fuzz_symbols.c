// Damaged ELF and DWARF, of this program itself or of the file named by FUZZ_ELF, whose own functions are what is asked for.
//
// Resolving happens as in a report: in a child, within a time limit. What is tested is that the answer always comes, that it
// is consistent, and that it names functions when the damage is elsewhere.
#include "damaged_elf.h"

#include "base/clock.h"
#include "symbolize/demangle.h"
#include "symbolize/resolve.h"

static void check(const struct fm_chains *c)
{
	struct fm_arena arena;
	fm_arena_init(&arena);
	for (size_t i = 0; i < c->items.n; i++) {
		FUZZ_CHECK(i == 0 || c->items.items[i - 1].addr < c->items.items[i].addr);
		for (uint32_t k = 0; k < c->items.items[i].n; k++) {
			FUZZ_CHECK(c->items.items[i].first_link + k < c->links.n);
			const struct fm_link *link = &c->links.items[c->items.items[i].first_link + k];
			struct fm_pretty pretty = fm_demangle(&arena, fm_chains_str(c, link->name));
			FUZZ_CHECK(pretty.name.p && pretty.full.p);
			FUZZ_CHECK(link->is_inlined == (k > 0));
		}
	}
	fm_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	setenv("XDG_CACHE_HOME", "/dev/null", 1); // nothing is remembered from input to input
	unsetenv("DEBUGINFOD_URLS");
	int fd = damaged_elf(getenv("FUZZ_ELF"), data, size);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	uint64_t addrs[64], start_ns = fm_now_ns();
	for (size_t i = 0; i < 64; i++)
		addrs[i] = 0x1000 + i * 0x3f7;
	for (unsigned symbols_only = 0; symbols_only < 2; symbols_only++) {
		struct fm_resolve_request request = { .path = path,
						      .symbols_only = symbols_only,
						      .deadline_ns = fm_now_ns() + 5000000000u };
		struct fm_chains chains;
		fm_resolve(&request, addrs, 64, &chains);
		check(&chains);
		fm_chains_deinit(&chains);
	}
	FUZZ_CHECK(fm_now_ns() - start_ns < 30000000000u);
	close(fd);
	return 0;
}
