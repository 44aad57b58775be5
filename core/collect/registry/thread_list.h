// SPDX-License-Identifier: Apache-2.0
// The threads of one process, as the kernel lists them in /proc/PID/task, each with what its user
// keeps of it. The ticker and the observer of threads that wait have a list each: they run in
// threads of their own, and neither is to wait for the other.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a user keeps of a thread begins with this.
struct fm_listed_thread {
	uint32_t tid;    // 0 = it is gone, and another may have its number already
	bool was_listed; // the last time
};

struct fm_thread_list {
	int task_fd;      // -1: it cannot be opened
	size_t n, cap;    // threads
	size_t size;      // bytes of what is kept of one
	uint8_t *items;   // n of them, in the kernel's order as far as they did not change
	bool is_stale;    // one is known to be gone
	uint64_t n_links; // new threads show in the link count of the folder
	uint64_t listed_ns;
	uint64_t same_ns; // when the link count last was that of the last listing: who came or went did so since
};

struct fm_thread_list_user {
	void *ctx;
	void (*came)(void *ctx, void *thread); // all but its tid is zero
	// A listing leaves out threads now and then when others come and go meanwhile: true when one
	// that it left out is there. NULL = what is left out is gone.
	bool (*is_there)(void *ctx, void *thread);
	void (*went)(void *ctx, void *thread);
};

void fm_thread_list_open(struct fm_thread_list *ret, uint32_t pid, size_t size);
void fm_thread_list_close(struct fm_thread_list *list); // without a word to its user

// Lists them anew if their number has changed or one is gone, but not before the last listing is
// min_age_ns old; and if it is older than max_age_ns, as one that replaced another leaves the number
// as it was. False: the process is gone.
bool fm_thread_list_refresh(struct fm_thread_list *list, uint64_t now_ns, uint64_t min_age_ns, uint64_t max_age_ns,
			    const struct fm_thread_list_user *user);

static inline void *fm_thread_list_at(const struct fm_thread_list *list, size_t i)
{
	return list->items + i * list->size;
}
