// SPDX-License-Identifier: Apache-2.0
#include "collect/registry/thread_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "collect/process/machine.h"
#include "collect/process/memory.h"

void fm_thread_list_open(struct fm_thread_list *ret, uint32_t pid, size_t size)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	*ret = (struct fm_thread_list){ .task_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), .size = size };
	if (ret->task_fd < 0)
		fm_descriptors_note(errno);
}

void fm_thread_list_close(struct fm_thread_list *list)
{
	free(list->items);
	if (list->task_fd >= 0)
		close(list->task_fd);
	*list = (struct fm_thread_list){ .task_fd = -1 };
}

struct listing {
	struct fm_thread_list *list;
	const struct fm_thread_list_user *user;
	size_t next; // the kernel lists threads in the order of the last time, so the search begins here
};

static void *add(struct fm_thread_list *list)
{
	if (list->n == list->cap) {
		list->cap = FM_MAX(2 * list->cap, (size_t)16);
		list->items = fm_realloc_array(list->items, list->cap, list->size);
	}
	return memset(fm_thread_list_at(list, list->n++), 0, list->size);
}

static void note(void *ctx, uint32_t tid)
{
	struct listing *l = ctx;
	struct fm_thread_list *list = l->list;
	for (size_t i = 0; i < list->n; i++) {
		size_t at = (l->next + i) % list->n;
		struct fm_listed_thread *t = fm_thread_list_at(list, at);
		if (t->tid == tid) {
			t->was_listed = true;
			l->next = at + 1;
			return;
		}
	}
	struct fm_listed_thread *t = add(list);
	*t = (struct fm_listed_thread){ tid, true };
	l->user->came(l->user->ctx, t);
}

static void drop_gone(struct fm_thread_list *list, const struct fm_thread_list_user *user)
{
	size_t kept = 0;
	for (size_t i = 0; i < list->n; i++) {
		struct fm_listed_thread *t = fm_thread_list_at(list, i);
		if (t->was_listed || (t->tid && user->is_there && user->is_there(user->ctx, t)))
			memmove(fm_thread_list_at(list, kept++), t, list->size);
		else
			user->went(user->ctx, t);
	}
	list->n = kept;
}

bool fm_thread_list_refresh(struct fm_thread_list *list, uint64_t now_ns, uint64_t min_age_ns, uint64_t max_age_ns,
			    const struct fm_thread_list_user *user)
{
	struct stat st;
	if (fstat(list->task_fd, &st) != 0)
		return false;
	bool has_changed = st.st_nlink != list->n_links || list->is_stale;
	if (!has_changed)
		list->same_ns = now_ns;
	if (now_ns - list->listed_ns <= (has_changed ? min_age_ns : max_age_ns) && list->listed_ns)
		return true;
	list->n_links = st.st_nlink;
	list->is_stale = false;
	list->listed_ns = list->same_ns = now_ns;
	for (size_t i = 0; i < list->n; i++)
		((struct fm_listed_thread *)fm_thread_list_at(list, i))->was_listed = false;
	if (fm_process_threads(list->task_fd, note, &(struct listing){ .list = list, .user = user }))
		drop_gone(list, user);
	return true;
}
