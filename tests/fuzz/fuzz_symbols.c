// Damaged ELF and DWARF. The input says how to damage a whole file: pairs of a place and a byte. The file is this program
// itself, or the one named by FUZZ_ELF, whose own functions are what is asked for.
//
// Resolving happens as in a report: in a child, within a time limit. What is tested is that the answer always comes, that it
// is consistent, and that it names functions when the damage is elsewhere.
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "symbolize/demangle.h"
#include "symbolize/resolve.h"

static uint8_t *whole;
static size_t whole_len;
static uint64_t section_table;

static void read_whole(void)
{
	const char *path = getenv("FUZZ_ELF");
	int fd = open(path ? path : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	FUZZ_CHECK(fd >= 0 && !fstat(fd, &st));
	whole_len = (size_t)st.st_size;
	whole = mmap(NULL, whole_len, PROT_READ, MAP_PRIVATE, fd, 0);
	FUZZ_CHECK(whole != MAP_FAILED);
	memcpy(&section_table, whole + 40, 8);
	close(fd);
	setenv("XDG_CACHE_HOME", "/dev/null", 1); // nothing is remembered from input to input
	unsetenv("DEBUGINFOD_URLS");
}

// Half of the places are among the section headers and their neighbours, where lies do most harm.
static size_t place_of(const uint8_t *p)
{
	uint32_t at = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
	if (p[0] & 1 && section_table < whole_len)
		return (size_t)section_table + at % (whole_len - (size_t)section_table);
	return at % whole_len;
}

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
	if (!whole)
		read_whole();
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && write(fd, whole, whole_len) == (ssize_t)whole_len);
	for (size_t i = 0; i + 4 <= size && i < 64; i += 4) {
		size_t at = place_of(data + i);
		if (at >= 5) // the magic stays, or nothing is tested
			FUZZ_CHECK(pwrite(fd, data + i + 3, 1, (off_t)at) == 1);
	}
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
