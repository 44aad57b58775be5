// SPDX-License-Identifier: Apache-2.0
// What the resident memory was made of when it was highest.
#include <stdlib.h>
#include <string.h>

#include "aggregate/heap/parts.h"
#include "symbolize/names.h"

// The image of the innermost native frame that is no go-between; the number of images for none.
static uint32_t owner_of(const struct fm_profile *p, uint32_t stack_id)
{
	for (uint32_t s = stack_id; s && s < p->stacks.n; s = p->stacks.items[s].parent) {
		const struct fm_frame *f = &p->frames.items[p->stacks.items[s].frame_id];
		if (f->kind == FM_FRAME_NATIVE && f->ref < p->images.n &&
		    !fm_name_is_go_between(p->images.items[f->ref].path))
			return f->ref;
	}
	return (uint32_t)p->images.n;
}

static int compare_owners(const void *pa, const void *pb)
{
	const struct fm_heap_owner *a = pa, *b = pb;
	return (b->bytes > a->bytes) - (b->bytes < a->bytes);
}

// The highest sum over the processes that live, each with its latest level.
static void find_highest(struct fm_heap_resident *r, const struct fm_profile *p)
{
	size_t n = p->memory_levels.n;
	const struct fm_memory_level **last = fm_alloc((p->processes.n + 1) * sizeof(*last));
	// Levels come in order of time within a process, and nearly so between them: they are
	// written as they are read.
	for (size_t i = 0; i < n; i++) {
		const struct fm_memory_level *l = &p->memory_levels.items[i];
		if (!l->rss_bytes)
			continue;
		last[l->process_id] = l;
		struct fm_heap_resident sum = { .time_ns = l->time_ns };
		bool has_pss = true;
		for (size_t k = 0; k < p->processes.n; k++) {
			const struct fm_memory_level *one = last[k];
			if (!one || (p->processes.items[k].end_ns && p->processes.items[k].end_ns < l->time_ns))
				continue;
			sum.rss_bytes += one->rss_bytes;
			sum.anon_bytes += one->rss_anon_bytes;
			sum.file_bytes += one->rss_file_bytes;
			sum.shmem_bytes += one->rss_shmem_bytes;
			sum.swap_bytes += one->swap_bytes;
			sum.pss_bytes += one->pss_bytes;
			has_pss &= one->pss_bytes != 0;
		}
		if (sum.rss_bytes > r->rss_bytes) {
			*r = sum;
			r->pss_bytes = has_pss ? sum.pss_bytes : 0;
		}
	}
	free(last);
}

static void add(struct fm_heap_resident *r, uint64_t *by_image, const struct fm_profile *p, uint8_t domain,
		uint32_t stack_id, uint64_t bytes)
{
	if (domain == FM_ALLOC_COPY)
		return;
	if (fm_alloc_is_python(domain)) {
		r->python_bytes += bytes;
		return;
	}
	*(domain == FM_ALLOC_MMAP ? &r->mapped_bytes : &r->native_bytes) += bytes;
	by_image[owner_of(p, stack_id)] += bytes;
}

void fm_heap_resident(struct fm_heap *h, const struct fm_heap_input *in)
{
	struct fm_heap_resident *r = &h->resident;
	const struct fm_profile *p = in->profile;
	find_highest(r, p);
	if (!r->time_ns)
		return;
	uint64_t *by_image = fm_alloc((p->images.n + 1) * sizeof(*by_image));
	// Sums alone know what there was at the heap's own peak.
	for (size_t i = 0; i < p->sites.n && !in->log->blocks.n; i++)
		add(r, by_image, p, p->sites.items[i].domain, p->sites.items[i].stack_id,
		    p->sites.items[i].at_peak_bytes);
	uint32_t n_steps = fm_heap_log_steps_until(in->log, r->time_ns);
	for (size_t i = 0; i < in->log->blocks.n; i++) {
		const struct fm_block *b = &in->log->blocks.items[i];
		if (!fm_block_lives_after(b, n_steps))
			continue;
		add(r, by_image, p, b->domain, b->stack_id, b->held);
	}
	uint64_t heap = r->python_bytes + r->native_bytes + r->mapped_bytes, anon = r->anon_bytes + r->swap_bytes;
	r->unexplained_bytes = anon > heap ? anon - heap : 0;
	r->untouched_bytes = heap > anon ? heap - anon : 0;
	for (size_t i = 0; i <= p->images.n; i++)
		if (by_image[i])
			fm_vec_push(&r->owners, (struct fm_heap_owner){ i < p->images.n ? p->images.items[i].path
											: FM_STR_LIT("<unknown>"),
									by_image[i] });
	if (r->owners.n)
		qsort(r->owners.items, r->owners.n, sizeof(*r->owners.items), compare_owners);
	free(by_image);
}
