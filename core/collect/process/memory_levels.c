// SPDX-License-Identifier: Apache-2.0
#include "collect/process/memory.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"

// From so many processes on, each is looked at less often: a look is about 30 us of ours.
#define N_AT_FULL_RATE 16
// The kernel walks all page tables for PSS, holding a lock that the process wants for its own page
// faults: it may take no more than this share of the time.
#define PSS_PERIOD_NS 1000000000u
#define PSS_TIMES_COST 1000
// A level is written when it moved by 1/64, or after this long.
#define QUIET_NS 1000000000u

struct fm_levels {
	uint32_t pid;
	char root[128]; // where /proc and /sys lie: "" but in tests
	struct fm_writer *writer;
	int status_fd;
	uint64_t next_ns, next_pss_ns, written_ns;
	struct fm_memory_level last;      // as written
	struct fm_memory_level held_back; // seen after it, and much the same; time_ns 0 = none
	enum fm_cgroup_version version;
	char cgroup[768];    // folder
	char hierarchy[192]; // the folder of all groups
	char cgroup_line[512];
	uint64_t n_oom_kills; // when the group was first seen
};

static ssize_t read_text(const char *path, char *text, size_t size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
	text[n > 0 ? n : 0] = 0;
	return n;
}

// "Name:   1234 kB" of a /proc file, in bytes; 0 when it is not there.
static uint64_t field_bytes(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static bool cgroup_file(const struct fm_levels *l, const char *folder, const char *name, char *ret, size_t size)
{
	char path[sizeof(l->cgroup) + 64];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return read_text(path, ret, size) > 0;
}

static uint64_t cgroup_number(const struct fm_levels *l, const char *folder, const char *name)
{
	char text[64];
	// "max", and the largest number that pages can count, mean no limit.
	if (!cgroup_file(l, folder, name, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return 0;
	uint64_t n = strtoull(text, NULL, 10);
	return n >= (uint64_t)1 << 62 ? 0 : n;
}

static uint64_t cgroup_oom_kills(const struct fm_levels *l)
{
	char text[512];
	const char *name = l->version == FM_CGROUP_V2 ? "memory.events" : "memory.oom_control";
	if (l->version == FM_CGROUP_NONE || !cgroup_file(l, l->cgroup, name, text, sizeof(text)))
		return 0;
	const char *at = strstr(text, "oom_kill ");
	return at ? strtoull(at + strlen("oom_kill "), NULL, 10) : 0;
}

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);
	for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
		if (strcspn(at, ",") == len && !memcmp(at, word, len))
			return true;
	return false;
}

enum fm_cgroup_version fm_cgroup_of(char *text, const char **ret_folder)
{
	enum fm_cgroup_version version = FM_CGROUP_NONE;
	*ret_folder = "";
	for (char *line = text, *next; *line; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = 0;
		char *names = strchr(line, ':'), *folder = names ? strchr(names + 1, ':') : NULL;
		if (!folder)
			continue;
		*folder++ = 0;
		// "0::/a" is of the unified hierarchy. "4:cpu,memory:/a" is of an old one; where
		// both are there, memory is in the old.
		if (has_word(names + 1, "memory")) {
			*ret_folder = folder;
			return FM_CGROUP_V1;
		}
		if (names[1] == 0) {
			version = FM_CGROUP_V2;
			*ret_folder = folder;
		}
	}
	return version;
}

// Processes may be moved from group to group while they run.
static void find_cgroup(struct fm_levels *l)
{
	char path[192], text[4096];
	snprintf(path, sizeof(path), "%s/proc/%u/cgroup", l->root, l->pid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return;
	const char *found;
	enum fm_cgroup_version version = fm_cgroup_of(text, &found);
	if (version == l->version && !strcmp(found, l->cgroup_line))
		return;
	l->version = version;
	snprintf(l->cgroup_line, sizeof(l->cgroup_line), "%s", found);
	snprintf(l->hierarchy, sizeof(l->hierarchy), "%s/sys/fs/cgroup%s", l->root,
		 version == FM_CGROUP_V1 ? "/memory" : "");
	const char *probe = version == FM_CGROUP_V1 ? "memory.usage_in_bytes" : "memory.current";
	snprintf(l->cgroup, sizeof(l->cgroup), "%s%s", l->hierarchy, strcmp(found, "/") ? l->cgroup_line : "");
	char number[64];
	if (strstr(found, "/..") || !cgroup_file(l, l->cgroup, probe, number, sizeof(number))) {
		// The group lies outside of what this container shows; its own root is what limits
		// us all the same.
		snprintf(l->cgroup, sizeof(l->cgroup), "%s", l->hierarchy);
		if (!cgroup_file(l, l->cgroup, probe, number, sizeof(number)))
			l->version = FM_CGROUP_NONE;
	}
	l->n_oom_kills = cgroup_oom_kills(l);
}

// Use and limit of the group that leaves least room, of its own and those around it; without any
// limit, its own use.
static void read_cgroup(struct fm_levels *l, struct fm_memory_level *level)
{
	find_cgroup(l);
	if (l->version == FM_CGROUP_NONE)
		return;
	bool is_v1 = l->version == FM_CGROUP_V1;
	const char *use_name = is_v1 ? "memory.usage_in_bytes" : "memory.current";
	level->cgroup_bytes = cgroup_number(l, l->cgroup, use_name);
	uint64_t least_room = UINT64_MAX;
	char folder[sizeof(l->cgroup)];
	memcpy(folder, l->cgroup, sizeof(folder));
	for (;;) {
		uint64_t limit = cgroup_number(l, folder, is_v1 ? "memory.limit_in_bytes" : "memory.max");
		uint64_t use = limit ? cgroup_number(l, folder, use_name) : 0, room = limit - FM_MIN(use, limit);
		if (limit && room < least_room) {
			least_room = room;
			level->cgroup_bytes = use;
			level->cgroup_limit_bytes = limit;
		}
		char *slash = strrchr(folder, '/');
		if (!slash || strlen(folder) <= strlen(l->hierarchy))
			break;
		*slash = 0;
	}
}

// 0 when it is not time for it.
static uint64_t read_pss(struct fm_levels *l, uint64_t now_ns)
{
	if (now_ns < l->next_pss_ns)
		return 0;
	char path[192], text[2048];
	snprintf(path, sizeof(path), "%s/proc/%u/smaps_rollup", l->root, l->pid);
	uint64_t begin_ns = fm_now_ns();
	uint64_t pss_bytes = read_text(path, text, sizeof(text)) > 0 ? field_bytes(text, "\nPss:") : 0;
	uint64_t cost_ns = fm_now_ns() - begin_ns;
	l->next_pss_ns = now_ns + FM_MAX((uint64_t)PSS_PERIOD_NS, cost_ns * PSS_TIMES_COST);
	return pss_bytes;
}

struct fm_levels *fm_levels_create(uint32_t pid, uint32_t process_id, struct fm_writer *writer)
{
	return fm_levels_create_below("", pid, process_id, writer);
}

struct fm_levels *fm_levels_create_below(const char *root, uint32_t pid, uint32_t process_id, struct fm_writer *writer)
{
	struct fm_levels *l = fm_alloc(sizeof(*l));
	snprintf(l->root, sizeof(l->root), "%s", root);
	l->pid = pid;
	l->last.process_id = process_id;
	l->writer = writer;
	char path[192];
	snprintf(path, sizeof(path), "%s/proc/%u/status", l->root, pid);
	l->status_fd = open(path, O_RDONLY | O_CLOEXEC);
	find_cgroup(l);
	return l;
}

static bool has_moved(uint64_t now, uint64_t before)
{
	return (now > before ? now - before : before - now) > before / 64;
}

static void write_level(struct fm_levels *l, struct fm_memory_level level)
{
	l->written_ns = level.time_ns;
	l->last = level;
	l->held_back.time_ns = 0;
	fm_writer_memory_level(l->writer, &level);
}

void fm_levels_poll(struct fm_levels *l, uint64_t now_ns, uint32_t n_processes, struct fm_wire_exact *exact)
{
	if (now_ns < l->next_ns || l->status_fd < 0)
		return;
	l->next_ns = now_ns + (uint64_t)FM_LEVELS_PERIOD_NS * FM_MAX(1u, n_processes / N_AT_FULL_RATE);
	char text[4096];
	ssize_t n = pread(l->status_fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	struct fm_memory_level level = { .process_id = l->last.process_id, .time_ns = now_ns };
	level.rss_bytes = field_bytes(text, "\nVmRSS:");
	if (!level.rss_bytes) // gone, or a zombie
		return;
	level.rss_anon_bytes = field_bytes(text, "\nRssAnon:");
	level.rss_file_bytes = field_bytes(text, "\nRssFile:");
	level.rss_shmem_bytes = field_bytes(text, "\nRssShmem:");
	level.swap_bytes = field_bytes(text, "\nVmSwap:");
	read_cgroup(l, &level);
	level.pss_bytes = read_pss(l, now_ns);
	if (exact) {
		level.heap_bytes = exact->live_bytes; // one word: never torn
		level.heap_high_bytes = FM_MAX(atomic_exchange(&exact->high_bytes, 0), level.heap_bytes);
		if (l->held_back.time_ns) // since the level before, which is to be the one that was written
			level.heap_high_bytes = FM_MAX(level.heap_high_bytes, l->held_back.heap_high_bytes);
	}
	const struct fm_memory_level *last = &l->last;
	if (has_moved(level.rss_bytes, last->rss_bytes) || has_moved(level.swap_bytes, last->swap_bytes) ||
	    has_moved(level.heap_bytes, last->heap_bytes) || has_moved(level.heap_high_bytes, last->heap_high_bytes) ||
	    level.cgroup_limit_bytes != last->cgroup_limit_bytes || level.pss_bytes ||
	    now_ns >= l->written_ns + QUIET_NS)
		write_level(l, level);
	else
		l->held_back = level;
}

void fm_levels_end(struct fm_levels *l, int exit_signal)
{
	if (!l)
		return;
	if (l->held_back.time_ns)
		write_level(l, l->held_back);
	if (exit_signal == SIGKILL && cgroup_oom_kills(l) > l->n_oom_kills) {
		char text[160];
		snprintf(text, sizeof(text),
			 "process %u was killed by the kernel: its cgroup reached the limit of %.1f MiB", l->pid,
			 (double)l->last.cgroup_limit_bytes / (1 << 20));
		fm_writer_meta(l->writer, "out_of_memory", fm_str_of(text));
	}
	fm_levels_destroy(l);
}

void fm_levels_destroy(struct fm_levels *l)
{
	if (!l)
		return;
	if (l->status_fd >= 0)
		close(l->status_fd);
	free(l);
}
