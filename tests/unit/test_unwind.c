// SPDX-License-Identifier: Apache-2.0
// The unwinder on this very process: a signal in a known call chain, and the functions it finds.
#include "sigsafe/unwind/unwind.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

#include "format/model.h"
#include "sigsafe/unwind/step.h"
#include "faults.h"
#include "test.h"

// Sanitizers would make them larger than MAX_BYTES.
#define LINK __attribute__((noinline, noipa, no_sanitize_address, no_sanitize_undefined))
#define NO_TAIL_CALL() __asm__ volatile("")

static struct fm_sig_thread t = { .deadline = UINT64_MAX };
static struct fm_wire_header header;
static struct fm_wire_counts counts;
static struct fm_sig_image images[FM_SIG_IMAGES];
static uint8_t ring[FM_WIRE_RING_BYTES];
static struct fm_wire_slot slot;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	fm_sig_unwind(&t, context);
}

static void start(void)
{
	fm_sig.header = &header;
	fm_sig.counts = &counts;
	fm_sig.images = images;
	t.slot = &slot;
	t.ring = ring;
	struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	sigaction(SIGUSR1, &act, NULL);
}

static bool is_in(uint64_t pc, void (*function)(void), uint64_t size)
{
	return pc >= (uint64_t)function && pc < (uint64_t)function + size;
}

// Every function of the chain calls the next one; each is shorter than this.
#define MAX_BYTES 256

LINK static void leaf(void)
{
	raise(SIGUSR1);
	NO_TAIL_CALL();
}

LINK static void with_alloca(void)
{
	volatile char *p = __builtin_alloca(100 + (unsigned)getpid() % 100);
	p[0] = 1;
	leaf();
	p[1] = 2;
}

LINK static void with_large_frame(void)
{
	volatile char large[200000];
	large[0] = large[sizeof(large) - 1] = 1;
	with_alloca();
	large[1] = 2;
}

LINK static void with_aligned_frame(void)
{
	char block[64] __attribute__((aligned(256)));
	__asm__ volatile("" : : "r"(block) : "memory");
	with_large_frame();
	__asm__ volatile("" : : "r"(block) : "memory");
}

// Frames of the chain in t.native, from the innermost of it on; returns the index after the last.
static uint32_t check_chain(void (*const *chain)(void), uint32_t n)
{
	uint32_t at = 0;
	while (at < t.n_native && !is_in(t.native[at].pc, chain[0], MAX_BYTES))
		at++;
	for (uint32_t i = 0; i < n; i++, at++) {
		CHECK(at < t.n_native);
		CHECK(is_in(t.native[at].pc, chain[i], MAX_BYTES));
	}
	return at;
}

TEST(a_signal_in_a_chain_finds_its_functions_in_order)
{
	mend_faults();
	static void (*const chain[])(void) = { leaf, with_alloca, with_large_frame, with_aligned_frame };
	start();
	with_aligned_frame();
	CHECK_EQ(t.native_error, 0);
	uint32_t end = check_chain(chain, 4);
	CHECK(end < t.n_native); // main and what called it
	uint64_t low = t.native_sp;
	for (uint32_t i = 0; i + 1 < t.n_native; i++) {
		CHECK(t.native[i].cfa > low);
		low = t.native[i].cfa;
	}
	CHECK_EQ(t.native[t.n_native - 1].cfa, UINT64_MAX);
}

LINK static void in_handler(int sig)
{
	(void)sig;
	with_alloca();
	NO_TAIL_CALL();
}

LINK static void raiser(void)
{
	raise(SIGUSR2);
	NO_TAIL_CALL();
}

TEST(the_stack_goes_on_through_a_signal_frame)
{
	mend_faults();
	static void (*const inner[])(void) = { leaf, with_alloca }, (*const outer[])(void) = { raiser };
#ifdef __SANITIZE_THREAD__
	return; // it calls handlers later, from functions of its own
#endif
	for (int on_stack = 0; on_stack < 2; on_stack++) {
		static char block[65536];
		stack_t stack = { .ss_sp = block, .ss_size = sizeof(block) };
		start();
		sigaltstack(&stack, NULL);
		struct sigaction act = { .sa_handler = in_handler, .sa_flags = on_stack ? SA_ONSTACK : 0 };
		sigaction(SIGUSR2, &act, NULL);
		raiser();
		CHECK_EQ(t.native_error, 0);
		uint32_t end = check_chain(inner, 2);
		CHECK(t.precise_native != UINT32_MAX && t.precise_native > end);
		check_chain(outer, 1);
	}
}

static ucontext_t caller, fiber;

TEST(a_fiber_s_stack_ends_where_it_began)
{
	mend_faults();
	static char block[65536];
	static void (*const chain[])(void) = { leaf, with_alloca };
	start();
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = block;
	fiber.uc_stack.ss_size = sizeof(block);
	fiber.uc_link = &caller;
	makecontext(&fiber, with_alloca, 0);
	swapcontext(&caller, &fiber);
	CHECK_EQ(t.native_error, 0);
	check_chain(chain, 2);
}

// A return address that cannot be, and no frame pointer to go on by: the stack ends with a reason,
// and the frames before it are there.
LINK static void smashed(void)
{
	void *volatile *frame = __builtin_frame_address(0);
	void *before[2] = { frame[0], frame[1] };
	frame[0] = NULL;
	frame[1] = (void *)0x1234567;
	leaf();
	frame[0] = before[0];
	frame[1] = before[1];
}

TEST(a_smashed_return_address_is_an_error_frame)
{
	mend_faults();
	static void (*const chain[])(void) = { leaf, smashed };
	start();
	smashed();
	check_chain(chain, 2);
	CHECK_EQ(t.native_error, FM_STACK_NOT_CODE);
}

// Every instruction and every byte between: what was remembered of the code around it gives the row
// that its own entry gives.
TEST(a_row_known_for_a_stretch_of_code_is_that_of_each_pc_in_it)
{
	mend_faults();
	enum { N_PCS = 200000 };
	uint64_t first = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "qsort"), n_known = 0;
	start();
	for (uint64_t pc = first; pc < first + N_PCS; pc++) {
		struct fm_sig_row *place = fm_sig_row_place(&t, pc);
		struct fm_sig_range *range = fm_sig_range_place(&t, pc);
		n_known += pc - range->row.pc < range->size;
		place->kind = FM_SIG_ROW_EMPTY;
		struct fm_sig_row known = *fm_sig_row_find(&t, pc);
		place->kind = FM_SIG_ROW_EMPTY;
		range->size = 0;
		const struct fm_sig_row *own = fm_sig_row_find(&t, pc);
		CHECK_EQ(known.pc, own->pc);
		CHECK_EQ(known.kind, own->kind);
		CHECK_EQ(known.cfa_reg, own->cfa_reg);
		CHECK_EQ(known.cfa_off, own->cfa_off);
		CHECK_EQ(known.rbp_off, own->rbp_off);
		CHECK_EQ(known.rbx_off, own->rbx_off);
		CHECK_EQ(known.flags, own->flags);
	}
	CHECK(n_known > N_PCS / 2);
}

TEST_MAIN()
