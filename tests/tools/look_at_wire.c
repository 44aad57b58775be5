// SPDX-License-Identifier: Apache-2.0
// What the agent in a process has written so far, from outside and without a collector, as one line
// of JSON.
//   look_at_wire PID
// n_waiting: processes that are quiet until the collector comes back. perf_events: open perf
// descriptors. ring_kib: memory of all rings that the process has mapped (not of the sums, which
// are touched by looking at them).
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "wire/trace.h"

static int memory = -1;

static bool read_at(uint64_t addr, void *to, size_t len)
{
	return pread(memory, to, len, (off_t)addr) == (ssize_t)len;
}

static unsigned count_perf_events(const char *pid)
{
	char path[64], what[64];
	unsigned n = 0;
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		ssize_t len = readlinkat(dirfd(dir), e->d_name, what, sizeof(what) - 1);
		what[len > 0 ? len : 0] = 0;
		n += strstr(what, "[perf_event]") != NULL;
	}
	if (dir)
		closedir(dir);
	return n;
}

struct sums {
	uint64_t n_ticks, n_samples, n_dropped, n_allocs, n_traced, n_exact, ring_kib;
};

static void add_slot(uint64_t at, struct sums *sums)
{
	static struct fm_wire_slot slot;
	if (!read_at(at, &slot, sizeof(slot)))
		return;
	sums->n_ticks += slot.n_ticks;
	sums->n_samples += slot.n_samples;
	sums->n_dropped += slot.n_dropped;
	sums->n_allocs += slot.n_alloc_samples;
}

static void add_sites(uint64_t at, struct sums *sums)
{
	struct fm_wire_exact head;
	struct fm_wire_site site;
	if (!read_at(at, &head, sizeof(head)) || !head.process_idx1)
		return;
	for (uint32_t i = 0;
	     i < head.n_sites && read_at(at + FM_WIRE_EXACT_HEADER + i * sizeof(site), &site, sizeof(site)); i++)
		sums->n_exact += site.n_allocs + site.n_frees;
}

// Returns how many processes of its table wait.
static unsigned read_counts(uint64_t at, struct fm_wire_counts *ret)
{
	static struct fm_wire_process processes[FM_WIRE_N_PROCESSES];
	unsigned n = 0;
	if (!read_at(at, ret, sizeof(*ret)) || !read_at(at + FM_WIRE_PROCESSES_OFFSET, processes, sizeof(processes)))
		return 0;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		n += processes[i].state == FM_WIRE_LIVE && processes[i].is_quiet;
	return n;
}

// A mapping of the shared memory; mappings of neighbours may have become one.
static void add_mapping(uint64_t start, uint64_t end, uint64_t offset, struct sums *sums)
{
	struct fm_wire_trace trace;
	for (uint64_t at = start; at < end; at += 4096) {
		uint64_t where = offset + (at - start);
		if (where >= FM_WIRE_TRACE_OFFSET) {
			if ((where - FM_WIRE_TRACE_OFFSET) % FM_WIRE_TRACE_SLOT_BYTES == 0 &&
			    read_at(at, &trace, sizeof(trace)))
				sums->n_traced += trace.head;
		} else if (where >= FM_WIRE_EXACT_OFFSET) {
			if ((where - FM_WIRE_EXACT_OFFSET) % FM_WIRE_EXACT_BYTES == 0)
				add_sites(at, sums);
		} else if (where >= FM_WIRE_SLOTS_OFFSET && (where - FM_WIRE_SLOTS_OFFSET) % FM_WIRE_SLOT_BYTES == 0) {
			add_slot(at, sums);
		}
	}
}

int main(int argc, char **argv)
{
	char path[64], line[512];
	struct fm_wire_counts counts = { 0 };
	struct sums sums = { 0 };
	bool is_shared = false, is_ring = false, is_sums = false;
	unsigned n_waiting = 0;
	if (argc < 2)
		return 2;
	snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%s/smaps", argv[1]);
	_cleanup_fclose_ FILE *maps = fopen(path, "re");
	if (memory < 0 || !maps)
		return 1;
	while (fgets(line, sizeof(line), maps)) {
		uint64_t start, end, offset, kib;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) == 3) {
			is_shared = strstr(line, "/memfd:fathom ") != NULL;
			is_ring = is_shared && offset >= FM_WIRE_SLOTS_OFFSET;
			is_sums = is_ring && offset >= FM_WIRE_EXACT_OFFSET && offset < FM_WIRE_TRACE_OFFSET;
			if (is_shared && offset == 0 && end - start > FM_WIRE_COUNTS_BYTES)
				n_waiting = read_counts(start, &counts);
			if (is_ring)
				add_mapping(start, end, offset, &sums);
		} else if (is_ring && !is_sums && sscanf(line, "Rss: %" SCNu64, &kib) == 1) {
			sums.ring_kib += kib;
		}
	}
	printf("{\"n_quiet\": %u, \"n_waiting\": %u, \"is_over\": %u, \"n_ticks\": %" PRIu64 ", \"n_samples\": %" PRIu64
	       ", \"n_dropped\": %" PRIu64 ", \"n_allocs\": %" PRIu64 ", \"n_exact\": %" PRIu64
	       ", \"n_traced\": %" PRIu64 ", \"ring_kib\": %" PRIu64 ", \"perf_events\": %u}\n",
	       counts.n_quiet, n_waiting, counts.is_over, sums.n_ticks, sums.n_samples, sums.n_dropped, sums.n_allocs,
	       sums.n_exact, sums.n_traced, sums.ring_kib, count_perf_events(argv[1]));
	return 0;
}
