// SPDX-License-Identifier: Apache-2.0
#include "collect/process/kernel_stacks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "format/writer.h"
#include "image/kallsyms.h"

// Per CPU, a power of two: half a second of 20 frames a chain at 1 kHz, and drained a hundred times
// a second.
#define RING_BYTES (256u << 10)
#define MAX_CPUS 1024
// The kernel's own limit is 127; deeper ones it cuts itself.
#define MAX_CHAIN 128
// Chains that no sample asked for are dropped after this.
#define KEEP_NS 2000000000u

struct cpu_ring {
	int fd;
	struct perf_event_mmap_page *page;
};

struct chain {
	uint64_t time_ns;
	uint32_t tid, n;
	uint64_t ips[]; // innermost first
};

struct fm_kernel_stacks {
	struct fm_writer *writer;
	FM_VEC(struct cpu_ring) rings;
	FM_VEC(struct chain *) chains; // in the order they were read
	struct fm_map addrs;           // every address that a frame was made of
	uint32_t image_id;
	bool has_image;
};

static int open_event(uint32_t pid, int cpu, uint32_t rate_hz)
{
	struct perf_event_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.type = PERF_TYPE_SOFTWARE;
	attr.size = sizeof(attr);
	attr.config = PERF_COUNT_SW_CPU_CLOCK;
	// Not quite the sampling rate, so that the two do not walk in step.
	attr.sample_period = 997000000u / rate_hz;
	attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN;
	attr.inherit = 1;
	attr.exclude_user = 1;
	attr.exclude_hv = 1;
	attr.exclude_callchain_user = 1;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	return (int)syscall(SYS_perf_event_open, &attr, (pid_t)pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

enum fm_err fm_kernel_stacks_open(uint32_t pid, uint32_t rate_hz, struct fm_writer *writer,
				  struct fm_kernel_stacks **ret, struct fm_diag *diag)
{
	struct fm_kernel_stacks *k = fm_alloc(sizeof(*k));
	k->writer = writer;
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	long n_cpus = FM_MIN(sysconf(_SC_NPROCESSORS_CONF), (long)MAX_CPUS);
	for (int cpu = 0; cpu < n_cpus; cpu++) {
		struct cpu_ring ring = { .fd = open_event(pid, cpu, rate_hz) };
		if (ring.fd < 0 && (errno == ENODEV || errno == EINVAL) && cpu > 0)
			continue; // that CPU is off
		if (ring.fd >= 0) {
			void *page =
				mmap(NULL, page_bytes + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, 0);
			ring.page = page == MAP_FAILED ? NULL : page;
		}
		if (ring.fd < 0 || !ring.page) {
			int err = errno;
			if (ring.fd >= 0)
				close(ring.fd);
			k->writer = NULL;
			fm_kernel_stacks_close(k);
			if (err == EACCES || err == EPERM)
				return fm_diag_set(diag, FM_E_REFUSED,
						   "the system does not permit them to ordinary users; run sudo sysctl "
						   "kernel.perf_event_paranoid=1");
			return fm_diag_set(diag, FM_E_REFUSED, "perf_event_open failed: %s", strerror(err));
		}
		fm_vec_push(&k->rings, ring);
	}
	*ret = k;
	return FM_OK;
}

// A record's bytes, which may go over the ring's end.
static void copy_out(const struct perf_event_mmap_page *page, uint64_t at, void *to, size_t n)
{
	const uint8_t *data = (const uint8_t *)page + page->data_offset;
	for (size_t done = 0; done < n;) {
		uint64_t from = (at + done) % page->data_size;
		size_t part = FM_MIN(n - done, (size_t)(page->data_size - from));
		memcpy((uint8_t *)to + done, data + from, part);
		done += part;
	}
}

static void take_chain(struct fm_kernel_stacks *k, const struct perf_event_mmap_page *page, uint64_t at, uint32_t size)
{
	struct {
		uint32_t pid, tid;
		uint64_t time_ns, n;
	} head;
	if (size < sizeof(head))
		return;
	copy_out(page, at, &head, sizeof(head));
	if (head.n > (size - sizeof(head)) / 8)
		return;
	struct chain *c = fm_alloc(sizeof(*c) + FM_MIN(head.n, (uint64_t)MAX_CHAIN) * sizeof(uint64_t));
	c->time_ns = head.time_ns;
	c->tid = head.tid;
	for (uint64_t i = 0; i < head.n && c->n < MAX_CHAIN; i++) {
		uint64_t ip;
		copy_out(page, at + sizeof(head) + i * 8, &ip, 8);
		if (ip < (uint64_t)-4095) // else a mark: from here on the kernel's, or the user's
			c->ips[c->n++] = ip;
	}
	if (c->n)
		fm_vec_push(&k->chains, c);
	else
		free(c);
}

static void drop_old(struct fm_kernel_stacks *k)
{
	uint64_t now_ns = fm_now_ns();
	size_t n_kept = 0;
	for (size_t i = 0; i < k->chains.n; i++) {
		if (k->chains.items[i]->time_ns + KEEP_NS >= now_ns)
			k->chains.items[n_kept++] = k->chains.items[i];
		else
			free(k->chains.items[i]);
	}
	k->chains.n = n_kept;
}

void fm_kernel_stacks_read(struct fm_kernel_stacks *k)
{
	drop_old(k);
	for (size_t i = 0; i < k->rings.n; i++) {
		struct perf_event_mmap_page *page = k->rings.items[i].page;
		// Acquire and release as perf_event_open(2) asks: bytes before head are there;
		// those before tail may be reused.
		uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
		uint64_t at = page->data_tail;
		while (at < head) {
			struct perf_event_header rec;
			copy_out(page, at, &rec, sizeof(rec));
			if (rec.size < sizeof(rec) || rec.size > head - at)
				break;
			if (rec.type == PERF_RECORD_SAMPLE)
				take_chain(k, page, at + sizeof(rec), rec.size - (uint32_t)sizeof(rec));
			at += rec.size;
		}
		__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
	}
}

static uint32_t kernel_frame(struct fm_kernel_stacks *k, uint64_t addr)
{
	if (!k->has_image) {
		k->has_image = true;
		k->image_id =
			fm_writer_image(k->writer, FM_STR_LIT("[kernel]"), FM_STR_LIT("code"), FM_IMAGE_IS_KERNEL_CODE);
	}
	fm_map_at(&k->addrs, addr, NULL);
	return fm_writer_frame(k->writer, FM_FRAME_NATIVE, k->image_id, addr);
}

uint32_t fm_kernel_stacks_extend(struct fm_kernel_stacks *k, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
				 uint32_t stack_id)
{
	// A long system call has one sample and many chains: any of them, by chance, is as good as
	// the place where the thread would have been met. The sample's own time is random enough to
	// choose by.
	uint32_t n = 0;
	for (size_t i = 0; i < k->chains.n; i++) {
		const struct chain *c = k->chains.items[i];
		n += c->tid == tid && c->time_ns > from_ns && c->time_ns <= to_ns;
	}
	if (!n)
		return stack_id;
	uint32_t wanted = (uint32_t)((to_ns * 0x9e3779b97f4a7c15u >> 32) % n);
	for (size_t i = 0; i < k->chains.n; i++) {
		const struct chain *c = k->chains.items[i];
		if (c->tid != tid || c->time_ns <= from_ns || c->time_ns > to_ns || wanted-- > 0)
			continue;
		for (uint32_t j = c->n; j-- > 0;) // callers by their call, not by where it returns to
			stack_id = fm_writer_stack(k->writer, stack_id, kernel_frame(k, c->ips[j] - (j > 0)));
		return stack_id;
	}
	return stack_id;
}

static void name_one(void *ctx, uint64_t addr, const char *name)
{
	struct fm_kernel_stacks *k = ctx;
	struct fm_symbol_link link = { .name = fm_str_of(name), .file = FM_STR_LIT("") };
	fm_writer_symbol(k->writer, k->image_id, addr, &link, 1);
}

static void write_names(struct fm_kernel_stacks *k)
{
	if (fm_kallsyms_name(&k->addrs, name_one, k))
		fm_writer_coverage(
			k->writer, FM_STR_LIT("names of kernel functions"),
			FM_STR_LIT("the system hides its addresses; run sudo sysctl kernel.kptr_restrict=0"));
}

void fm_kernel_stacks_close(struct fm_kernel_stacks *k)
{
	if (!k)
		return;
	if (k->has_image)
		write_names(k);
	for (size_t i = 0; i < k->rings.n; i++) {
		munmap(k->rings.items[i].page, (size_t)sysconf(_SC_PAGESIZE) + RING_BYTES);
		close(k->rings.items[i].fd);
	}
	for (size_t i = 0; i < k->chains.n; i++)
		free(k->chains.items[i]);
	fm_vec_deinit(&k->rings);
	fm_vec_deinit(&k->chains);
	fm_map_deinit(&k->addrs);
	free(k);
}
