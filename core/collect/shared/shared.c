// SPDX-License-Identifier: Apache-2.0
#include "collect/shared/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/kernel.h"
#include "wire/trace.h"

// No agent takes us for stopped before (sigsafe/base/quiet.h).
#define SILENT_NS 80000000u

// Fewer are not worth a start: a program has a few threads, and so do its children.
#define MIN_SLOTS 32u

// A file-size limit counts for this memory, too. The soft one is the user's word about files on
// disk: it stands again after.
static int set_size(int fd, uint64_t size)
{
	struct rlimit before, most;
	bool is_limited = getrlimit(RLIMIT_FSIZE, &before) == 0 && before.rlim_cur != RLIM_INFINITY;
	if (is_limited) {
		most = (struct rlimit){ .rlim_cur = before.rlim_max, .rlim_max = before.rlim_max };
		setrlimit(RLIMIT_FSIZE, &most);
	}
	int ret = ftruncate(fd, (off_t)size), err = errno;
	if (is_limited)
		setrlimit(RLIMIT_FSIZE, &before);
	errno = err;
	return ret;
}

// The cycle counter is as good as the kernel thinks it is: the kernel's own clock is made from it,
// or it is not to be trusted.
static uint32_t trace_clock(void)
{
	char name[32] = "";
	_cleanup_close_ int fd =
		open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, name, sizeof(name) - 1) <= 0)
		return FM_WIRE_CLOCK_MONOTONIC;
	name[strcspn(name, "\n")] = 0;
	return !strcmp(name, "tsc") || !strcmp(name, "arch_sys_counter") ? FM_WIRE_CLOCK_CYCLES
									 : FM_WIRE_CLOCK_MONOTONIC;
}

// Where there is a limit on our address space, a quarter of it is for slots: fewer threads at one
// time, instead of none.
static uint32_t affordable_slots(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return FM_WIRE_N_SLOTS;
	uint64_t n = limit.rlim_cur / 4 / FM_WIRE_SLOT_BYTES;
	return n < MIN_SLOTS ? MIN_SLOTS : n > FM_WIRE_N_SLOTS ? FM_WIRE_N_SLOTS : (uint32_t)n;
}

static uint64_t mapped_bytes(uint32_t n_slots)
{
	return FM_WIRE_SLOTS_OFFSET + (uint64_t)n_slots * FM_WIRE_SLOT_BYTES;
}

// Where there is less room than this, a page that is touched for the first time ends us (SIGBUS). A
// program with some threads needs a few MiB.
#define MIN_ROOM_BYTES (64u << 20)

static int open_in(const char *folder)
{
	struct statvfs room;
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || (fstatvfs(fd, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize >= MIN_ROOM_BYTES))
		return fd;
	close(fd);
	errno = ENOSPC;
	return -1;
}

// A file without a name. Sandboxes that forbid memfd_create have shared memory to make one in, or
// at least a folder; there it cannot be sealed, and a target that shortens it ends us.
static int open_nameless(const char *name)
{
	int fd = fm_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		fd = open_in("/dev/shm");
	return fd < 0 ? open_in("/tmp") : fd;
}

static enum fm_err cannot_make(uint64_t size, struct fm_diag *diag)
{
	return fm_diag_set(diag, FM_E_REFUSED, "cannot make %llu MiB of shared memory: %s%s",
			   (unsigned long long)(size >> 20), strerror(errno),
			   errno == EFBIG ? "; raise 'ulimit -f'" : "");
}

static enum fm_err map_file(int fd, uint64_t size, uint8_t **ret, struct fm_diag *diag)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	*ret = p == MAP_FAILED ? NULL : p;
	return *ret ? FM_OK
		    : fm_diag_set(diag, FM_E_REFUSED, "cannot map %llu MiB of shared memory: %s; raise 'ulimit -v'",
				  (unsigned long long)(size >> 20), strerror(errno));
}

// What is sealed against writing can still be written through mappings that are there (Linux 5.1).
static void seal(int fd, unsigned seals)
{
	if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) != 0)
		fcntl(fd, F_ADD_SEALS, (seals & ~(unsigned)F_SEAL_FUTURE_WRITE) | F_SEAL_SEAL);
}

