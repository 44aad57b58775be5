// SPDX-License-Identifier: Apache-2.0
// Damaged ELF and DWARF. What is tested is that the answer always comes, that it is consistent, and
// that only libdw falls over what is damaged.
//
// In a report files are read in a child, because damaged ones crash libdw. A fork costs more than
// all the rest, so with libFuzzer the reading happens here, and a fall inside of libdw and libelf
// ends the input and nothing more. Some inputs still take the way with the child (a sixteenth of
// those that begin with 0x7f, or a corpus of them would be all that is tried); without libFuzzer
// all do.
#include "damaged_elf.h"

#include <assert.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include "base/clock.h"
#include "base/hash.h"
#include "symbolize/parts.h"
#include "symbolize/resolve.h"

static bool is_whole; // nothing is damaged

static void check(const struct fm_chains *c)
{
	struct fm_arena arena;
	size_t n_named = 0;
	fm_arena_init(&arena);
	for (size_t i = 0; i < c->items.n; i++) {
		FUZZ_CHECK(i == 0 || c->items.items[i - 1].addr < c->items.items[i].addr);
		n_named += c->items.items[i].n > 0;
		for (uint32_t k = 0; k < c->items.items[i].n; k++) {
			FUZZ_CHECK(c->items.items[i].first_link + k < c->links.n);
			const struct fm_link *link = &c->links.items[c->items.items[i].first_link + k];
			struct fm_pretty pretty = fm_demangle(&arena, fm_chains_str(c, link->name));
			FUZZ_CHECK(pretty.name.p && pretty.full.p);
			FUZZ_CHECK(link->is_inlined == (k > 0));
		}
	}
	FUZZ_CHECK(!is_whole || n_named > N_ADDRS / 2);
	fm_arena_deinit(&arena);
}

static void with_child(const struct fm_resolve_request *request, const uint64_t *addrs)
{
	struct fm_chains chains;
	uint64_t start_ns = fm_now_ns();
	fm_resolve(request, addrs, N_ADDRS, &chains);
	FUZZ_CHECK(fm_now_ns() - start_ns < 30000000000u);
	check(&chains);
	fm_chains_deinit(&chains);
}

#ifdef FM_LIBFUZZER
static struct {
	uintptr_t start, end;
} foreign[8];
static size_t n_foreign;
static sigjmp_buf before;
static volatile sig_atomic_t is_guarded;
static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGABRT };
static struct sigaction others[4];

static int find_foreign(struct dl_phdr_info *info, size_t size, void *ctx)
{
	if (!strstr(info->dlpi_name, "libdw") && !strstr(info->dlpi_name, "libelf"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && n_foreign < 8; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			foreign[n_foreign].start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			foreign[n_foreign++].end =
				info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
		}
	return 0;
}

static int is_foreign(uintptr_t pc)
{
	for (size_t i = 0; i < n_foreign; i++)
		if (pc >= foreign[i].start && pc < foreign[i].end)
			return 1;
	return 0;
}

static void fell(int signal, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	if (is_guarded && is_foreign((uintptr_t)uc->uc_mcontext.gregs[REG_RIP]))
		siglongjmp(before, 1);
	for (size_t i = 0; i < 4; i++)
		if (signals[i] == signal)
			sigaction(signal, &others[i], NULL); // comes again, for the fuzzer
	if (signal == SIGABRT)
		raise(signal);
}

// libdw's own checks end in this function of libc; the program's definition is the one that it
// finds.
void __assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
	if (is_guarded && is_foreign((uintptr_t)__builtin_return_address(0)))
		siglongjmp(before, 1);
	fprintf(stderr, "%s:%u: %s: %s\n", file, line, function, what);
	abort();
}

static void here(const struct fm_resolve_request *request, const uint64_t *addrs)
{
	struct fm_chains chains;
	if (!n_foreign)
		dl_iterate_phdr(find_foreign, NULL);
	struct sigaction action = { .sa_sigaction = fell, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };
	for (size_t i = 0; i < 4; i++)
		sigaction(signals[i], &action, &others[i]);
	is_guarded = 1;
	if (!sigsetjmp(before, 1)) {
		fm_resolve_here(request, addrs, N_ADDRS, &chains);
		is_guarded = 0;
		check(&chains);
		fm_chains_deinit(&chains);
	}
	is_guarded = 0;
	for (size_t i = 0; i < 4; i++)
		sigaction(signals[i], &others[i], NULL);
}

// What was in use when libdw fell is lost.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#else
static void here(const struct fm_resolve_request *request, const uint64_t *addrs)
{
	with_child(request, addrs);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	setenv("XDG_CACHE_HOME", "/dev/null", 1); // nothing is remembered from input to input
	unsetenv("DEBUGINFOD_URLS");
	int fd = damaged_elf(data, size);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	uint64_t addrs[N_ADDRS];
	for (size_t i = 0; i < N_ADDRS; i++)
		addrs[i] = nth_addr(i);
	struct fm_resolve_request request = { .path = path, .deadline_ns = fm_now_ns() + 5000000000u };
	request.symbols_only = size && data[0] & 0x80;
	is_whole = size <= 1;
	if (size && data[0] == 0x7f && fm_hash_bytes(data, size) % 16 == 0)
		with_child(&request, addrs);
	else
		here(&request, addrs);
	return 0;
}
