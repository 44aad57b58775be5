// C between Python frames (chain.py): each function is one link of a known call chain. No Python.h: what is called is
// exported by every Python.
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

extern void *PyObject_CallFunctionObjArgs(void *callable, ...);

#define LINK __attribute__((noinline, noipa, visibility("default")))
// Keeps a call from becoming a jump, so that the caller stays on the stack.
#define NO_TAIL_CALL() __asm__ volatile("")

volatile uint64_t sink;

LINK void c_work(long n);
LINK void c_mid(void *callback, unsigned size);
LINK void *c_enter(void *callback);
LINK void c_inner(void *callback, double x);
LINK void *c_deep(void *callback);
LINK void c_jumper(jmp_buf *env, int depth);
LINK void c_jump(void);
LINK int c_compare(const void *a, const void *b);
LINK void c_sort(void);
LINK void c_clock(void);
LINK void c_handler(int sig);
LINK void c_signal(void);
LINK void c_alternate(void);
LINK void c_fiber_main(void);
LINK void c_fiber(void);
LINK void c_tail(long n);
LINK void c_large(void);
LINK void *c_spin(long rounds);

LINK void c_work(long n)
{
	uint64_t x = sink;
	for (long i = 0; i < n; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
}

// A frame whose size is known at run time only.
LINK void c_mid(void *callback, unsigned size)
{
	volatile char *block = alloca(size);
	block[size - 1] = 1;
	sink += (uintptr_t)PyObject_CallFunctionObjArgs(callback, NULL) + (unsigned)block[size - 1];
}

LINK void *c_enter(void *callback)
{
	volatile char large[100000]; // more than a row's 16-bit offsets hold
	large[sink % sizeof(large)] = 1;
	c_mid(callback, 100 + (unsigned)(sink % 1000));
	large[0] = 2;
	return NULL;
}

// Wants an aligned stack: with AVX the function realigns it, and its CFA is no longer a fixed way from rsp.
LINK void c_inner(void *callback, double x)
{
	typedef double vector __attribute__((vector_size(32)));
	volatile vector v = { x, x + 1, x + 2, x + 3 };
	v = v * v;
	sink += (uintptr_t)PyObject_CallFunctionObjArgs(callback, NULL);
	v = v + v;
}

LINK void *c_deep(void *callback)
{
	c_inner(callback, (double)sink);
	NO_TAIL_CALL();
	return NULL;
}

LINK void c_jumper(jmp_buf *env, int depth)
{
	c_work(300);
	if (depth == 0)
		longjmp(*env, 1);
	c_jumper(env, depth - 1);
	NO_TAIL_CALL();
}

LINK void c_jump(void)
{
	jmp_buf env;
	if (setjmp(env) == 0)
		c_jumper(&env, 5);
	else
		c_work(300);
	NO_TAIL_CALL();
}

LINK int c_compare(const void *a, const void *b)
{
	c_work(10);
	return *(const int *)a - *(const int *)b;
}

LINK void c_sort(void)
{
	int values[64];
	for (int i = 0; i < 64; i++)
		values[i] = i * 37 % 64;
	qsort(values, 64, sizeof(values[0]), c_compare);
	NO_TAIL_CALL();
}

LINK void c_clock(void)
{
	struct timespec ts;
	for (int i = 0; i < 200; i++)
		clock_gettime(CLOCK_MONOTONIC, &ts);
	sink += (uint64_t)ts.tv_nsec;
}

LINK void c_handler(int sig)
{
	(void)sig;
	c_work(5000);
	NO_TAIL_CALL();
}

static void raise_with(int flags)
{
	struct sigaction act = { .sa_handler = c_handler, .sa_flags = flags }, old;
	sigaction(SIGUSR1, &act, &old);
	raise(SIGUSR1);
	sigaction(SIGUSR1, &old, NULL);
}

LINK void c_signal(void)
{
	raise_with(0);
	NO_TAIL_CALL();
}

LINK void c_alternate(void)
{
	static char block[65536];
	stack_t stack = { .ss_sp = block, .ss_size = sizeof(block) }, old;
	sigaltstack(&stack, &old);
	raise_with(SA_ONSTACK);
	if (!(old.ss_flags & SS_DISABLE)) {
		sigaltstack(&old, NULL);
	} else {
		stack.ss_flags = SS_DISABLE;
		sigaltstack(&stack, NULL);
	}
}

static ucontext_t fiber_caller, fiber;

LINK void c_fiber_main(void)
{
	c_work(3000);
	swapcontext(&fiber, &fiber_caller);
	c_work(3000);
	NO_TAIL_CALL();
}

LINK void c_fiber(void)
{
	static char block[65536];
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = block;
	fiber.uc_stack.ss_size = sizeof(block);
	fiber.uc_link = &fiber_caller;
	makecontext(&fiber, c_fiber_main, 0);
	swapcontext(&fiber_caller, &fiber);
	swapcontext(&fiber_caller, &fiber);
	NO_TAIL_CALL();
}

LINK void c_tail(long n)
{
	c_work(n); // at -O2 a jump: c_tail leaves the stack
}

LINK void c_large(void)
{
	volatile char large[300000];
	for (unsigned i = 0; i < sizeof(large); i += 4096)
		large[i] = 1;
	c_work(1000);
	large[1] = 2;
}

LINK void *c_spin(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		c_work(1000);
		c_tail(1000);
		c_large();
		c_jump();
		c_sort();
		c_clock();
		c_signal();
		c_alternate();
		c_fiber();
	}
	NO_TAIL_CALL();
	return NULL;
}
