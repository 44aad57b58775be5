// SPDX-License-Identifier: Apache-2.0
// Start-up: when the library is loaded with FATHOM_RING set (or late.c is asked to), map the shared
// memory, find the Python that is there, say who we are, install the engine. About 100
// microseconds, once per process image.
#include "agent/agent.h"
#include "agent/memory.h"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/trace.h"
#include "agent/zone_api.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "sigsafe/base/budget.h"
#include "sigsafe/unwind/image.h"
#include "sigsafe/unwind/loaded.h"
#include "sigsafe/python/python.h"
#include "sigsafe/base/quiet.h"
#include "sigsafe/base/raw.h"
#include "sigsafe/base/claim.h"
#include "sigsafe/base/ring.h"
#include "sigsafe/base/state.h"
#include "sigsafe/tick/region.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

// Made by the linker: the first byte of this library, and one past its last.
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

// Longer command lines are cut in the report.
#define MAX_COMMAND_BYTES 8192

void *fm_agent_map_private(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_WIPEONFORK);
	madvise(p, size, MADV_DONTDUMP);
	return p;
}

void *fm_agent_map_or_clear(void *have, size_t size)
{
	if (!have)
		return fm_agent_map_private(size);
	madvise(have, size, MADV_DONTNEED);
	return have;
}

static void *map_file(int fd, uint64_t size, int prot)
{
	void *p = fd >= 0 ? mmap(NULL, size, prot, MAP_SHARED | MAP_NORESERVE, fd, 0) : MAP_FAILED;
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_DONTDUMP);
	return p;
}

// What every process maps of both files; false where there is no address space for it.
static bool map_common(int published_fd, int shared_fd)
{
	const uint8_t *published = map_file(published_fd, FM_WIRE_PUBLISHED_BYTES, PROT_READ);
	uint8_t *shared = map_file(shared_fd, FM_WIRE_COMMON_BYTES, PROT_READ | PROT_WRITE);
	fm_sig.codes = fm_agent_map_or_clear(fm_sig.codes, sizeof(struct fm_sig_code) * FM_SIG_CODES);
	fm_sig.images = fm_agent_map_or_clear(fm_sig.images, sizeof(struct fm_sig_image) * FM_SIG_IMAGES);
	if (published && shared && fm_sig.codes && fm_sig.images) {
		fm_sig.published = published;
		fm_sig.shared = shared;
		return true;
	}
	if (published)
		munmap((void *)published, FM_WIRE_PUBLISHED_BYTES);
	if (shared)
		munmap(shared, FM_WIRE_COMMON_BYTES);
	return false;
}

// Private memory goes back to zeros, and slots are those of the capture that begins.
static void renew_places(void)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct fm_sig_thread *t = atomic_load(&fm_sig.places[i].thread);
		if (t)
			madvise(t, sizeof(*t), MADV_DONTNEED);
		atomic_store(&fm_sig.places[i].slot, NULL);
	}
}

static bool has_bytes(int fd, uint64_t size)
{
	struct stat st;
	return fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= size;
}

// The collector's file says where the targets' is: beside it, as a namespace may have another
// number for the collector than it has itself. Returns a descriptor of it.
static int open_shared(const char *path, int published_fd)
{
	const struct fm_wire_header *header = map_file(published_fd, FM_WIRE_HEADER_BYTES, PROT_READ);
	const char *number = strrchr(path, '/');
	int fd = -1;
	if (header && number && header->magic == FM_WIRE_MAGIC && header->version == FM_WIRE_VERSION) {
		snprintf(fm_sig.shared_path, sizeof(fm_sig.shared_path), "%.*s/%u", (int)(number - path), path,
			 header->shared_fd);
		fd = open(fm_sig.shared_path, O_RDWR | O_CLOEXEC);
	}
	if (header)
		munmap((void *)header, FM_WIRE_HEADER_BYTES);
	return fd;
}

// A page can be had where all cannot, and by it the report learns of that.
static bool map_both(int published_fd, int shared_fd)
{
	struct fm_wire_counts *counts = map_file(shared_fd, FM_WIRE_COUNTS_BYTES, PROT_READ | PROT_WRITE);
	if (!counts)
		return false;
	bool is_wanted = !atomic_load(&counts->is_over), is_mapped = is_wanted && map_common(published_fd, shared_fd);
	if (is_wanted && !is_mapped)
		atomic_fetch_add(&counts->n_no_room, 1);
	munmap(counts, FM_WIRE_COUNTS_BYTES);
	return is_mapped;
}