// Ours: the mapping that is there is the last one that can be written through.
static enum fm_err make_published(struct fm_shared *shared, struct fm_diag *diag)
{
	shared->published_fd = open_nameless("fathom-published");
	if (shared->published_fd < 0 || set_size(shared->published_fd, FM_WIRE_PUBLISHED_BYTES) != 0)
		return cannot_make(FM_WIRE_PUBLISHED_BYTES, diag);
	enum fm_err err = map_file(shared->published_fd, FM_WIRE_PUBLISHED_BYTES, &shared->published, diag);
	if (err == FM_OK)
		seal(shared->published_fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
	return err;
}

// Theirs: it stays as long as it is, or reading it would end us.
static enum fm_err make_shared(struct fm_shared *shared, uint32_t n_slots, bool *ret_has_trace, struct fm_diag *diag)
{
	shared->fd = open_nameless("fathom");
	// The trace rings are larger than all the rest, and can be done without.
	*ret_has_trace = shared->fd >= 0 && set_size(shared->fd, FM_WIRE_TRACE_END) == 0;
	if (shared->fd < 0 || (!*ret_has_trace && set_size(shared->fd, FM_WIRE_EXACT_END) != 0))
		return cannot_make(FM_WIRE_EXACT_END, diag);
	seal(shared->fd, F_SEAL_SHRINK | F_SEAL_GROW);
	return map_file(shared->fd, mapped_bytes(n_slots), &shared->base, diag);
}

enum fm_err fm_shared_init(struct fm_shared *shared, struct fm_diag *diag)
{
	*shared = (struct fm_shared){ .published_fd = -1, .fd = -1, .n_slots = affordable_slots() };
	bool has_trace;
	enum fm_err err = make_published(shared, diag);
	if (err == FM_OK)
		err = make_shared(shared, shared->n_slots, &has_trace, diag);
	if (err != FM_OK)
		return err;
	struct fm_wire_header *header = (void *)shared->published;
	shared->header = header;
	shared->counts = (void *)shared->base;
	shared->processes = (void *)(shared->base + FM_WIRE_PROCESSES_OFFSET);
	shared->owners = (void *)(shared->base + FM_WIRE_SLOT_TABLE_OFFSET);
	header->n_slots = shared->n_slots;
	header->trace_clock = has_trace ? trace_clock() : 0;
	header->version = FM_WIRE_VERSION;
	header->collector_pid = (uint32_t)getpid();
	header->shared_fd = (uint32_t)shared->fd;
	fm_shared_beat(shared, fm_now_ns());
	header->magic = FM_WIRE_MAGIC;
	snprintf(shared->env_value, sizeof(shared->env_value), "/proc/%d/fd/%d", getpid(), shared->published_fd);
	return FM_OK;
}

enum fm_err fm_shared_map_sums(struct fm_shared *shared, struct fm_diag *diag)
{
	uint64_t size = FM_WIRE_EXACT_END - FM_WIRE_EXACT_OFFSET;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, shared->fd,
		       (off_t)FM_WIRE_EXACT_OFFSET);
	if (p == MAP_FAILED)
		return fm_diag_set(
			diag, FM_E_REFUSED,
			"cannot map %llu MiB for exact sums: %s; raise 'ulimit -v', or use --memory without =exact",
			(unsigned long long)(size >> 20), strerror(errno));
	shared->sums = p;
	return FM_OK;
}

void fm_shared_deinit(struct fm_shared *shared)
{
	if (shared->sums)
		munmap(shared->sums, FM_WIRE_EXACT_END - FM_WIRE_EXACT_OFFSET);
	if (shared->base)
		munmap(shared->base, mapped_bytes(shared->n_slots));
	if (shared->published)
		munmap(shared->published, FM_WIRE_PUBLISHED_BYTES);
	if (shared->fd >= 0)
		close(shared->fd);
	if (shared->published_fd >= 0)
		close(shared->published_fd);
	*shared = (struct fm_shared){ .published_fd = -1, .fd = -1 };
}

bool fm_shared_read_owner(struct fm_shared *shared, uint32_t idx, struct fm_shared_owner *ret)
{
	const struct fm_wire_owner *o = &shared->owners[idx];
	if (atomic_load_explicit(&o->state, memory_order_acquire) != FM_WIRE_LIVE)
		return false;
	*ret = (struct fm_shared_owner){ __atomic_load_n(&o->process_idx, __ATOMIC_RELAXED), atomic_load(&o->tid) };
	if (ret->process_idx < FM_WIRE_N_PROCESSES && ret->tid <= INT32_MAX)
		return ret->tid != 0; // cleared, when it is given back
	atomic_store(&shared->is_damaged, true);
	return false;
}

