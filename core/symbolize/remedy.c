// SPDX-License-Identifier: Apache-2.0
#include "symbolize/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "image/debug_file.h"
#include "symbolize/cache.h"

#define DPKG_NS 400000000u // for all libraries of a report: people wait for it
#define DPKG_STATUS "/var/lib/dpkg/status"

static bool has(struct fm_str path, const char *part)
{
	return memmem(path.p, path.len, part, strlen(part));
}

static bool begins(struct fm_str path, const char *part)
{
	return path.len >= strlen(part) && !memcmp(path.p, part, strlen(part));
}

// The first line that the program prints, or "". It is ended when it takes longer than the
// deadline.
static void first_line(char *const argv[], uint64_t deadline_ns, char *ret, size_t cap)
{
	int ends[2];
	ret[0] = 0;
	if (pipe2(ends, O_CLOEXEC))
		return;
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, STDIN_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(ends[1]);
	size_t len = 0;
	while (pid > 0 && len + 1 < cap) {
		uint64_t now_ns = fm_now_ns();
		struct pollfd p = { .fd = ends[0], .events = POLLIN };
		int ready = now_ns < deadline_ns ? poll(&p, 1, (int)((deadline_ns - now_ns) / 1000000 + 1)) : 0;
		ssize_t n = ready > 0 ? read(ends[0], ret + len, cap - 1 - len) : -1;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	ret[len] = 0;
	ret[strcspn(ret, "\n")] = 0;
	close(ends[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
}

// What dpkg said, until a package is installed or removed: it reads the lists of all packages for an
// answer, which takes longer than the rest of a report. An image without code has it as its link.
static struct fm_cache_key key_of_answer(struct fm_str path)
{
	struct fm_cache_key key = { "" };
	struct stat st;
	if (stat(DPKG_STATUS, &st))
		return key;
	uint64_t facts[] = { fm_hash_bytes(path.p, path.len), (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
			     (uint64_t)st.st_mtim.tv_nsec, (uint64_t)st.st_ino };
	snprintf(key.name, sizeof(key.name), "file-%016" PRIx64, fm_checksum_xxh64(facts, sizeof(facts), 1));
	return key;
}

static bool load_answer(const struct fm_cache_key *key, char *ret, size_t cap)
{
	struct fm_chains answer;
	if (fm_cache_load(key, &answer))
		return false;
	snprintf(ret, cap, "%.*s", (int)answer.facts.debug_link.len, answer.facts.debug_link.p);
	fm_chains_deinit(&answer);
	return true;
}

static void save_answer(const struct fm_cache_key *key, const char *package)
{
	struct fm_chains answer;
	fm_chains_init(&answer);
	answer.facts.debug_link = fm_str_of(package);
	fm_cache_save(key, &answer);
	fm_chains_deinit(&answer);
}

// "libc6" for /lib/x86_64-linux-gnu/libc.so.6. dpkg knows files by the path they were packed with:
// /usr/lib/... may be /lib/... there.
static void find_package(struct fm_str path, char *ret, size_t cap)
{
	static uint64_t left_ns = DPKG_NS;
	ret[0] = 0;
	char whole[4096], line[4096];
	snprintf(whole, sizeof(whole), "%.*s", (int)path.len, path.p);
	if (access(DPKG_STATUS, R_OK) || access(whole, F_OK)) // a file of another machine is in no package here
		return;
	struct fm_cache_key key = key_of_answer(path);
	if (load_answer(&key, ret, cap))
		return;
	uint64_t start_ns = fm_now_ns();
	for (unsigned skip = 0; skip <= 4 && !ret[0] && left_ns; skip += 4) {
		if (skip && !begins(path, "/usr/"))
			break;
		snprintf(whole, sizeof(whole), "%.*s", (int)(path.len - skip), path.p + skip);
		char *argv[] = { "dpkg-query", "-S", whole, NULL };
		first_line(argv, start_ns + left_ns, line, sizeof(line));
		char *end = strpbrk(line, ":,"); // "libc6:amd64: /lib/...", "a, b: /path"
		if (end && end < line + 200) {
			*end = 0;
			snprintf(ret, cap, "%s", line);
		}
	}
	uint64_t used_ns = fm_now_ns() - start_ns;
	left_ns = used_ns < left_ns ? left_ns - used_ns : 0;
	if (ret[0] || left_ns)
		save_answer(&key, ret);
}

// The folder below site-packages, without what comes after it: the package's import name.
static struct fm_str wheel_of(struct fm_str path)
{
	struct fm_str folder, below;
	if (!fm_distribution_split(path, &folder, &below))
		return (struct fm_str){ "", 0 };
	uint32_t n = 0;
	while (n < below.len && below.p[n] != '/' && below.p[n] != '.')
		n++;
	return (struct fm_str){ below.p, n };
}

struct fm_str fm_remedy(struct fm_arena *arena, struct fm_str path)
{
	char text[512], package[256] = "";
	struct fm_str wheel = wheel_of(path);
	if (wheel.len) {
		if (!fm_distribution_of(path, package, sizeof(package)))
			snprintf(package, sizeof(package), "%.*s", (int)FM_MIN(wheel.len, 100u), wheel.p);
		// auditwheel puts foreign libraries into <name>.libs/
		snprintf(text, sizeof(text),
			 "wheels are stripped; build the package with debug information: CFLAGS=-g CXXFLAGS=-g pip "
			 "install --no-binary %.100s %.100s",
			 package, package);
	} else if ((begins(path, "/usr/") && !begins(path, "/usr/local/")) || begins(path, "/lib")) {
		find_package(path, package, sizeof(package));
		if (!strcmp(package, "libc6"))
			snprintf(text, sizeof(text), "install libc6-dbg");
		else if (package[0])
			snprintf(text, sizeof(text), "install %s-dbgsym%s", package,
				 fm_debuginfod_is_wanted()
					 ? ""
					 : ", or set DEBUGINFOD_URLS=https://debuginfod.elfutils.org to fetch debug "
					   "files");
		else
			snprintf(text, sizeof(text), "%s",
				 fm_debuginfod_is_wanted()
					 ? "the servers of DEBUGINFOD_URLS have no debug file for it"
					 : "install its debug package, or set "
					   "DEBUGINFOD_URLS=https://debuginfod.elfutils.org to fetch debug files");
	} else if (has(path, "[vdso]") || begins(path, "linux-vdso") || !path.len) {
		snprintf(text, sizeof(text), "part of the kernel; its debug package has the lines");
	} else if (has(path, "[jit]")) {
		snprintf(text, sizeof(text),
			 "ask its compiler for debug information, such as @njit(debug=True) of numba");
	} else {
		snprintf(text, sizeof(text), "compile it with -g and do not strip it");
	}
	return (struct fm_str){ fm_arena_strdup(arena, text, strlen(text)), (uint32_t)strlen(text) };
}
