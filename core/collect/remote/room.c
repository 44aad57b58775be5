// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/room.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/process/memory.h"
#include "collect/process/proc.h"
#include "collect/remote/parts.h"
#include "collect/remote/pending.h"

// Compiling and running the script takes 7 calls in each other; 64 KiB of stack were not enough for
// its compiler on 3.14, 128 were.
#define MIN_CALLS 60
#define MIN_STACK_BYTES (160u << 10)

// ---- stacks ----

// The main thread's stack grows, down to the limit that it had when the program began. prlimit() tells
// it only of processes that have our user, unless we may change limits, too.
static uint64_t lowest(const struct fm_remote_stacks *s, const struct fm_process_map *map)
{
	char text[4096];
	unsigned long long bytes = ULLONG_MAX; // "unlimited"
	if (strcmp(map->path, "[stack]") != 0)
		return map->start;
	fm_process_read_proc(s->pid, "limits", text, sizeof(text));
	const char *line = strstr(text, "\nMax stack size");
	if (!line)
		return map->start;
	sscanf(line, "\nMax stack size %llu", &bytes);
	return FM_MIN(map->end - FM_MIN((uint64_t)bytes, map->end), map->start);
}

static void note_range(void *ctx, const struct fm_process_map *map)
{
	struct fm_remote_stacks *s = ctx;
	struct fm_remote_range range = { lowest(s, map), map->end };
	if (map->is_writable)
		fm_vec_push(&s->ranges, range);
}

void fm_remote_stacks_read(struct fm_remote_stacks *s, uint32_t pid)
{
	s->pid = pid;
	s->ranges.n = 0;
	fm_process_maps(pid, note_range, s);
}

void fm_remote_stacks_deinit(struct fm_remote_stacks *s)
{
	fm_vec_deinit(&s->ranges);
}

bool fm_remote_stacks_has_room(const struct fm_remote_stacks *s, uint64_t sp)
{
	for (size_t i = 0; i < s->ranges.n; i++)
		if (s->ranges.items[i].start <= sp && sp < s->ranges.items[i].end)
			return sp - s->ranges.items[i].start >= MIN_STACK_BYTES;
	return false;
}

// ---- depth ----

struct look {
	struct fm_remote *r;
	const struct fm_remote_pending *p;
	uint64_t main_thread; // 0: any thread may run it
	uint32_t limit;       // of calls; 0: the state has what is left
};

static bool has_depth(void *ctx, uint64_t state)
{
	struct look *look = ctx;
	struct fm_remote_memory *memory = look->r->memory;
	const struct fm_py_pending *at = &look->p->at;
	uint32_t calls, c_calls = MIN_CALLS;
	uint64_t thread;
	if (look->main_thread &&
	    (!fm_remote_u64(memory, state + look->r->python.row.ts_thread_id, &thread) || thread != look->main_thread))
		return true;
	if (!fm_remote_u32(memory, state + at->recursion, &calls) ||
	    (at->c_recursion && !fm_remote_u32(memory, state + at->c_recursion, &c_calls)))
		return false;
	int64_t left = look->limit ? (int64_t)look->limit - (int32_t)calls : (int32_t)calls;
	return left >= MIN_CALLS && (int32_t)c_calls >= MIN_CALLS;
}

bool fm_remote_has_depth(struct fm_remote *r, const struct fm_remote_pending *p)
{
	struct look look = { .r = r, .p = p };
	const struct fm_py_pending *at = &p->at;
	uint64_t holder = at->is_in_runtime ? r->python.runtime : fm_remote_main_interpreter(r);
	if ((at->is_for_main_thread &&
	     !fm_remote_u64(r->memory, r->python.runtime + at->runtime_main_thread, &look.main_thread)) ||
	    (at->recursion_limit && !fm_remote_u32(r->memory, holder + at->recursion_limit, &look.limit)))
		return false;
	return fm_remote_each_state(r, has_depth, &look);
}

// ---- audit hooks ----

// Those of sys.addaudithook() are in a list, those of C in a chain of {next, function, argument}.
// No release promises where they are: what is neither is not taken for one.
bool fm_remote_has_audit_hooks(struct fm_remote *r, const struct fm_remote_pending *p)
{
	uint64_t list = 0, type = 0, chain = 0, function = 0;
	if (getenv("FATHOM_AUDIT_HOOKS"))
		return false;
	if (fm_remote_u64(r->memory, fm_remote_main_interpreter(r) + p->at.audit_hooks, &list) && list &&
	    p->list_type && fm_remote_u64(r->memory, list + r->python.row.object_type, &type) && type == p->list_type)
		return true;
	return fm_remote_u64(r->memory, r->python.runtime + p->at.runtime_audit_hooks, &chain) && chain &&
	       fm_remote_u64(r->memory, chain + sizeof(uint64_t), &function) &&
	       fm_remote_images_is_code(r->images, function);
}
