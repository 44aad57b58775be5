// SPDX-License-Identifier: Apache-2.0
#include "collect/registry/registry.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "collect/process/memory.h"
#include "collect/process/proc.h"

// A process that has just called exec maps nothing of ours for a moment: who was not believed is
// asked for again so often.
#define RECHECK_NS 50000000u
// Processes between one of the tree and us. Deeper ones have the memory mapped, like all others.
#define MAX_GENERATIONS 256u

enum verdict {
	UNJUDGED = 0,
	OURS = 1,
	NOT_OURS = 2,
	NOBODYS = 3, // it cannot be told
};

struct entry {
	_Atomic uint64_t judged;    // pid << 2 | enum verdict, of the last number that stood there
	_Atomic uint64_t judged_ns; // both by whoever asks first, the ticker or the recorder's thread
	bool is_entered;            // by us: what follows is ours, and the shared entry is not looked at
	struct fm_shared_process said;
};

struct fm_registry {
	struct fm_shared *shared;
	uint32_t self;
	// The shared memory, as the kernel lists it in maps.
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	_Atomic uint32_t n_refused;
	struct entry entries[FM_WIRE_N_PROCESSES];
};

// ---- whose process is it ----

struct search {
	const struct fm_registry *registry;
	bool is_found;
};

static void find_memory(void *ctx, const struct fm_process_map *map)
{
	struct search *s = ctx;
	const struct fm_registry *g = s->registry;
	s->is_found |=
		g->inode && map->inode == g->inode && map->dev_major == g->dev_major && map->dev_minor == g->dev_minor;
}

static void find_own(void *ctx, const struct fm_process_map *map)
{
	struct fm_registry *g = ctx;
	uint64_t addr = (uint64_t)(uintptr_t)g->shared->base;
	if (addr < map->start || addr >= map->end)
		return;
	g->dev_major = map->dev_major;
	g->dev_minor = map->dev_minor;
	g->inode = map->inode;
}

static bool descends_from_us(const struct fm_registry *g, uint32_t pid)
{
	for (unsigned i = 0; i < MAX_GENERATIONS && pid > 1; i++) {
		if (pid == g->self)
			return true;
		pid = fm_process_parent(pid);
	}
	return false;
}

static enum verdict judge(const struct fm_registry *g, uint32_t pid)
{
	struct search search = { .registry = g };
	if (descends_from_us(g, pid)) // the cheaper question, and nearly always the answer
		return OURS;
	// The descriptor first: a process that has not ended when its maps were read is the one that
	// they are of, and not the next of its number.
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	bool has_maps = fm_process_maps(pid, find_memory, &search);
	if (search.is_found)
		return fm_process_is_over(pidfd, pid) ? NOBODYS : OURS;
	// A process that ends while its maps are read has half of them: only one that still has some
	// afterwards has told that ours are not among them.
	struct search again = { .registry = g };
	return has_maps && fm_process_maps(pid, find_memory, &again) && !again.is_found ? NOT_OURS : NOBODYS;
}

static enum verdict verdict_of(struct fm_registry *g, struct entry *e, uint32_t pid)
{
	uint64_t judged = atomic_load_explicit(&e->judged, memory_order_relaxed);
	enum verdict before = judged >> 2 == pid ? (enum verdict)(judged & 3) : UNJUDGED;
	if (FM_LIKELY(before == OURS))
		return before;
	uint64_t now_ns = fm_now_ns();
	if (before && now_ns - atomic_load_explicit(&e->judged_ns, memory_order_relaxed) < RECHECK_NS)
		return before;
	enum verdict now = judge(g, pid);
	if (now == NOT_OURS && before != NOT_OURS)
		atomic_fetch_add_explicit(&g->n_refused, 1, memory_order_relaxed);
	atomic_store_explicit(&e->judged_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&e->judged, (uint64_t)pid << 2 | now, memory_order_relaxed);
	return now;
}

// ---- the table ----

struct fm_registry *fm_registry_create(struct fm_shared *shared)
{
	struct fm_registry *g = fm_alloc(sizeof(*g));
	g->shared = shared;
	g->self = (uint32_t)getpid();
	fm_process_maps(g->self, find_own, g);
	return g;
}

void fm_registry_destroy(struct fm_registry *g)
{
	free(g);
}

struct fm_shared *fm_registry_shared(const struct fm_registry *g)
{
	return g->shared;
}

bool fm_registry_read(struct fm_registry *g, uint32_t idx, struct fm_registered *ret)
{
	struct entry *e = &g->entries[idx];
	if (e->is_entered) {
		*ret = (struct fm_registered){ e->said, e->said.pid };
		return true;
	}
	if (!fm_shared_read_process(g->shared, idx, &ret->said))
		return false;
	enum verdict verdict = verdict_of(g, e, ret->said.pid);
	ret->pid = verdict == OURS ? ret->said.pid : FM_REGISTRY_NO_PID;
	return verdict != NOT_OURS;
}

uint32_t fm_registry_n_refused(const struct fm_registry *g)
{
	return atomic_load(&g->n_refused);
}

uint32_t fm_registry_enter(struct fm_registry *g, uint32_t pid, uint32_t parent_pid, uint64_t start_ns)
{
	for (uint32_t idx = 0; idx < FM_WIRE_N_PROCESSES; idx++) {
		struct entry *e = &g->entries[idx];
		if (e->is_entered)
			continue;
		e->is_entered = true;
		e->said = (struct fm_shared_process){ .pid = pid,
						      .parent_pid = parent_pid,
						      .start_ns = start_ns,
						      .engine = FM_ENGINE_TICKER,
						      .tick_signal = FM_TICK_SIGNAL,
						      .perf_fd = -1 };
		return idx;
	}
	return FM_WIRE_N_PROCESSES;
}

void fm_registry_set_python(struct fm_registry *g, uint32_t idx, uint64_t pc, uint32_t hexversion,
			    bool is_free_threaded)
{
	struct fm_shared_process *said = &g->entries[idx].said;
	said->python_pc = pc;
	said->python_version = hexversion;
	said->is_free_threaded = is_free_threaded;
	said->python = FM_WIRE_PYTHON_KNOWN;
}

void fm_registry_free(struct fm_registry *g, uint32_t idx)
{
	struct entry *e = &g->entries[idx];
	struct fm_wire_process *shared = &g->shared->processes[idx];
	if (e->is_entered) {
		e->is_entered = false;
		return;
	}
	atomic_store_explicit(&e->judged, 0, memory_order_relaxed);
	shared->pid = 0;
	atomic_store_explicit(&shared->state, FM_WIRE_FREE, memory_order_release);
}