// No descriptor stays open: the program sees none of ours.
static bool map_shared(const char *path)
{
	struct stat st;
	int published_fd = open(path, O_RDONLY | O_CLOEXEC), shared_fd = -1;
	if (published_fd < 0)
		return false; // the collector is gone, or this is another user's or namespace's process
	if (has_bytes(published_fd, FM_WIRE_PUBLISHED_BYTES))
		shared_fd = open_shared(path, published_fd);
	bool is_mapped = has_bytes(shared_fd, FM_WIRE_SLOTS_END) && // trace rings may follow
			 fstat(published_fd, &st) == 0 && map_both(published_fd, shared_fd);
	close(published_fd);
	if (shared_fd >= 0)
		close(shared_fd);
	if (!is_mapped)
		return false;
	renew_places();
	snprintf(fm_sig.ring_path, sizeof(fm_sig.ring_path), "%s", path);
	fm_sig.counts = (void *)fm_sig.shared;
	fm_sig.header = (const void *)fm_sig.published;
	fm_sig.collector_pid = fm_sig.header->collector_pid;
	fm_sig_budget_start();
	fm_sig_quiet_start(st.st_dev, st.st_ino);
	return true;
}

// Our number as the collector knows it, which is another one in a pid namespace of our own. It was
// found by a path in /proc: so that is the one of its namespace, and says how we are called there.
static uint32_t outside_pid(void)
{
	char link[16];
	ssize_t n = readlink("/proc/self", link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	uint32_t pid = (uint32_t)strtoul(link, NULL, 10);
	return pid ? pid : (uint32_t)getpid();
}

static bool claim_process(void)
{
	struct fm_wire_counts *counts = fm_sig.counts;
	struct fm_wire_process *table = (void *)(fm_sig.shared + FM_WIRE_PROCESSES_OFFSET);
	uint32_t hint = atomic_fetch_add(&counts->process_hint, 1);
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		struct fm_wire_process *p = &table[(hint + i) % FM_WIRE_N_PROCESSES];
		uint32_t expected = FM_WIRE_FREE;
		if (!atomic_compare_exchange_strong(&p->state, &expected, FM_WIRE_CLAIMED))
			continue;
		fm_sig.process = p;
		fm_sig.process_idx = (uint32_t)(p - table);
		fm_sig.pid = (uint32_t)getpid();
		fm_sig.outside_pid = outside_pid();
		p->pid = fm_sig.outside_pid;
		p->parent_pid = fm_sig.outside_pid == fm_sig.pid ? (uint32_t)getppid() : 0; // the collector asks
		p->engine = FM_ENGINE_TICKER;
		p->start_ns = fm_now_ns();
		p->engine_errno = 0;
		p->perf_fd1 = 0;
		p->is_quiet = 0;
		atomic_store(&p->tick_signal, FM_TICK_SIGNAL);
		atomic_store(&p->python_pc, fm_sig.has_python ? fm_sig.python.some_pc : 0);
		atomic_store(&p->python, fm_sig.has_python ? FM_WIRE_PYTHON_KNOWN : FM_WIRE_PYTHON_NONE);
		atomic_store(&p->python_version, fm_sig.has_python ? fm_sig.python.hexversion : 0);
		atomic_store(&p->is_free_threaded, fm_sig.has_python && fm_sig.python.row.is_free_threaded);
		return true;
	}
	atomic_fetch_add(&counts->n_no_process, 1);
	return false;
}

uintptr_t fm_agent_symbol(uintptr_t start, uintptr_t end, uintptr_t bias, const char *name, uint64_t *ret_size)
{
	bool was_recoverable = fm_sig_is_recoverable;
	fm_sig_is_recoverable = true;
	uintptr_t symbol = fm_sig_elf_symbol(start, end, bias, name, ret_size);
	fm_sig_is_recoverable = was_recoverable;
	return symbol;
}

// The list that the loader keeps for debuggers: the executable's dynamic section says where it is.
static void find_loader_list(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		const ElfW(Dyn) *dyn = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		for (; dyn->d_tag != DT_NULL; dyn++)
			if (dyn->d_tag == DT_DEBUG)
				fm_sig_loader_list = dyn->d_un.d_ptr;
	}
}

