// SPDX-License-Identifier: Apache-2.0
// Reads of memory that may not be there, by either way.
#include "sigsafe/base/read.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "faults.h"
#include "test.h"

static uint8_t *pages; // readable, PROT_NONE, unmapped

static void map_pages(void)
{
	pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED);
	for (unsigned i = 0; i < 4096; i++)
		pages[i] = (uint8_t)(i * 7);
	CHECK_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	CHECK_EQ(munmap(pages + 2 * 4096, 4096), 0);
}

// A file that became shorter than what is mapped of it: SIGBUS.
static uint8_t *map_cut_file(void)
{
	int fd = memfd_create("cut", 0);
	CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
	uint8_t *p = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED && ftruncate(fd, 4096) == 0);
	return p;
}

static void check_reads(void)
{
	uint8_t u8, bytes[64];
	uint16_t u16;
	uint32_t u32;
	uint64_t u64, expected;
	map_pages();
	uint8_t *cut = map_cut_file();
	uintptr_t start = (uintptr_t)pages;
	CHECK(fm_sig_read_u8(start + 5, &u8) && u8 == 35);
	CHECK(fm_sig_read_u16(start + 1, &u16) && u16 == (14 << 8 | 7));
	CHECK(fm_sig_read_u32(start, &u32) && u32 == (21u << 24 | 14 << 16 | 7 << 8));
	memcpy(&expected, pages + 4088, 8);
	CHECK(fm_sig_read_u64(start + 4088, &u64) && u64 == expected);
	CHECK(fm_sig_read(start + 4033, bytes, 63) && !memcmp(bytes, pages + 4033, 63));
	for (unsigned i = 1; i < 8; i++) // across the end
		CHECK(!fm_sig_read_u64(start + 4088 + i, &u64) && !fm_sig_read(start + 4096 - i, bytes, i + 1));
	const uintptr_t bad[] = { 0,
				  8,
				  4095,
				  65536 - 8,
				  start + 4096,
				  start + 8192,
				  (uintptr_t)cut + 4096,
				  (1ull << 47) - 4,
				  1ull << 47,
				  0xffffffffff600000u,
				  0x8000000000000000u,
				  UINT64_MAX - 3,
				  UINT64_MAX };
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(!fm_sig_read_u8(bad[i], &u8));
		CHECK(!fm_sig_read_u16(bad[i], &u16));
		CHECK(!fm_sig_read_u32(bad[i], &u32));
		CHECK(!fm_sig_read_u64(bad[i], &u64));
		CHECK(!fm_sig_read(bad[i], bytes, 9));
	}
	strcpy((char *)pages, "a name");
	CHECK_EQ(fm_sig_read_length(start, 100), 6);
	CHECK_EQ(fm_sig_read_length(start, 3), 3);
	memset(pages, 'x', 4096);
	CHECK_EQ(fm_sig_read_length(start + 4090, 100), 6); // what is not there ends it
}

TEST(what_is_gone_is_not_read_by_loads)
{
	mend_faults();
	CHECK(fm_sig_is_recoverable);
	check_reads();
}

TEST(what_is_gone_is_not_read_by_the_kernel)
{
	CHECK(!fm_sig_is_recoverable);
	check_reads();
}

TEST(loads_are_not_used_where_a_fault_would_end_the_program)
{
	sigset_t set;
	mend_faults();
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	sigprocmask(SIG_BLOCK, &set, NULL); // the kernel ends a program that faults with the signal blocked
	fm_sig_fault_check(NULL);
	CHECK(!fm_sig_is_recoverable);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	fm_sig_fault_check(NULL);
	CHECK(fm_sig_is_recoverable);
	ucontext_t uc = { .uc_stack.ss_flags = SS_DISABLE };
	sigaddset(&uc.uc_sigmask, SIGSEGV);
	fm_sig_fault_check(&uc);
	CHECK(!fm_sig_is_recoverable);
	sigemptyset(&uc.uc_sigmask);
	static uint8_t small[2048];
	uc.uc_stack = (stack_t){ .ss_sp = small, .ss_size = sizeof(small) }; // one signal frame has no room there
	fm_sig_fault_check(&uc);
	CHECK(!fm_sig_is_recoverable);
	signal(SIGSEGV, SIG_DFL); // by a way that the agent does not see
	fm_sig_fault_check(NULL);
	CHECK(!fm_sig_is_recoverable);
}

static sigjmp_buf out;
static volatile uintptr_t seen_addr;

static void on_theirs(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	seen_addr = (uintptr_t)info->si_addr;
	siglongjmp(out, 1);
}

TEST(a_fault_of_the_program_s_own_is_the_program_s)
{
	struct sigaction act = { .sa_sigaction = on_theirs, .sa_flags = SA_SIGINFO };
	uint64_t u64;
	map_pages();
	sigaction(SIGSEGV, &act, NULL);
	mend_faults();
	for (unsigned i = 0; i < 3; i++) {
		if (sigsetjmp(out, 1) == 0) {
			*(volatile uint8_t *)(pages + 4096 + i);
			CHECK(false);
		}
		CHECK_EQ(seen_addr, (uintptr_t)pages + 4096 + i);
		CHECK(!fm_sig_read_u64((uintptr_t)pages + 4096, &u64)); // and ours is ours
	}
}

TEST(a_fault_that_nobody_handles_ends_the_program)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		map_pages();
		mend_faults();
		*(volatile uint8_t *)(pages + 4096) = 1;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	child = fork();
	if (child == 0) {
		mend_faults();
		kill(getpid(), SIGSEGV); // sent, not raised by the CPU
		for (;;)
			pause();
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

TEST(a_handler_of_ours_that_somebody_kept_ends_nothing_but_what_would_have_ended)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		map_pages();
		mend_faults();
		fm_sig_held[SIGSEGV].is_held = 0; // as after a capture
		alarm(10);                        // a fault that is tried again for ever
		*(volatile uint8_t *)(pages + 4096) = 1;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

TEST_MAIN()
