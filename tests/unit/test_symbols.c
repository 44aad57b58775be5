// SPDX-License-Identifier: Apache-2.0
#include "test.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "image/symbols.h"
#include "symbolize/names.h"

__attribute__((noinline, used)) int test_target(int x);
int test_target(int x)
{
	__asm__ volatile("nop; nop; nop");
	return x + 1;
}

// Other names of the same code. What the linker exports to all comes first.
__attribute__((weak, alias("test_target"))) int a_weak_name(int x);
int a_weak_name(int x);

static int take_bias(struct dl_phdr_info *info, size_t size, void *ctx)
{
	*(uint64_t *)ctx = info->dlpi_addr;
	return 1;
}

static uint64_t own_addr(const void *p)
{
	uint64_t bias = 0;
	dl_iterate_phdr(take_bias, &bias);
	return (uint64_t)(uintptr_t)p - bias;
}

TEST(a_function_is_found_by_any_of_its_addresses)
{
	struct fm_symbols *s;
	struct fm_symbol sym;
	CHECK_EQ(fm_symbols_open("/proc/self/exe", &s, NULL), FM_OK);
	uint64_t addr = own_addr(test_target);
	for (uint64_t off = 0; off < 3; off++) {
		CHECK_EQ(fm_symbols_find(s, addr + off, &sym), FM_OK);
		CHECK_STR(fm_str_of(sym.name), "test_target");
		CHECK_EQ(sym.addr, addr);
	}
	CHECK(sym.size >= 3 && a_weak_name == test_target);
	if (!fm_symbols_find(s, addr + sym.size, &sym)) // padding or the next function, never us
		CHECK(sym.addr != addr);
	CHECK_EQ(fm_symbols_find(s, 0, &sym), FM_E_NOT_FOUND);
	CHECK_EQ(fm_symbols_find(s, UINT64_MAX, &sym), FM_E_NOT_FOUND);
	CHECK(fm_symbols_count(s) > 10);
	fm_symbols_close(s);
}

// The unwind table agrees with the symbol table about where functions begin.
TEST(unwind_tables_tell_where_functions_begin)
{
	struct fm_symbols *s;
	struct fm_symbol sym;
	CHECK_EQ(fm_symbols_open("/proc/self/exe", &s, NULL), FM_OK);
	uint64_t addr = own_addr(test_target), start = 0;
	CHECK_EQ(fm_symbols_find(s, addr, &sym), FM_OK);
	for (uint64_t off = 0; off < sym.size; off++) {
		CHECK_EQ(fm_symbols_function_start(s, addr + off, &start), FM_OK);
		CHECK_EQ(start, addr);
	}
	CHECK_EQ(fm_symbols_function_start(s, 0, &start), FM_E_NOT_FOUND);
	CHECK_EQ(fm_symbols_function_start(s, UINT64_MAX, &start), FM_E_NOT_FOUND);
	fm_symbols_close(s);
}

TEST(libc_is_named_from_its_dynamic_symbols)
{
	const char *path = NULL;
	static const char *const paths[] = { "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6",
					     "/usr/lib/libc.so.6" };
	for (size_t i = 0; i < FM_ARRAY_LEN(paths) && !path; i++)
		if (!access(paths[i], R_OK))
			path = paths[i];
	if (!path)
		return;
	struct fm_symbols *s;
	CHECK_EQ(fm_symbols_open(path, &s, NULL), FM_OK);
	CHECK(fm_symbols_count(s) > 1000);
	CHECK_EQ(fm_symbols_build_id(s).len, 20);
	fm_symbols_close(s);
}

TEST(the_vdso_has_names)
{
	struct fm_symbols *s;
	CHECK_EQ(fm_symbols_open_vdso(&s, NULL), FM_OK);
	CHECK(fm_symbols_count(s) > 0);
	fm_symbols_close(s);
}

TEST(files_that_are_no_programs_are_refused)
{
	struct fm_symbols *s;
	struct fm_diag diag;
	CHECK_EQ(fm_symbols_open("/nonexistent/lib.so", &s, &diag), FM_E_NOT_FOUND);
	CHECK_EQ(fm_symbols_open("/proc/self/cmdline", &s, &diag), FM_E_CORRUPT);
	CHECK_EQ(fm_symbols_open("/", &s, &diag), FM_E_CORRUPT);
	CHECK_EQ(fm_symbols_open("/dev/null", &s, &diag), FM_E_CORRUPT);
}