void fm_agent_images_refill(void)
{
	if (fm_sig_image_needs_list())
		fm_sig_loaded_refill();
}

static int look_at_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	uintptr_t start = UINTPTR_MAX, end = 0, hdr = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type == PT_LOAD) {
			start = FM_MIN(start, (info->dlpi_addr + ph->p_vaddr) & ~4095ul);
			end = FM_MAX(end, info->dlpi_addr + ph->p_vaddr + ph->p_memsz);
		} else if (ph->p_type == PT_GNU_EH_FRAME) {
			hdr = info->dlpi_addr + ph->p_vaddr;
		}
	}
	if (start >= end)
		return 0;
	if (fm_sig_n_images_at_start == 0)
		find_loader_list(info);
	if (fm_sig_n_images_at_start < FM_SIG_N_IMAGES_AT_START) {
		struct fm_sig_image_info *image = &fm_sig_images_at_start[fm_sig_n_images_at_start++];
		*image = (struct fm_sig_image_info){ start, end, hdr, info->dlpi_addr,
						     info->dlpi_name && *info->dlpi_name ? (uintptr_t)info->dlpi_name
											 : 0 };
	}
	if (start == getauxval(AT_SYSINFO_EHDR)) {
		fm_clock_vdso = (int (*)(clockid_t, struct timespec *))fm_agent_symbol(start, end, info->dlpi_addr,
										       "__vdso_clock_gettime", NULL);
		fm_sig_getcpu_vdso = (int (*)(unsigned *, unsigned *, void *))fm_agent_symbol(
			start, end, info->dlpi_addr, "__vdso_getcpu", NULL);
	}
	fm_zone_api_offer(start, end, info->dlpi_addr);
	bool had_python = fm_sig.has_python;
	uint64_t tls_helper_size = 0;
	uintptr_t tls_helper = fm_agent_symbol(start, end, info->dlpi_addr, "__tls_get_addr", &tls_helper_size);
	if (tls_helper && !fm_sig.tls_helper_start) {
		fm_sig.tls_helper_start = tls_helper;
		fm_sig.tls_helper_end = tls_helper + tls_helper_size;
	}
	if (!fm_sig.libc_start && fm_agent_symbol(start, end, info->dlpi_addr, "__libc_start_main", NULL)) {
		fm_sig.libc_start = start;
		fm_sig.libc_end = end;
	}
	bool was_recoverable = fm_sig_is_recoverable;
	fm_sig_is_recoverable = true; // as in fm_agent_symbol()
	fm_sig_find_python(start, end, info->dlpi_addr);
	fm_sig_is_recoverable = was_recoverable;
	if (!had_python && fm_sig.has_python)
		fm_agent_find_eval_parts(info->dlpi_name ? info->dlpi_name : "", info->dlpi_addr);
	return 0;
}

// Reads a small file of /proc/self; returns the bytes read.
static size_t read_proc(const char *path, char *to, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	size_t len = 0;
	ssize_t n;
	while (len < cap && (n = read(fd, to + len, cap - len)) > 0)
		len += (size_t)n;
	close(fd);
	return len;
}

static void tell_exec_name(void)
{
	static char command[MAX_COMMAND_BYTES];
	size_t command_len = read_proc("/proc/self/cmdline", command, sizeof(command));
	size_t exe_len = strlen(fm_sig.exe);
	struct fm_sig_thread *t = fm_sig_thread_get();
	if (!t)
		return;
	struct fm_wire_exec_name *rec = fm_sig_ring_reserve(t, FM_WIRE_EXEC_NAME, sizeof(*rec) + exe_len + command_len);
	if (!rec)
		return;
	rec->exe_len = (uint32_t)exe_len;
	rec->command_len = (uint32_t)command_len;
	memcpy(rec->bytes, fm_sig.exe, exe_len);
	memcpy(rec->bytes + exe_len, command, command_len);
	fm_sig_ring_commit(t, &rec->rec);
	// The thread's clock starts here: what the loader and the program's start cost is not the
	// program's doing.
	t->last_cpu_ns = fm_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	t->answered_cpu_ns = t->last_cpu_ns;
	if (fm_sig.is_late)
		t->first_cpu_ns = t->last_cpu_ns;
}

