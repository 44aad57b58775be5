/* Code that an unwinder does not expect: call frame information that is wrong, stacks that are elsewhere or change,
 * frames larger than a stack, flags and units in odd states.
 *
 * chaos: case wrong wrong
 * chaos: case contexts contexts
 * chaos: case huge huge
 * chaos: case flags flags
 * chaos: case steps steps
 */
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if !defined(__x86_64__)
int main(void)
{
	return 77;
}
#else

/* Each counts down from its first argument, and keeps its registers where no unwinder looks for them. */
__asm__(".text\n"
	".type wrong_cfa, @function\n"
	"wrong_cfa:\n"
	".cfi_startproc\n"
	".cfi_def_cfa %rdi, 8\n" /* the CFA is a counter */
	"1: dec %rdi\n"
	"jnz 1b\n"
	"ret\n"
	".cfi_endproc\n"
	".type wrong_far, @function\n"
	"wrong_far:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset 0x7ffffff0\n" /* above the stack */
	".cfi_offset %rip, -0x7ffffff0\n"
	"1: dec %rdi\n"
	"jnz 1b\n"
	"ret\n"
	".cfi_endproc\n"
	".type wrong_below, @function\n"
	"wrong_below:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset -4096\n" /* below it: the caller would be deeper */
	"1: dec %rdi\n"
	"jnz 1b\n"
	"ret\n"
	".cfi_endproc\n"
	".type wrong_loop, @function\n"
	"wrong_loop:\n"
	".cfi_startproc\n"
	".cfi_def_cfa_offset 0\n" /* its caller is itself, for ever */
	".cfi_register %rip, %rax\n"
	"lea 1f(%rip), %rax\n"
	"1: dec %rdi\n"
	"jnz 1b\n"
	"ret\n"
	".cfi_endproc\n"
	".type wrong_rbp, @function\n"
	"wrong_rbp:\n"
	".cfi_startproc\n"
	"push %rbp\n"
	".cfi_def_cfa %rbp, 16\n" /* which is no address here */
	".cfi_offset %rbp, -16\n"
	"mov $0x8000000000000001, %rbp\n"
	"1: dec %rdi\n"
	"jnz 1b\n"
	"pop %rbp\n"
	"ret\n"
	".cfi_endproc\n"
	".type no_cfi, @function\n"
	"no_cfi:\n"
	"push %rbp\n"
	"mov %rsp, %rbp\n"
	"sub $0x100000, %rsp\n" /* a megabyte, which nobody touches */
	"mov $-8, %rbp\n"
	"1: dec %rdi\n"
	"jnz 1b\n"
	"add $0x100000, %rsp\n"
	"pop %rbp\n"
	"ret\n"
	".type red_zone, @function\n"
	"red_zone:\n"
	"xor %eax, %eax\n"
	"mov %rdi, -8(%rsp)\n"
	"mov %rax, -128(%rsp)\n"
	"1: incq -128(%rsp)\n"
	"decq -8(%rsp)\n"
	"jnz 1b\n"
	"mov -128(%rsp), %rax\n"
	"ret\n"
	".type backwards, @function\n"
	"backwards:\n" /* the direction flag is set while it runs */
	"std\n"
	"1: dec %rdi\n"
	"jnz 1b\n"
	"cld\n"
	"ret\n"
	".type aligned_only, @function\n"
	"aligned_only:\n" /* alignment check is on while it runs */
	"pushfq\n"
	"orl $0x40000, (%rsp)\n"
	"popfq\n"
	"1: dec %rdi\n"
	"jnz 1b\n"
	"pushfq\n"
	"andl $0xfffbffff, (%rsp)\n"
	"popfq\n"
	"ret\n"
	".type single_steps, @function\n"
	"single_steps:\n" /* each instruction raises SIGTRAP */
	"pushfq\n"
	"orl $0x100, (%rsp)\n"
	"popfq\n"
	"1: dec %rdi\n"
	"jnz 1b\n"
	"pushfq\n"
	"andl $0xfffffeff, (%rsp)\n"
	"popfq\n"
	"nop\n"
	"ret\n");
void wrong_cfa(uint64_t), wrong_far(uint64_t), wrong_below(uint64_t), wrong_loop(uint64_t), wrong_rbp(uint64_t),
	no_cfi(uint64_t);
