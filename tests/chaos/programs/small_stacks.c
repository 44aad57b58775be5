/* Stacks that are small, foreign, or end where a mapping ends.
 *
 * chaos: case threads threads
 * chaos: case fibers fibers
 * chaos: case alternate4k alternate 4096
 * chaos: case alternate8k alternate 8192
 * chaos: case edge edge
 * chaos: case programs programs
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

__attribute__((noinline)) static long spin(long n)
{
	volatile long x = 0;
	for (long i = 0; i < n; i++)
		x += i & 3;
	return x;
}

static void *work(void *arg)
{
	return (void *)spin((long)arg);
}

static long by_threads(long n)
{
	long total = 0;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	for (long i = 0; i < n; i++) {
		pthread_t threads[4];
		pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + (size_t)(i % 4) * 4096);
		for (int k = 0; k < 4; k++)
			if (pthread_create(&threads[k], &attr, work, (void *)300000L))
				abort();
		for (int k = 0; k < 4; k++) {
			void *got;
			pthread_join(threads[k], &got);
			total += (long)got;
		}
	}
	return total;
}

static ucontext_t main_context, fiber_context;
static long fiber_sum;

static void fiber(void)
{
	for (int i = 0; i < 3; i++) {
		fiber_sum += spin(20000);
		swapcontext(&fiber_context, &main_context);
	}
}

/* Each has a mapping of its own with nothing behind it, which is gone when the fiber is. */
static long by_fibers(long n)
{
	for (long i = 0; i < n; i++) {
		size_t size = (size_t)(4 + i % 4) * 4096;
		char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (stack == MAP_FAILED)
			abort();
		getcontext(&fiber_context);
		fiber_context.uc_stack.ss_sp = stack;
		fiber_context.uc_stack.ss_size = size;
		fiber_context.uc_link = &main_context;
		makecontext(&fiber_context, fiber, 0);
		for (int k = 0; k < 4; k++)
			swapcontext(&main_context, &fiber_context);
		munmap(stack, size);
	}
	return fiber_sum;
}

static long handled;

static void on_stack(int sig)
{
	(void)sig;
	handled += spin(300000) > 0;
}

static long by_alternate(long n, size_t size)
{
	char *at = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(at, 4096, PROT_NONE);
	stack_t stack = { .ss_sp = at + 4096, .ss_size = size };
	if (at == MAP_FAILED || sigaltstack(&stack, NULL))
		exit(77); /* the kernel wants more on this machine */
	struct sigaction action = { .sa_handler = on_stack, .sa_flags = SA_ONSTACK };
	sigaction(SIGUSR1, &action, NULL);
	for (long i = 0; i < n; i++)
		raise(SIGUSR1);
	return handled;
}

/* The stack pointer stands at the very end of a mapping: above it there is nothing to read. */
static long by_edge(long n)
{
#if defined(__x86_64__)
	size_t size = 64 * 4096;
	char *at = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || mprotect(at + size, 4096, PROT_NONE))
		abort();
	for (long i = 0; i < n; i++) {
		char *top = at + size;
		long left = 2000000;
		__asm__ volatile("mov %%rsp, %%r12\n\tmov %%rbp, %%r13\n\tmov %0, %%rsp\n\tmov %0, %%rbp\n\t"
				 "1: dec %1\n\tjnz 1b\n\t"
				 "mov %%r13, %%rbp\n\tmov %%r12, %%rsp\n\t"
				 : "+a"(top), "+c"(left)
				 :
				 : "r12", "r13", "memory", "cc");
	}
	return n;
#else
	(void)n;
	exit(77);
#endif
}

/* Programs that a thread with the least stack starts, in an environment of its own that is larger than that. */
static char *variables[2001];

static void *start_program(void *arg)
{
	char *argv[] = { "true", NULL };
	long kind = (long)arg, ended = -1;
	pid_t pid = 0;
	if (kind == 0 && posix_spawnp(&pid, "true", NULL, NULL, argv, variables) != 0)
		return (void *)-1L;
	if (kind == 1)
		pid = fork();
	else if (kind == 2)
		pid = vfork();
	if (pid == 0) {
		execvpe("true", argv, variables);
		_exit(99);
	}
	int status;
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		ended = WEXITSTATUS(status);
	return (void *)ended;
}

static long by_programs(long n)
{
	long total = 0;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN);
	for (int i = 0; i < 2000; i++) {
		variables[i] = malloc(20);
		snprintf(variables[i], 20, "V%d=%d", i, i);
	}
	for (long i = 0; i < n; i++) {
		pthread_t thread;
		void *got;
		if (pthread_create(&thread, &attr, start_program, (void *)(i % 3)))
			abort();
		pthread_join(thread, &got);
		total += (long)got;
	}
	return total;
}

int main(int argc, char **argv)
{
	double scale = atof(argc > 1 ? argv[1] : "1");
	const char *kind = argc > 2 ? argv[2] : "threads";
	long got;
	if (strcmp(kind, "threads") == 0)
		got = by_threads((long)(500 * scale) + 1);
	else if (strcmp(kind, "fibers") == 0)
		got = by_fibers((long)(12000 * scale) + 1);
	else if (strcmp(kind, "alternate") == 0)
		got = by_alternate((long)(2000 * scale) + 1, (size_t)atol(argv[3]));
	else if (strcmp(kind, "programs") == 0)
		got = by_programs((long)(40 * scale) + 10);
	else
		got = by_edge((long)(500 * scale) + 1);
	printf("%s %ld\n", kind, got);
	return 0;
}
