// SPDX-License-Identifier: Apache-2.0
#include "collect/process/proc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

void fm_process_all(void (*each)(void *ctx, uint32_t pid), void *ctx)
{
	DIR *dir = opendir("/proc");
	for (struct dirent *e; dir && (e = readdir(dir));) {
		uint32_t pid = (uint32_t)strtoul(e->d_name, NULL, 10);
		if (pid)
			each(ctx, pid);
	}
	if (dir)
		closedir(dir);
}

struct search {
	uint32_t parent;
	void (*each)(void *ctx, uint32_t child);
	void *ctx;
};

static void take_if_child(void *ctx, uint32_t pid)
{
	const struct search *s = ctx;
	if (fm_process_parent(pid) == s->parent)
		s->each(s->ctx, pid);
}

// The children of one thread. False: this kernel does not tell (no CONFIG_PROC_CHILDREN).
static bool take_children(uint32_t pid, const char *tid, const struct search *s)
{
	char path[64];
	unsigned child;
	snprintf(path, sizeof(path), "/proc/%u/task/%s/children", pid, tid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fscanf(file, "%u", &child) == 1)
		s->each(s->ctx, child);
	return file != NULL;
}

void fm_process_children(uint32_t pid, void (*each)(void *ctx, uint32_t child), void *ctx)
{
	struct search s = { pid, each, ctx };
	char path[32], first[16];
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	snprintf(first, sizeof(first), "%u", pid);
	if (!take_children(pid, first, &s)) {
		if (access(path, F_OK) == 0)
			fm_process_all(take_if_child, &s);
		return;
	}
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));)
		if (e->d_name[0] != '.' && strcmp(e->d_name, first))
			take_children(pid, e->d_name, &s);
	if (dir)
		closedir(dir);
}