void backwards(uint64_t), aligned_only(uint64_t), single_steps(uint64_t);
uint64_t red_zone(uint64_t);

#define ROUND 3000000u
static double scale;

static void wrong(void)
{
	void (*const all[])(uint64_t) = { wrong_cfa, wrong_far, wrong_below, wrong_loop, wrong_rbp, no_cfi };
	for (int i = 0; i < (int)(40 * scale) + 1; i++)
		for (unsigned k = 0; k < 6; k++) {
			all[k](ROUND);
			free(malloc(300000 + k));
		}
	puts("wrong");
}

/* Contexts on stacks of their own, from the heap, a file's mapping and shared memory, that are freed while others run.
 */
#define N_CONTEXTS 8
static ucontext_t home, contexts[N_CONTEXTS];
static uint64_t total;

static void climb(int depth)
{
	volatile char room[512];
	room[0] = (char)depth;
	if (depth)
		climb(depth - 1);
	for (int i = 0; i < 2000; i++)
		total += (uint64_t)(i & room[0] & 1) + 1;
	free(malloc((size_t)(depth + 1) * 1000));
}

static void task(int me)
{
	for (int i = 0; i < 20; i++) {
		climb(me * 2);
		swapcontext(&contexts[me], &home);
	}
}

static void use_contexts(void)
{
	for (int round = 0; round < (int)(60 * scale) + 1; round++) {
		void *stacks[N_CONTEXTS];
		for (int i = 0; i < N_CONTEXTS; i++) {
			stacks[i] =
				i & 1 ? malloc(65536)
				      : mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			getcontext(&contexts[i]);
			contexts[i].uc_stack.ss_sp = stacks[i];
			contexts[i].uc_stack.ss_size = 65536;
			contexts[i].uc_link = &home;
			makecontext(&contexts[i], (void (*)(void))task, 1, i);
		}
		for (int k = 0; k < 21; k++)
			for (int i = 0; i < N_CONTEXTS; i++)
				swapcontext(&home, &contexts[i]);
		for (int i = 0; i < N_CONTEXTS; i++)
			if (i & 1)
				free(stacks[i]);
			else
				munmap(stacks[i], 65536);
	}
	printf("%llu\n", (unsigned long long)total);
}

static __attribute__((noinline)) uint64_t huge_frame(size_t bytes, int depth)
{
	volatile char *room = alloca(bytes);
	uint64_t sum = 0;
	for (size_t i = 0; i < bytes; i += 4096)
		room[i] = (char)i;
	free(malloc(200000));
	if (depth)
		sum += huge_frame(bytes, depth - 1);
	for (size_t i = 0; i < bytes; i += 64)
		sum += (uint64_t)room[i / 4096 * 4096] & 1;
	return sum + 1;
}

static void *huge_thread(void *arg)
{
	uint64_t sum = 0;
	for (int i = 0; i < (int)(40 * scale) + 1; i++)
		sum += huge_frame(1 << 20, 5) + red_zone(ROUND);
	*(uint64_t *)arg = sum;
	return NULL;
}

static void huge(void)
{
	pthread_t threads[2];
	uint64_t sums[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, huge_thread, &sums[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%llu %llu\n", (unsigned long long)sums[0], (unsigned long long)sums[1]);
}

static void flags(void)
{
	for (int i = 0; i < (int)(60 * scale) + 1; i++) {
		backwards(ROUND);
		aligned_only(ROUND);
	}
	puts("flags");
}

static volatile uint64_t n_steps;

static void on_step(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	n_steps += info->si_code == 2; /* TRAP_TRACE */
}

static void steps(void)
{
	struct sigaction act = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	sigaction(SIGTRAP, &act, NULL);
	for (int i = 0; i < (int)(10 * scale) + 1; i++)
		single_steps(10000);
	printf("%llu\n", (unsigned long long)n_steps);
}

int main(int argc, char **argv)
{
	scale = argc > 2 ? atof(argv[1]) : 1;
	const char *what = argc > 2 ? argv[2] : "";
	if (!strcmp(what, "wrong"))
		wrong();
	else if (!strcmp(what, "contexts"))
		use_contexts();
	else if (!strcmp(what, "huge"))
		huge();
	else if (!strcmp(what, "flags"))
		flags();
	else if (!strcmp(what, "steps"))
		steps();
	else
		return 2;
	return 0;
}
#endif
