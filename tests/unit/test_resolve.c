// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <link.h>

#include "image/lines.h"
#include "image/object.h"
#include "image/symbols.h"
#include "symbolize/cache.h"
#include "symbolize/resolve.h"

static volatile int sink;

static inline __attribute__((always_inline)) int add_squares(int from, int to)
{
	int sum = 0;
	for (int i = from; i < to; i++)
		sum += i * i;
	return sum;
}

// Two inlined calls of the same function, a line of its own between, and a branch.
__attribute__((noinline, used)) int with_inlined_calls(int n);
int with_inlined_calls(int n)
{
	int a = add_squares(sink, n);
	sink = a;
	if (n & 1)
		a += add_squares(a, n + 3);
	return a;
}

static int take_bias(struct dl_phdr_info *info, size_t size, void *ctx)
{
	*(uint64_t *)ctx = info->dlpi_addr;
	return 1;
}

static struct fm_symbol find_function(void)
{
	uint64_t bias = 0;
	struct fm_symbols *symbols;
	struct fm_symbol found = { 0 };
	dl_iterate_phdr(take_bias, &bias);
	CHECK_EQ(fm_symbols_open("/proc/self/exe", &symbols, NULL), FM_OK);
	CHECK_EQ(fm_symbols_find(symbols, (uint64_t)(uintptr_t)with_inlined_calls - bias, &found), FM_OK);
	fm_symbols_close(symbols);
	CHECK(found.size > 16);
	return found;
}

static const struct fm_resolve_request request = { .path = "/proc/self/exe", .build_id = { "", 0 } };

struct expected {
	const struct fm_chains *chains;
	uint64_t addr;
	size_t n_told, n_inlined;
};

// What debug information tells of the address alone.
static void compare_alone(void *ctx, size_t addr_idx, const struct fm_line_frame *frames, size_t n)
{
	struct expected *e = ctx;
	const struct fm_chain *chain = fm_chains_find(e->chains, e->addr);
	CHECK(chain && addr_idx == 0);
	CHECK_EQ(chain->n, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_link *link = &e->chains->links.items[chain->first_link + i];
		CHECK_STR(fm_chains_str(e->chains, link->name), frames[i].name);
		CHECK_STR(fm_chains_str(e->chains, link->file), frames[i].file);
		CHECK_EQ(link->first_line, frames[i].first_line);
		CHECK_EQ(link->line, frames[i].line);
		CHECK_EQ(link->is_inlined, frames[i].is_inlined);
	}
	e->n_told++;
	e->n_inlined += n > 1;
}

// Whichever address of a function is asked for, all of it is found, and each of its addresses means
// what it means by itself.
TEST(one_address_tells_of_its_whole_function)
{
	struct fm_symbol function = find_function();
	uint64_t middle = function.addr + function.size / 2;
	struct fm_object_request wanted = { .path = request.path, .want_debug = true };
	struct fm_object *object;
	struct fm_lines *lines;
	struct fm_chains whole;
	fm_resolve_here(&request, &middle, 1, &whole);
	struct expected e = { .chains = &whole };
	CHECK_EQ(fm_object_open(&wanted, &object, NULL), FM_OK);
	CHECK_EQ(fm_lines_open(object, &lines), FM_OK);
	for (e.addr = function.addr; e.addr < function.addr + function.size; e.addr++)
		fm_lines_resolve(lines, &e.addr, 1, compare_alone, &e);
	CHECK_EQ(e.n_told, function.size);
	CHECK(e.n_inlined > 0 && e.n_inlined < function.size);
	CHECK(whole.items.n > 3 && whole.items.n < function.size);
	CHECK(whole.items.items[0].addr == function.addr);
	CHECK(!fm_chains_find(&whole, function.addr + function.size));
	fm_lines_close(lines);
	fm_object_close(object);
	fm_chains_deinit(&whole);
}

// What the next capture meets elsewhere in the same function is in the cache.
TEST(a_function_is_read_once)
{
	char base[] = "/tmp/fathom-cache-XXXXXX";
	CHECK(mkdtemp(base));
	setenv("XDG_CACHE_HOME", base, 1);
	struct fm_symbol function = find_function();
	uint64_t first = function.addr + 4, last = function.addr + function.size - 1;
	struct fm_chains found, cached;
	CHECK_EQ(fm_resolve(&request, &first, 1, &found), FM_RESOLVE_OK);
	struct fm_cache_key key = fm_cache_key_of(request.path, request.build_id);
	CHECK_EQ(fm_cache_load(&key, &cached), FM_OK);
	CHECK(fm_chains_find(&cached, first) && fm_chains_find(&cached, last));
	CHECK(fm_chains_find(&cached, last)->start == function.addr);
	fm_chains_deinit(&found);
	fm_chains_deinit(&cached);
}

TEST_MAIN()