static char *read_self(size_t *ret_len)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct stat st;
	CHECK(fd >= 0 && !fstat(fd, &st));
	char *bytes = malloc((size_t)st.st_size);
	CHECK(read(fd, bytes, (size_t)st.st_size) == st.st_size);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return bytes;
}

// Header bytes are where lies do most harm: section table, symbol table header, link fields. Each
// round flips some of them.
TEST(damaged_files_never_crash)
{
	size_t len;
	char *bytes = read_self(&len);
	char path[] = "/tmp/fathom-test-XXXXXX";
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	uint32_t rng = 12345;
	uint64_t section_table;
	memcpy(&section_table, bytes + 40, 8);
	for (unsigned round = 0; round < 400; round++) {
		size_t cut = round % 4 == 0 ? len * (round + 1) / 400 : len;
		struct change {
			size_t at;
			char old;
		} changes[8];
		for (unsigned i = 0; i < 8; i++) {
			rng = rng * 1664525 + 1013904223;
			size_t at = i < 4   ? section_table + (rng >> 8) % (len - section_table)
				    : i < 6 ? (rng >> 8) % 64
					    : (rng >> 8) % len;
			changes[i] = (struct change){ at, bytes[at] };
			if (at > 16) // the magic stays, or nothing is tested
				bytes[at] = (char)(rng >> 3);
		}
		CHECK(pwrite(fd, bytes, cut, 0) == (ssize_t)cut && !ftruncate(fd, (off_t)cut));
		struct fm_symbols *s;
		if (!fm_symbols_open(path, &s, NULL)) {
			struct fm_symbol sym;
			for (uint64_t addr = 0; addr < 0x10000; addr += 64)
				if (!fm_symbols_find(s, addr, &sym))
					CHECK(strlen(sym.name) > 0);
			uint64_t start = 0;
			for (uint64_t addr = 0; addr < 0x10000; addr += 64)
				if (!fm_symbols_function_start(s, addr, &start))
					CHECK(start <= addr);
			fm_symbols_close(s);
		}
		for (unsigned i = 8; i-- > 0;)
			bytes[changes[i].at] = changes[i].old;
	}
	close(fd);
	unlink(path);
	free(bytes);
}

TEST(names_are_what_people_write)
{
	struct fm_arena arena;
	fm_arena_init(&arena);
	static const char *const modules[][2] = {
		{ "/usr/lib/python3.11/json/encoder.py", "json.encoder" },
		{ "/venv/lib/python3.8/site-packages/numpy/__init__.py", "numpy" },
		{ "/usr/lib/python3/dist-packages/yaml/loader.py", "yaml.loader" },
		{ "/home/user/app.py", "app" },
		{ "<frozen importlib._bootstrap>", "importlib._bootstrap" },
		{ "<string>", "<string>" },
		{ "", "" },
	};
	for (size_t i = 0; i < FM_ARRAY_LEN(modules); i++)
		CHECK_STR(fm_name_module(&arena, fm_str_of(modules[i][0])), modules[i][1]);
	CHECK(fm_name_is_library(fm_str_of("/opt/pyenv/versions/3.11.7/lib/python3.11/ast.py")));
	CHECK(fm_name_is_library(fm_str_of("/usr/lib/python3.13t/ast.py")));
	CHECK(!fm_name_is_library(fm_str_of("/home/user/python3.11/app.py")));
	CHECK(!fm_name_is_library(fm_str_of("app.py")));
	CHECK(fm_name_is_ours(fm_str_of("/src/python/fathom/_startup/_fathom_hooks.py")));
	CHECK(fm_name_is_ours(fm_str_of("/venv/lib/python3.11/site-packages/fathom/__main__.py")));
	CHECK(fm_name_is_ours(fm_str_of("/src/python/fathom/_trace_main.py")) &&
	      fm_name_is_library(fm_str_of("/src/python/fathom/_trace_main.py")));
	// Others call their folders so, too.
	CHECK(!fm_name_is_ours(fm_str_of("/home/user/fathom/__main__.py")));
	CHECK(!fm_name_is_ours(fm_str_of("/home/user/fathom/_startup.py")));
	CHECK(!fm_name_is_ours(fm_str_of("/home/user/fathom/tools/_jobs.py")));
	CHECK(!fm_name_is_ours(fm_str_of("_jobs.py")) && !fm_name_is_ours(fm_str_of("")));
	fm_arena_deinit(&arena);
}

TEST_MAIN()
