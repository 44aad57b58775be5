// A program that claims to be a Python and lies: it exports what an interpreter exports, and behind that
// any words at all, most of them pointers into the same few pages, which change all the time. Who
// attaches reads thread states, frames, code objects and strings that are none. Argument: a seed. Ends on
// SIGTERM.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORDS 4096 // of eight pages

uint64_t _PyRuntime[WORDS] __attribute__((aligned(4096)));
uint64_t PyCode_Type[64];
#ifdef PY_HEXVERSION
const unsigned long Py_Version = PY_HEXVERSION; // from 3.11 on
#endif
#ifdef PY_OLDER // by which 3.8 to 3.10 are told apart
void PY_OLDER(void);
void PY_OLDER(void)
{
}
#endif

static volatile sig_atomic_t is_told; // to end
static volatile uint64_t sink;
static uint32_t tids[3];
static pthread_t threads[3];

static void end(int sig)
{
	is_told = sig;
}

void _PyEval_EvalFrameDefault(void);
void __attribute__((noinline)) _PyEval_EvalFrameDefault(void)
{
	for (unsigned i = 0; i < 100000; i++)
		sink += i;
}

static void *spin(void *arg)
{
	*(uint32_t *)arg = (uint32_t)syscall(SYS_gettid);
	while (!is_told)
		_PyEval_EvalFrameDefault();
	return NULL;
}

static void *nap(void *arg)
{
	*(uint32_t *)arg = (uint32_t)syscall(SYS_gettid);
	while (!is_told)
		usleep(3000);
	return NULL;
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

// A pointer into these pages, a small number, a thread's id or address, the type of code objects, or anything.
static uint64_t lie(uint64_t *random)
{
	uint64_t r = next(random), kind = r % 16;
	if (kind < 9)
		return (uint64_t)_PyRuntime + (r >> 8) % (WORDS * 8 - 64) / 8 * 8;
	if (kind < 11)
		return (r >> 8) % 4096;
	if (kind < 12)
		return tids[(r >> 8) % 3];
	if (kind < 13)
		return (uint64_t)threads[(r >> 8) % 3];
	return kind < 15 ? (uint64_t)PyCode_Type : r;
}

int main(int argc, char **argv)
{
	uint64_t random = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
	signal(SIGTERM, end);
	alarm(600); // if nobody tells
	pthread_create(&threads[0], NULL, spin, &tids[0]);
	pthread_create(&threads[1], NULL, nap, &tids[1]);
	threads[2] = pthread_self();
	tids[2] = (uint32_t)syscall(SYS_gettid);
	unsigned first = 0;
#ifdef PY_OFFSETS // 3.13 and later say where everything is, and lie in that, too
	memcpy(_PyRuntime, "xdebugpy", 8);
	_PyRuntime[1] = PY_HEXVERSION;
	for (unsigned i = 2; i < 128; i++)
		_PyRuntime[i] = next(&random) % 512;
	first = 128;
#endif
	puts("lying");
	fflush(stdout);
	while (!is_told)
		for (unsigned i = 0; i < 512; i++)
			((volatile uint64_t *)_PyRuntime)[first + next(&random) % (WORDS - first)] = lie(&random);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	puts("done");
	return 0;
}
