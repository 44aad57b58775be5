/* Programs that catch their own faults and go on, as collectors, virtual machines and databases do. Each fault is
 * counted.
 *
 * chaos: limited
 * chaos: case jump jump
 * chaos: case edit edit
 * chaos: case repair repair
 * chaos: case bus bus
 * chaos: case overflow overflow
 * chaos: case threads threads
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096 };
static __thread sigjmp_buf back;
static __thread long faults, strays;
static __thread char *guarded;
static const char *kind;

__attribute__((noinline)) static long spin(long n)
{
	volatile long x = 0;
	for (long i = 0; i < n; i++)
		x += i & 1;
	return x;
}

/* The load that may fault has its address and that of what follows known, as with recoverable loads everywhere. */
#if defined(__x86_64__)
extern char load_at[], load_after[];
__asm__(".text\n.globl load\n.type load,@function\nload:\n.cfi_startproc\nload_at: movl (%rdi), %eax\nret\nload_after: "
	"movl $-1, "
	"%eax\nret\n.cfi_endproc\n.size load,.-load\n");
extern int load(const void *at);
#endif

static void handle(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	char *at = info->si_addr;
	if (guarded && (at < guarded || at >= guarded + PAGE))
		strays++;
	faults++;
	spin(20000);
	if (strcmp(kind, "repair") == 0) {
		mprotect(guarded, PAGE, PROT_READ | PROT_WRITE);
		return;
	}
#if defined(__x86_64__)
	ucontext_t *uc = context;
	if (strcmp(kind, "edit") == 0) {
		if (uc->uc_mcontext.gregs[REG_RIP] == (greg_t)(uintptr_t)load_at)
			uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)load_after;
		else
			_exit(9);
		return;
	}
#else
	(void)context;
#endif
	siglongjmp(back, 1);
}

static long rounds(long n)
{
	volatile long done = 0;
	guarded = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (volatile long i = 0; i < n; i++) {
		spin(20000);
		mprotect(guarded, PAGE, PROT_NONE);
		if (strcmp(kind, "edit") == 0) {
#if defined(__x86_64__)
			done += load(guarded + i % 1000) == -1;
#else
			exit(77);
#endif
		} else if (sigsetjmp(back, 1) == 0) {
			guarded[i % PAGE] = 1;
			done += strcmp(kind, "repair") == 0;
		} else {
			done++;
		}
	}
	return done + strays * 1000000;
}

static long by_bus(long n)
{
	char path[] = "bus-XXXXXX";
	int fd = mkstemp(path);
	unlink(path);
	volatile long done = 0;
	guarded = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (volatile long i = 0; i < n; i++) {
		spin(20000);
		if (sigsetjmp(back, 1) == 0)
			guarded[i % PAGE] = 1;
		else
			done++;
	}
	return done + strays * 1000000;
}

__attribute__((noinline)) static long fall(long n)
{
	volatile char room[512];
	room[n % 512] = 1;
	return fall(n + 1) + room[n % 512];
}

static long by_overflow(long n)
{
	static char room[65536];
	stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
	sigaltstack(&stack, NULL);
	volatile long done = 0;
	for (volatile long i = 0; i < n; i++) {
		if (sigsetjmp(back, 1) == 0)
			fall(0);
		else
			done++;
	}
	return done;
}

static void *in_thread(void *arg)
{
	return (void *)rounds((long)arg);
}

static long by_threads(long n)
{
	pthread_t threads[3];
	long total = 0;
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, in_thread, (void *)n);
	for (int i = 0; i < 3; i++) {
		void *got;
		pthread_join(threads[i], &got);
		total += (long)got;
	}
	return total;
}

int main(int argc, char **argv)
{
	double scale = atof(argc > 1 ? argv[1] : "1");
	kind = argc > 2 ? argv[2] : "jump";
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	long got = strcmp(kind, "bus") == 0        ? by_bus((long)(8000 * scale) + 1)
		   : strcmp(kind, "overflow") == 0 ? by_overflow((long)(1500 * scale) + 1)
		   : strcmp(kind, "threads") == 0  ? by_threads((long)(3000 * scale) + 1)
						   : rounds((long)(16000 * scale) + 1);
	printf("%s %ld\n", kind, got);
	return 0;
}
