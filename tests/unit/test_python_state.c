// SPDX-License-Identifier: Apache-2.0
// Where a thread-local is, read from the instructions of a function that returns it, as compilers
// and linkers write them.
#include "sigsafe/python/thread_state.h"

#include <sys/mman.h>

#include "test.h"

#if defined(__x86_64__)

static uint8_t *code; // and data beside it, within reach of 32 bits

static bool decode(struct fm_sig_tls *ret, size_t len, const char *bytes)
{
	if (!code)
		code = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(code, 0xcc, 4096);
	memcpy(code, bytes, len);
	return fm_sig_tls_decode((uintptr_t)code, ret);
}
#define DECODE(ret, bytes) decode(ret, sizeof(bytes) - 1, bytes)

// The word at code + 4096, and the displacement to it from an instruction that ends at `end`.
static void put_word(uint64_t nth, uint64_t value)
{
	memcpy(code + 4096 + 8 * nth, &value, 8);
}

TEST(static_builds_add_a_constant_to_the_thread_pointer)
{
	struct fm_sig_tls tls;
	// gcc, Debian's 3.14: endbr64; mov %fs:-24, %rax; ret
	CHECK(DECODE(&tls, "\xf3\x0f\x1e\xfa\x64\x48\x8b\x04\x25\xe8\xff\xff\xff\xc3"));
	CHECK_EQ(tls.kind, FM_SIG_TLS_STATIC);
	CHECK_EQ(tls.offset, -24);
	// With a frame pointer: push %rbp; mov %rsp, %rbp; mov %fs:-8, %rax; pop %rbp; ret
	CHECK(DECODE(&tls, "\x55\x48\x89\xe5\x64\x48\x8b\x04\x25\xf8\xff\xff\xff\x5d\xc3"));
	CHECK_EQ(tls.offset, -8);
	// mov $-16, %rax; mov %fs:(%rax), %rax: the linker knew the constant
	CHECK(DECODE(&tls, "\x48\xc7\xc0\xf0\xff\xff\xff\x64\x48\x8b\x00\xc3"));
	CHECK_EQ(tls.offset, -16);
	// mov %fs:0, %rax; lea -32(%rax), %rax; mov (%rax), %rax: relaxed from a call
	CHECK(DECODE(&tls, "\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x48\x8d\x80\xe0\xff\xff\xff\x48\x8b\x00\xc3"));
	CHECK_EQ(tls.offset, -32);
	// mov %fs:0, %rax; mov -40(%rax), %rax
	CHECK(DECODE(&tls, "\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x48\x8b\x40\xd8\xc3"));
	CHECK_EQ(tls.offset, -40);
}

TEST(position_independent_builds_have_the_constant_beside_the_code)
{
	struct fm_sig_tls tls;
	DECODE(&tls, "");
	put_word(0, (uint64_t)-48);
	// mov 4096 - 7(%rip), %rax; mov %fs:(%rax), %rax
	CHECK(DECODE(&tls, "\x48\x8b\x05\xf9\x0f\x00\x00\x64\x48\x8b\x00\xc3"));
	CHECK_EQ(tls.kind, FM_SIG_TLS_STATIC);
	CHECK_EQ(tls.offset, -48);
	// mov %fs:0, %rax; add 4096 - 16(%rip), %rax; mov (%rax), %rax
	CHECK(DECODE(&tls, "\x64\x48\x8b\x04\x25\x00\x00\x00\x00\x48\x03\x05\xf0\x0f\x00\x00\x48\x8b\x00\xc3"));
	CHECK_EQ(tls.offset, -48);
}

TEST(shared_libraries_ask_for_the_module_s_block)
{
	struct fm_sig_tls tls;
	DECODE(&tls, "");
	put_word(0, 3);
	put_word(1, 24);
	// 3.12 and 3.13 as gcc builds them: sub $8, %rsp; lea index(%rip), %rdi; call
	// __tls_get_addr; mov (%rax), %rax
	CHECK(DECODE(&tls, "\x48\x83\xec\x08\x66\x48\x8d\x3d\xf4\x0f\x00\x00\x66\x66\x48\xe8\x11\x22\x33\x44\x48\x8b"
			   "\x00\x48\x83\xc4\x08\xc3"));
	CHECK_EQ(tls.kind, FM_SIG_TLS_MODULE);
	CHECK_EQ(tls.module, 3);
	CHECK_EQ(tls.offset, 24);
	// clang: push %rax; lea; call *word(%rip)
	CHECK(DECODE(&tls, "\x50\x66\x48\x8d\x3d\xf7\x0f\x00\x00\x66\x48\xff\x15\x11\x22\x33\x44\x48\x8b\x00\x59\xc3"));
	CHECK_EQ(tls.module, 3);
	// One block for several variables: the offset is in the load.
	put_word(1, 0);
	CHECK(DECODE(&tls, "\x50\x48\x8d\x3d\xf8\x0f\x00\x00\xe8\x11\x22\x33\x44\x48\x8b\x80\x20\x01\x00\x00\x59\xc3"));
	CHECK_EQ(tls.offset, 0x120);
}

TEST(what_is_not_known_is_not_guessed)
{
	struct fm_sig_tls tls;
	CHECK(!DECODE(&tls, "\xc3"));
	CHECK_EQ(tls.kind, FM_SIG_TLS_UNKNOWN);
	CHECK(!DECODE(&tls, "\x48\x8d\x05\x00\x00\x00\x00\xff\x10\x64\x48\x8b\x00\xc3")); // a descriptor's call
	CHECK(!DECODE(&tls, "\x48\x8b\x05\xf9\x0f\x00\x00\x48\x8b\x00\xc3"));             // a plain global
	CHECK(!fm_sig_tls_decode(0, &tls) && !fm_sig_tls_decode(4096, &tls));
}

// As libpython has it: a variable of a shared object, here of this program.
static __thread uint64_t variable = 12345;

TEST(a_static_thread_local_is_found)
{
	struct fm_sig_tls tls = { .kind = FM_SIG_TLS_STATIC, .offset = (uint64_t)&variable - fm_sig_thread_pointer() };
	CHECK_EQ(fm_sig_tls_address(&tls), (uintptr_t)&variable);
	// The program is module 1, and its block is in the thread's vector.
	struct fm_sig_tls by_module = { .kind = FM_SIG_TLS_MODULE, .module = 1 };
	uintptr_t block = fm_sig_tls_address(&by_module);
	CHECK(block && (uintptr_t)&variable - block < 4096);
	by_module.module = 1000000;
	CHECK_EQ(fm_sig_tls_address(&by_module), 0);
}

#endif

TEST_MAIN()
