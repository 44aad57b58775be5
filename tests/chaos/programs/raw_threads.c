/* Threads and processes by a bare clone(): with no thread pointer, with their parent's, in its memory; and a thread
 * whose pointer leads somewhere else for a while, while a timer's handler runs in it.
 *
 * chaos: case none threads none
 * chaos: case shared threads shared
 * chaos: case processes processes
 * chaos: case pointer pointer
 */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
int main(void)
{
	return 77;
}
#else
#include <asm/prctl.h>

#define BARE __attribute__((noinline, optimize("no-stack-protector"))) /* no thread-local variable */
#define N 4
#define STACK 65536

static volatile int tids[N], n_alarms;
static char *stacks[N];

BARE static long work(void)
{
	volatile long x = 0;
	for (long i = 0; i < 3000000; i++)
		x += i & 3;
	return x;
}

BARE static long call2(long nr, long a, long b)
{
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return ret;
}

BARE static void on_alarm(int sig)
{
	n_alarms += sig == SIGALRM;
}

/* Who is born here works and ends: on a stack of its own, by system calls alone. */
BARE static long start(unsigned long flags, void *stack, volatile int *tid)
{
	long ret;
	register long r10 __asm__("r10") = (long)tid;
	register long r8 __asm__("r8") = 0;
	__asm__ volatile("syscall\n"
			 "test %%rax, %%rax\n"
			 "jnz 1f\n"
			 "xor %%ebp, %%ebp\n"
			 "call *%[work]\n"
			 "mov %[exit], %%eax\n"
			 "xor %%edi, %%edi\n"
			 "syscall\n"
			 "hlt\n"
			 "1:\n"
			 : "=a"(ret)
			 : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(tid), "r"(r10),
			   "r"(r8), [work] "b"(work), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
	return ret;
}

static int tasks(unsigned long flags)
{
	for (int i = 0; i < N; i++) {
		tids[i] = 1;
		if (start(flags, stacks[i] + STACK, &tids[i]) < 0)
			return 1;
	}
	work();
	for (int i = 0; i < N; i++) {
		int status = 0, seen;
		if (flags & CLONE_THREAD)
			while ((seen = tids[i]) != 0)
				syscall(SYS_futex, &tids[i], FUTEX_WAIT, seen, NULL, NULL, 0);
		else if (wait(&status) < 0 || status)
			return 1;
	}
	return 0;
}

static int elsewhere(unsigned round)
{
	static unsigned long other[512];
	unsigned long own = 0, to[] = { 0, (unsigned long)&other[256], 1ul << 40 };
	if (syscall(SYS_arch_prctl, ARCH_GET_FS, &own) != 0)
		return 1;
	call2(SYS_arch_prctl, ARCH_SET_FS, (long)to[round % 3]);
	work();
	call2(SYS_arch_prctl, ARCH_SET_FS, (long)own);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = (int)(20 * atof(argv[1])) + 2, bad = 0;
	unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES;
	if (strcmp(argv[2], "threads") == 0)
		flags |= CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	else
		flags |= SIGCHLD;
	if (argc > 3 && strcmp(argv[3], "none") == 0)
		flags |= CLONE_SETTLS;
	if (strcmp(argv[2], "pointer") == 0) {
		struct sigaction act = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
		struct itimerval often = { { 0, 700 }, { 0, 700 } };
		sigaction(SIGALRM, &act, NULL);
		setitimer(ITIMER_REAL, &often, NULL);
	}
	for (int i = 0; i < N; i++)
		stacks[i] = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < rounds; i++)
		bad += strcmp(argv[2], "pointer") == 0 ? elsewhere((unsigned)i) : tasks(flags);
	printf("%d\n", bad);
	return 0;
}
#endif
