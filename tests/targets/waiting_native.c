// Calls that end in a sleep, for a library that is compiled in several ways: with frame pointers, without, with and
// without unwind tables, with a frame whose size is known at run time only, by pointer, and inside a signal handler.
#include <alloca.h>
#include <signal.h>
#include <string.h>
#include <time.h>

static volatile int sink;

static void rest(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	sink += nanosleep(&t, NULL);
}

__attribute__((noinline)) int wn_inner(int ms)
{
	char *room = alloca((size_t)ms % 100 + 16);
	memset(room, 1, 16);
	sink += room[3];
	rest(ms);
	return sink += room[5];
}

__attribute__((noinline)) int wn_middle(int (*called)(int), int ms)
{
	return called(ms) + (sink += 1);
}

__attribute__((noinline)) int wn_outer(int ms)
{
	return wn_middle(wn_inner, ms) + (sink += 1);
}

static void wn_handler(int signal_number)
{
	(void)signal_number;
	rest(200);
	sink++;
}

__attribute__((noinline)) int wn_raise(int ignored)
{
	signal(SIGUSR1, wn_handler);
	raise(SIGUSR1);
	return ignored + (sink += 1);
}
