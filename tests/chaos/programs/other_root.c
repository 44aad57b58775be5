/* Programs that are started where the rest of the world is not: behind a chroot().
 *
 * chaos: case fork fork
 * chaos: case vfork vfork
 * chaos: case spawn spawn
 * chaos: case large spawn large
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char made[16][PATH_MAX];
static unsigned n_made;

static int copy(const char *from, const char *to)
{
	struct stat st;
	char path[PATH_MAX];
	snprintf(path, sizeof(path), ".%s", to);
	for (char *at = strchr(path + 2, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(path, 0755);
		*at = '/';
	}
	int in = open(from, O_RDONLY), out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	if (in < 0 || out < 0 || fstat(in, &st) != 0)
		return -1;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(out, in, NULL, (size_t)left);
		if (n <= 0)
			return -1;
		left -= n;
	}
	close(in);
	if (n_made < 16)
		strcpy(made[n_made++], path);
	return close(out);
}

/* What this program is made of, and nothing that was preloaded. */
static int copy_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	const char *name = info->dlpi_name, *file = name ? strrchr(name, '/') : NULL;
	if (file && (strncmp(file, "/libc.", 6) == 0 || strncmp(file, "/ld-linux", 9) == 0) && copy(name, name) != 0)
		*(int *)arg = -1;
	return 0;
}

static int start(const char *how, char **argv)
{
	pid_t pid;
	if (strcmp(how, "spawn") == 0) {
		int err = posix_spawn(&pid, "/program", NULL, NULL, argv, environ);
		if (err)
			return err;
	} else {
		pid = how[0] == 'v' ? vfork() : fork();
		if (pid == 0) {
			execve("/program", argv, environ);
			_exit(99);
		}
	}
	int status = 0;
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int argc, char **argv)
{
	volatile long x = 0;
	for (long i = 0; i < 2000000; i++)
		x += i & 3;
	if (strcmp(argv[2], "child") == 0)
		return 5;
	int rounds = (int)(100 * atof(argv[1])) + 1, bad = 0, ret = 0;
	char root[] = "/tmp/chaos-root-XXXXXX", *args[] = { "program", "1", "child", NULL };
	if (!mkdtemp(root) || chdir(root) != 0)
		return 77;
	dl_iterate_phdr(copy_library, &ret);
	pid_t pid = ret == 0 && copy("/proc/self/exe", "/program") == 0 ? fork() : -1;
	if (pid == 0) {
		if (chroot(".") != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(".") != 0))
			_exit(77);
		if (argc > 3) {
			static char large[20000];
			memset(large, 'x', sizeof(large) - 1);
			setenv("LARGE", large, 1);
			for (int i = 0; i < 500; i++) {
				char name[16];
				snprintf(name, sizeof(name), "V%d", i);
				setenv(name, "value", 1);
			}
		}
		for (int i = 0; i < rounds; i++)
			bad += start(argv[2], args) != 5;
		printf("%d\n", bad);
		fflush(stdout);
		_exit(0);
	}
	int status = 0;
	if (pid > 0)
		waitpid(pid, &status, 0);
	for (unsigned i = 0; i < n_made; i++) { /* each file, and the folders that are empty by then */
		unlink(made[i]);
		for (char *at; (at = strrchr(made[i], '/')) && at > made[i] + 1;) {
			*at = 0;
			rmdir(made[i]);
		}
	}
	if (chdir("/") != 0 || rmdir(root) != 0)
		printf("left\n");
	return pid < 0 ? 77 : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