int fm_shared_tick_signal(const struct fm_shared *shared, uint32_t idx)
{
	uint32_t signal = atomic_load(&shared->processes[idx].tick_signal);
	return signal == FM_OTHER_TICK_SIGNAL ? FM_OTHER_TICK_SIGNAL : FM_TICK_SIGNAL;
}

bool fm_shared_read_process(struct fm_shared *shared, uint32_t idx, struct fm_shared_process *ret)
{
	const struct fm_wire_process *p = &shared->processes[idx];
	if (atomic_load_explicit(&p->state, memory_order_acquire) != FM_WIRE_LIVE)
		return false;
	uint32_t fd1 = atomic_load(&p->perf_fd1);
	*ret = (struct fm_shared_process){
		.pid = atomic_load(&p->pid),
		.parent_pid = __atomic_load_n(&p->parent_pid, __ATOMIC_RELAXED),
		.start_ns = __atomic_load_n(&p->start_ns, __ATOMIC_RELAXED),
		.engine = FM_MIN(atomic_load(&p->engine), (uint32_t)FM_ENGINE_PERF),
		.python = FM_MIN(atomic_load(&p->python), (uint32_t)FM_WIRE_PYTHON_UNKNOWN),
		.python_version = atomic_load(&p->python_version),
		.python_pc = atomic_load(&p->python_pc),
		.is_free_threaded = atomic_load(&p->is_free_threaded) != 0,
		.is_quiet = atomic_load(&p->is_quiet) != 0,
		.tick_signal = fm_shared_tick_signal(shared, idx),
		.engine_errno = (int)FM_MIN(atomic_load(&p->engine_errno), 4095u),
		.perf_fd = fd1 && fd1 <= INT32_MAX ? (int)fd1 - 1 : -1,
	};
	if (ret->pid <= INT32_MAX) // a negative number is a group's, and -1 is everybody's
		return ret->pid != 0;
	atomic_store(&shared->is_damaged, true);
	return false;
}

bool fm_shared_tells_ends(struct fm_shared *shared, uint32_t idx)
{
	return !(atomic_load(&shared->processes[idx].memory_hooks) & FM_WIRE_HOOKS_ENDED);
}

bool fm_shared_is_damaged(const struct fm_shared *shared)
{
	const uint8_t *rest = (const uint8_t *)(shared->counts + 1);
	for (size_t i = 0; i < FM_WIRE_COUNTS_BYTES - sizeof(*shared->counts); i++)
		if (rest[i])
			return true;
	return atomic_load(&shared->is_damaged);
}

void fm_shared_beat(struct fm_shared *shared, uint64_t now_ns)
{
	// Two threads come here, and one may have been stopped after it had looked at the clock:
	// time does not go back.
	uint64_t before_ns = atomic_load(&shared->header->beat_ns);
	do {
		if (now_ns <= before_ns)
			return;
	} while (!atomic_compare_exchange_weak(&shared->header->beat_ns, &before_ns, now_ns));
	uint64_t silent_ns = before_ns ? now_ns - before_ns : 0;
	if (silent_ns >= FM_WIRE_GAP_NS)
		atomic_fetch_add(&shared->header->n_gaps, 1);
	if (silent_ns >= SILENT_NS)
		atomic_fetch_add(&shared->silent_ns, silent_ns);
}

void fm_shared_free_slot(struct fm_shared *shared, uint32_t idx)
{
	// Punching the hole zeroes control block and ring in one go and gives the pages back.
	fallocate(shared->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(FM_WIRE_SLOTS_OFFSET + (uint64_t)idx * FM_WIRE_SLOT_BYTES), FM_WIRE_SLOT_BYTES);
	if (shared->header->trace_clock)
		fallocate(shared->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)(FM_WIRE_TRACE_OFFSET + idx * FM_WIRE_TRACE_SLOT_BYTES),
			  (off_t)FM_WIRE_TRACE_SLOT_BYTES);
	struct fm_wire_owner *owner = &shared->owners[idx];
	owner->pid = owner->tid = 0;
	atomic_store_explicit(&owner->state, FM_WIRE_FREE, memory_order_release);
}
