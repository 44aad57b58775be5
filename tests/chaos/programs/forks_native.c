/* Children of every kind, made while other threads allocate and fork, too.
 *
 * chaos: case fork fork
 * chaos: case vfork vfork
 * chaos: case spawn spawn
 */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const char *kind;
static _Atomic int running = 1;

__attribute__((noinline)) static long spin(long n)
{
	volatile long x = 0;
	for (long i = 0; i < n; i++)
		x += i & 1;
	return x;
}

static pid_t child(int status)
{
	pid_t pid;
	if (strcmp(kind, "fork") == 0) {
		pid = fork();
		if (pid == 0) {
			void *kept = malloc(5000);
			spin(20000);
			free(kept);
			_exit(status);
		}
	} else if (strcmp(kind, "vfork") == 0) {
		pid = vfork();
		if (pid == 0)
			_exit(status);
	} else {
		char text[16];
		snprintf(text, sizeof text, "exit %d", status);
		char *argv[] = { "sh", "-c", text, NULL };
		if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ))
			abort();
	}
	return pid;
}

static long children(long n)
{
	long total = 0;
	for (long i = 0; i < n; i++) {
		int status;
		pid_t pid = child((int)(i % 7));
		spin(20000);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			abort();
		total += status >> 8;
	}
	return total;
}

static void *allocate(void *arg)
{
	(void)arg;
	while (atomic_load(&running)) {
		void *kept[50];
		for (int i = 0; i < 50; i++)
			kept[i] = malloc(1500 + (size_t)i * 40);
		for (int i = 0; i < 50; i++)
			free(kept[i]);
		spin(5000);
	}
	return NULL;
}

static void *fork_too(void *arg)
{
	return (void *)children((long)arg);
}

int main(int argc, char **argv)
{
	double scale = atof(argc > 1 ? argv[1] : "1");
	kind = argc > 2 ? argv[2] : "fork";
	long n = (long)((strcmp(kind, "spawn") == 0 ? 100 : 400) * scale) + 1;
	pthread_t worker, forker;
	void *got;
	pthread_create(&worker, NULL, allocate, NULL);
	pthread_create(&forker, NULL, fork_too, (void *)n);
	long total = children(n);
	pthread_join(forker, &got);
	atomic_store(&running, 0);
	pthread_join(worker, NULL);
	printf("%s %ld\n", kind, total + (long)got);
	return 0;
}