// Enters this process into the table and starts its engine. Signals are blocked: no sample may see
// half of it.
static void join(void)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	if (claim_process()) {
		tell_exec_name();
		fm_agent_engine_start();
		if (fm_sig_region_is_outside() && fm_sig.process_idx == 0)
			atomic_store(&fm_sig.counts->is_outside, 1);
		atomic_store_explicit(&fm_sig.process->state, FM_WIRE_LIVE, memory_order_release);
		atomic_fetch_add(&fm_sig.counts->n_processes_claimed, 1);
	} else {
		fm_sig.header = NULL;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

// The child of a fork has a copy of everything but the engine; its private tables came as zeros. It
// must not write to its parent's slot.
static void after_fork_in_child(void)
{
	if (!fm_sig.header)
		return;
	fm_sig_self = NULL;
	fm_sig_loaded_fork();
	atomic_store(&fm_sig.n_inside, 0); // a handler of another thread, which is not here
	fm_agent_memory_fork(/* is_followed= */ false);
	fm_agent_engine_forget();
	if (atomic_load(&fm_sig.counts->is_over))
		return;
	bool is_orphan = atomic_load(&fm_sig_quiet.state) == FM_SIG_GONE;
	if (fm_sig.header->flags & FM_WIRE_NO_CHILDREN || is_orphan) {
		fm_sig.header = NULL;
		fm_trace_join();
		return;
	}
	uint32_t parent_idx = fm_sig.process_idx;
	fm_sig.process = NULL;
	fm_sig.next_code_id = 0;
	fm_sig_quiet_start(fm_sig_quiet.memory_dev, fm_sig_quiet.memory_ino);
	join();
	fm_trace_join();
	if (!fm_sig.header)
		return;
	fm_agent_frame_tables_inherit(parent_idx);
	fm_agent_memory_fork(/* is_followed= */ true);
}

bool fm_agent_start(const char *ring_path)
{
	static bool is_atfork_set;
	ssize_t len = readlink("/proc/self/exe", fm_sig.exe, sizeof(fm_sig.exe) - 1);
	fm_sig.exe[len > 0 ? len : 0] = 0;
	if (!map_shared(ring_path))
		return false;
	fm_sig.next_code_id = 0;
	fm_sig_n_images_at_start = 0;
	fm_sig_images_by_list = getenv("FATHOM_LOADER_LIST") != NULL;
	dl_iterate_phdr(look_at_image, NULL);
	fm_agent_syscall_resolve();
	fm_agent_images_refill();
	join();
	fm_trace_join();
	if (!fm_sig.header)
		return false;
	if (!is_atfork_set)
		is_atfork_set = pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
	return true;
}

// What the program starts is not to be followed, or the program was given an environment without us
// (exec.c).
static void leave_environment(void)
{
	unsetenv(FM_WIRE_ENV);
	unsetenv(FM_WIRE_ENV_GIVEN);
	char *list = getenv("LD_PRELOAD"), *last = list ? strrchr(list, ':') : NULL;
	if (last)
		*last = 0; // what the user preloads stays; we are behind it (launch.c)
	else
		unsetenv("LD_PRELOAD");
}

void fm_agent_find_self(void)
{
	fm_sig.own_start = (uintptr_t)__ehdr_start;
	fm_sig.own_end = (uintptr_t)_end;
}

// glibc gives constructors what it gives main().
__attribute__((constructor)) static void start(int argc, char **argv, char **env)
{
	(void)argc;
	(void)env;
	// Always: programs call these through us, whether they are profiled or not.
	fm_agent_malloc_resolve();
	fm_agent_copy_resolve();
	fm_agent_exec_resolve();
	fm_agent_find_self();
	const char *path = getenv(FM_WIRE_ENV);
	if (!path || !*path || fm_sig.header || !fm_agent_start(path))
		return;
	bool is_followed = !(fm_sig.header->flags & FM_WIRE_NO_CHILDREN);
	if (is_followed)
		fm_agent_exec_start();
	fm_agent_isolated_start(argv);
	if (getenv(FM_WIRE_ENV_GIVEN))
		fm_agent_let_look(path);
	if (!is_followed || getenv(FM_WIRE_ENV_GIVEN))
		leave_environment();
	fm_agent_memory_start();
}
