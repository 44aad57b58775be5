// A child writes over all that it shares with the collector, while its parent computes. Arguments: seconds, a seed, and
// whether the child keeps away from what says that the capture is over.
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct mapping {
	uint64_t start, end, offset;
	bool is_writable;
	char path[96];
} mappings[4096];
static unsigned n_mappings;

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void find_mappings(void)
{
	char line[512], flags[8];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && n_mappings < 4096 && fgets(line, sizeof(line), maps)) {
		struct mapping *m = &mappings[n_mappings];
		char *path = strstr(line, "/memfd:fathom");
		if (path &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64, &m->start, &m->end, flags, &m->offset) == 4) {
			m->is_writable = flags[1] == 'w';
			snprintf(m->path, sizeof(m->path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, m->start,
				 m->end);
			n_mappings++;
		}
	}
	if (maps)
		fclose(maps);
}

// What must not be possible: writing what the collector published, making either file longer or shorter.
static unsigned try_harder(void)
{
	unsigned n_done = 0;
	for (unsigned i = 0; i < n_mappings; i++) {
		struct mapping *m = &mappings[i];
		if (!m->is_writable && mprotect((void *)m->start, 4096, PROT_READ | PROT_WRITE) == 0)
			n_done++;
		int fd = open(m->path, O_RDWR);
		if (fd >= 0 && (ftruncate(fd, 4096) == 0 || ftruncate(fd, (off_t)1 << 40) == 0))
			n_done++;
		if (fd >= 0 && !m->is_writable && pwrite(fd, "x", 1, 0) == 1)
			n_done++;
		if (fd >= 0)
			close(fd);
	}
	return n_done;
}

static void scribble(double seconds, uint64_t random, bool spares_end)
{
	double end_s = now_s() + seconds;
	while (now_s() < end_s) {
		for (int i = 0; i < 256; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			struct mapping *m = &mappings[random % n_mappings];
			uint64_t at = (random >> 16) % (m->end - m->start - 8) & ~7ull;
			// Most of it near the beginning, where the tables are, and of small numbers, which look like
			// good ones.
			if (random & 64)
				at %= 32768;
			if (!m->is_writable || (spares_end && at + m->offset < 8))
				continue;
			*(volatile uint64_t *)(m->start + at) =
				random & 128 ? random >> 40 : random * 0x9e3779b97f4a7c15u;
		}
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	double end_s = now_s() + 0.05;
	volatile uint64_t work = 0;
	while (now_s() < end_s) // until a sample was taken, and its slot is mapped
		work++;
	find_mappings();
	pid_t child = fork();
	if (child == 0) {
		sigset_t all;
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		unsigned n_done = try_harder();
		scribble(seconds, seed * 0x9e3779b97f4a7c15u | 1, argc > 3);
		_exit(n_done > 100 ? 100 : (int)n_done);
	}
	end_s = now_s() + seconds;
	while (now_s() < end_s)
		work++;
	int status = 0;
	waitpid(child, &status, 0);
	printf("%u mapped, forbidden things done: %d\n", n_mappings > 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 0;
}
