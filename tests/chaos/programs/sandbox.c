/* A program that puts itself into a sandbox: it makes the system calls that its filter lists, and no other.
 *
 * chaos: case errno errno prctl
 * chaos: case kill kill prctl
 * chaos: case kill-syscall kill syscall
 * chaos: case trap trap prctl
 * chaos: case fork kill fork
 * chaos: case exec kill exec
 * chaos: case vfork kill vfork
 * chaos: case shell kill shell
 * chaos: case cycles kill cycles
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define N(array) (sizeof(array) / sizeof((array)[0]))

static volatile sig_atomic_t n_traps;

static void on_sys(int sig)
{
	(void)sig;
	n_traps++;
}

__attribute__((noinline)) static long spin(long n)
{
	volatile long x = 0;
	for (long i = 0; i < n; i++)
		x += i & 3;
	return x;
}

/* What this program needs from then on, and what libc may need for it. */
static int shut_in(unsigned otherwise, int by_syscall)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_write),
		ALLOW(SYS_exit_group),
		ALLOW(SYS_brk),
		ALLOW(SYS_mmap),
		ALLOW(SYS_munmap),
		ALLOW(SYS_newfstatat),
		ALLOW(SYS_fstat),
		ALLOW(SYS_clone),
		ALLOW(SYS_wait4),
		ALLOW(SYS_set_robust_list),
		ALLOW(SYS_rt_sigprocmask),
		ALLOW(SYS_gettid),
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_getrandom),
		BPF_STMT(BPF_RET | BPF_K, otherwise),
	};
	struct sock_fprog program = { N(filter), filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	if (by_syscall)
		return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// What a small program needs from its first instruction to its end, and a shell that starts it.
static int shut_in_programs(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_execve),
		ALLOW(SYS_brk),
		ALLOW(SYS_mmap),
		ALLOW(SYS_munmap),
		ALLOW(SYS_mprotect),
		ALLOW(SYS_openat),
		ALLOW(SYS_read),
		ALLOW(SYS_pread64),
		ALLOW(SYS_write),
		ALLOW(SYS_close),
		ALLOW(SYS_lseek),
		ALLOW(SYS_access),
		ALLOW(SYS_fstat),
		ALLOW(SYS_stat),
		ALLOW(SYS_newfstatat),
		ALLOW(SYS_arch_prctl),
		ALLOW(SYS_set_tid_address),
		ALLOW(SYS_set_robust_list),
		ALLOW(SYS_rseq),
		ALLOW(SYS_prlimit64),
		ALLOW(SYS_getrandom),
		ALLOW(SYS_fcntl),
		ALLOW(SYS_getpid),
		ALLOW(SYS_getppid),
		ALLOW(SYS_getuid),
		ALLOW(SYS_getgid),
		ALLOW(SYS_geteuid),
		ALLOW(SYS_getegid),
		ALLOW(SYS_getcwd),
		ALLOW(SYS_rt_sigaction),
		ALLOW(SYS_rt_sigprocmask),
		ALLOW(SYS_rt_sigreturn),
		ALLOW(SYS_clone),
		ALLOW(SYS_clone3),
		ALLOW(SYS_vfork),
		ALLOW(SYS_wait4),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { N(filter), filter };
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

// As a sandbox for other programs does: shuts itself in, and becomes one.
static void start_program(const char *how)
{
	static char *arguments[] = { "true", NULL };
	int status = 0;
	pid_t child = !strcmp(how, "vfork") ? vfork() : fork();
	if (child == 0) {
		if (shut_in_programs())
			_exit(77);
		if (!strcmp(how, "shell")) {
			status = system("true; /bin/true");
			_exit(status ? 2 : 0);
		}
		execve("/bin/true", arguments, environ);
		_exit(3);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		printf("the program ended with %d\n", status);
}

static long work(double scale)
{
	long sum = 0;
	for (int i = 0; i < 300 * scale; i++) {
		char *block = malloc(1000 + (size_t)i * 1000);
		block[0] = 1;
		sum += spin(300000) + block[0];
		free(block);
	}
	return sum;
}

int main(int argc, char **argv)
{
	double scale = atof(argv[1]);
	unsigned otherwise = !strcmp(argv[2], "errno")  ? SECCOMP_RET_ERRNO | EPERM
			     : !strcmp(argv[2], "trap") ? SECCOMP_RET_TRAP
							: SECCOMP_RET_KILL_PROCESS;
	struct sigaction act = { .sa_handler = on_sys };
	(void)argc;
	sigaction(SIGSYS, &act, NULL);
	spin((long)(20000000 * scale));
	if (!strcmp(argv[3], "exec") || !strcmp(argv[3], "vfork") || !strcmp(argv[3], "shell")) {
		for (int i = 0; i < 3; i++)
			start_program(argv[3]);
		printf("%ld\n", work(scale));
		return 0;
	}
	if (!strcmp(argv[3], "cycles")) {
		if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0)
			return 77;
		printf("%ld\n", work(scale));
		return 0;
	}
	if (shut_in(otherwise, !strcmp(argv[3], "syscall")) != 0)
		return 77;
	if (!strcmp(argv[3], "fork")) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			work(scale);
			_exit(7);
		}
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
			printf("the child ended with %d\n", status);
	}
	printf("%ld %d\n", work(scale), (int)n_traps);
	return 0;
}
