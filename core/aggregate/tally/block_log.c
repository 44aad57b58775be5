// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tally/block_log.h"

#include <stdlib.h>
#include <string.h>

// More blocks than these (half a GiB of ours) are thinned out: half of the small ones go, the
// others stand for twice as much. Long captures stay in bounded memory, and sums stay unbiased.
#define MAX_BLOCKS ((size_t)4 << 20)
// Blocks from this size on are each seen for certain and never thinned: they are few.
#define LARGE_BYTES ((uint64_t)256 << 10)
// A table by number is kept while it has at most this much room for each block.
#define MAX_ROOM 16
#define N_LATEST 65536
#define MAX_THINNING 10
// No block is larger; a damaged file may say so.
#define MAX_BYTES ((uint64_t)1 << 50)

void fm_heap_log_deinit(struct fm_heap_log *log)
{
	fm_vec_deinit(&log->blocks);
	fm_vec_deinit(&log->copies);
	fm_vec_deinit(&log->ids);
	fm_vec_deinit(&log->frees);
	fm_vec_deinit(&log->steps);
	for (size_t i = 0; i < log->by_id.n; i++) {
		free(log->by_id.items[i].dense);
		fm_map_deinit(&log->by_id.items[i].sparse);
	}
	fm_vec_deinit(&log->by_id);
}

// By its number alone, so that a block's free is kept when it is.
static bool is_kept(uint64_t id, unsigned thinning)
{
	return fm_hash_u64(id) >> 40 << thinning >> 24 == 0;
}

// Frees of blocks that were left out. The latest ones stay: the allocation of a block that another
// thread freed may come a moment later.
static void thin_frees(struct fm_heap_log *log)
{
	struct fm_map large = { 0 };
	for (size_t i = 0; i < log->blocks.n; i++)
		if (log->blocks.items[i].size >= LARGE_BYTES)
			*fm_map_at(&large, log->ids.items[i], NULL) = 1;
	size_t kept = 0, n_old = log->frees.n > N_LATEST ? log->frees.n - N_LATEST : 0;
	for (size_t i = 0; i < log->frees.n; i++) {
		uint64_t id = log->frees.items[i].id;
		if (i >= n_old || is_kept(id, log->thinning) || fm_map_find(&large, id))
			log->frees.items[kept++] = log->frees.items[i];
	}
	log->frees.n = kept;
	log->next_thin_frees = 2 * FM_MAX(kept, log->max_blocks);
	fm_map_deinit(&large);
}

static void thin(struct fm_heap_log *log)
{
	size_t kept = 0;
	log->thinning++;
	for (size_t i = 0; i < log->blocks.n; i++) {
		struct fm_block *b = &log->blocks.items[i];
		if (b->size < LARGE_BYTES) {
			if (!is_kept(log->ids.items[i], log->thinning))
				continue;
			b->weight = FM_MIN(b->weight * 2, MAX_BYTES);
		}
		log->blocks.items[kept] = *b;
		log->ids.items[kept++] = log->ids.items[i];
	}
	log->blocks.n = log->ids.n = kept;
	thin_frees(log);
}

void fm_heap_log_alloc(struct fm_heap_log *log, const struct fm_alloc *a)
{
	uint64_t size = FM_MIN(a->size, MAX_BYTES), weight = FM_MIN(FM_MAX(a->weight, a->size), MAX_BYTES);
	struct fm_block b = { .born_ns = a->time_ns,
			      .freed_ns = UINT64_MAX,
			      .size = size,
			      .weight = weight,
			      .stack_id = a->stack_id,
			      .thread_id = a->thread_id,
			      .born = FM_NEVER,
			      .died = FM_NEVER,
			      .domain = a->domain };
	if (a->domain == FM_ALLOC_COPY) {
		fm_vec_push(&log->copies, b);
		return;
	}
	if (FM_UNLIKELY(log->thinning) && size < LARGE_BYTES) {
		if (!is_kept(a->id, log->thinning))
			return;
		b.weight = FM_MIN(weight << log->thinning, MAX_BYTES);
	}
	if (FM_UNLIKELY(!log->max_blocks))
		log->max_blocks = MAX_BLOCKS;
	if (FM_UNLIKELY(log->blocks.n >= log->max_blocks) && log->thinning < MAX_THINNING)
		thin(log);
	fm_vec_push(&log->blocks, b);
	fm_vec_push(&log->ids, a->id);
}

void fm_heap_log_free(struct fm_heap_log *log, const struct fm_free *event)
{
	fm_vec_push(&log->frees, *event);
	if (FM_UNLIKELY(log->thinning) && log->frees.n >= log->next_thin_frees)
		thin_frees(log);
}

static uint32_t process_of(const struct fm_profile *profile, uint32_t thread_id)
{
	uint32_t process = thread_id < profile->threads.n ? profile->threads.items[thread_id].process_id : 0;
	return process < profile->processes.n ? process : 0;
}

static bool is_first_thread(const struct fm_profile *profile, uint32_t thread_id)
{
	return thread_id < profile->threads.n &&
	       profile->threads.items[thread_id].tid ==
		       profile->processes.items[process_of(profile, thread_id)].info.pid;
}

static uint32_t *find_id(const struct fm_block_ids *ids, uint64_t id)
{
	if (!ids->dense || id < ids->first || id > ids->last)
		return NULL;
	return &ids->dense[id - ids->first];
}

static void index_ids(struct fm_heap_log *log, const struct fm_profile *profile)
{
	fm_vec_grow_to(&log->by_id, FM_MAX(profile->processes.n, (size_t)1));
	for (uint32_t i = 0; i < log->blocks.n; i++) {
		struct fm_block *b = &log->blocks.items[i];
		b->process_id = process_of(profile, b->thread_id);
		struct fm_block_ids *ids = &log->by_id.items[b->process_id];
		uint64_t id = log->ids.items[i];
		ids->first = ids->n ? FM_MIN(ids->first, id) : id;
		ids->last = FM_MAX(ids->last, id);
		ids->n++;
	}
	for (size_t i = 0; i < log->by_id.n; i++) {
		struct fm_block_ids *ids = &log->by_id.items[i];
		if (ids->n && ids->last - ids->first < ids->n * MAX_ROOM)
			ids->dense = fm_alloc((size_t)(ids->last - ids->first + 1) * sizeof(uint32_t));
	}
	for (uint32_t i = 0; i < log->blocks.n; i++) {
		struct fm_block_ids *ids = &log->by_id.items[log->blocks.items[i].process_id];
		uint32_t *place = find_id(ids, log->ids.items[i]);
		if (place)
			*place = i + 1;
		else if (log->ids.items[i])
			*fm_map_at(&ids->sparse, log->ids.items[i], NULL) = i;
	}
}

static struct fm_block *find_block(const struct fm_heap_log *log, uint32_t process_id, uint64_t id)
{
	if (!id || process_id >= log->by_id.n)
		return NULL;
	const struct fm_block_ids *ids = &log->by_id.items[process_id];
	if (ids->dense) {
		const uint32_t *place = find_id(ids, id);
		return place && *place ? &log->blocks.items[*place - 1] : NULL;
	}
	const uint64_t *at = fm_map_find(&ids->sparse, id);
	return at ? &log->blocks.items[*at] : NULL;
}

static void match(struct fm_heap_log *log, const struct fm_profile *profile)
{
	index_ids(log, profile);
	for (size_t i = 0; i < log->frees.n; i++) {
		const struct fm_free *f = &log->frees.items[i];
		struct fm_block *b = find_block(log, process_of(profile, f->thread_id), f->id);
		if (!b)
			continue;
		b->freed_ns = FM_MAX(f->time_ns, b->born_ns); // clocks of two CPUs may differ by a few ns
		if (!is_first_thread(profile, f->thread_id))
			log->last_side_free_ns = FM_MAX(log->last_side_free_ns, b->freed_ns);
	}
	fm_vec_deinit(&log->frees);
}

static void take_touches(struct fm_heap_log *log, const struct fm_profile *profile)
{
	for (size_t i = 0; i < log->blocks.n; i++)
		log->blocks.items[i].held = log->blocks.items[i].weight;
	for (size_t i = 0; i < profile->alloc_touches.n; i++) {
		const struct fm_alloc_touched *t = &profile->alloc_touches.items[i];
		struct fm_block *b = find_block(log, t->process_id, t->alloc_id);
		if (b && b->size)
			b->held = (uint64_t)((double)b->weight * (double)FM_MIN(t->bytes, b->size) / (double)b->size);
	}
}

static void find_run(struct fm_heap_log *log, const struct fm_profile *profile)
{
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;
#define SPAN(ns)                                                   \
	do {                                                       \
		uint64_t ns_ = (ns);                               \
		begin_ns = ns_ ? FM_MIN(begin_ns, ns_) : begin_ns; \
		end_ns = FM_MAX(end_ns, ns_);                      \
	} while (0)
	for (size_t i = 0; i < profile->processes.n; i++) {
		SPAN(profile->processes.items[i].info.start_ns);
		SPAN(profile->processes.items[i].end_ns);
	}
	for (size_t i = 0; i < profile->memory_levels.n; i++)
		SPAN(profile->memory_levels.items[i].time_ns);
	for (size_t i = 0; i < log->blocks.n; i++) {
		SPAN(log->blocks.items[i].born_ns);
		if (log->blocks.items[i].freed_ns != UINT64_MAX)
			SPAN(log->blocks.items[i].freed_ns);
	}
	for (size_t i = 0; i < log->copies.n; i++)
		SPAN(log->copies.items[i].born_ns);
#undef SPAN
	log->begin_ns = FM_MIN(begin_ns, end_ns);
	log->end_ns = end_ns;
}

// Stable, by time; 11 bits a pass and as many passes as the run is long.
static void sort_steps(struct fm_heap_log *log)
{
	size_t n = log->steps.n;
	if (!n)
		return;
	struct fm_step *from = log->steps.items, *to = fm_alloc((n + 1) * sizeof(*to)), *spare = to;
	uint64_t span = log->end_ns - log->begin_ns;
	for (unsigned shift = 0; shift < 64 && span >> shift; shift += 11) {
		size_t counts[2049] = { 0 };
		for (size_t i = 0; i < n; i++)
			counts[((from[i].time_ns - log->begin_ns) >> shift & 2047) + 1]++;
		for (unsigned k = 0; k < 2048; k++)
			counts[k + 1] += counts[k];
		for (size_t i = 0; i < n; i++)
			to[counts[(from[i].time_ns - log->begin_ns) >> shift & 2047]++] = from[i];
		struct fm_step *swap = from;
		from = to;
		to = swap;
	}
	if (from == spare) // an odd number of passes
		memcpy(log->steps.items, spare, n * sizeof(*from));
	free(spare);
}

void fm_heap_log_sort(struct fm_heap_log *log, const struct fm_profile *profile)
{
	struct fm_str cut = fm_profile_meta(profile, "memory_log_end_ns", (struct fm_str){ "", 0 });
	for (uint32_t i = 0; i < cut.len && cut.p[i] >= '0' && cut.p[i] <= '9'; i++)
		log->cut_ns = log->cut_ns * 10 + (uint64_t)(cut.p[i] - '0');
	match(log, profile);
	take_touches(log, profile);
	find_run(log, profile);
	fm_vec_reserve(&log->steps, log->blocks.n * 2);
	for (uint32_t i = 0; i < log->blocks.n; i++)
		log->steps.items[log->steps.n++] = (struct fm_step){ log->blocks.items[i].born_ns, i };
	for (uint32_t i = 0; i < log->blocks.n; i++) {
		const struct fm_block *b = &log->blocks.items[i];
		uint64_t gone_ns = b->freed_ns;
		uint64_t process_end_ns =
			b->process_id < profile->processes.n ? profile->processes.items[b->process_id].end_ns : 0;
		if (log->cut_ns)
			gone_ns = FM_MIN(gone_ns, FM_MAX(log->cut_ns, b->born_ns)); // what became of it, nobody saw
		if (process_end_ns && process_end_ns < log->end_ns)
			gone_ns = FM_MIN(gone_ns, FM_MAX(process_end_ns, b->born_ns));
		if (gone_ns != UINT64_MAX)
			log->steps.items[log->steps.n++] = (struct fm_step){ gone_ns, i | FM_STEP_DIES };
	}
	sort_steps(log);
	for (uint32_t i = 0; i < log->steps.n; i++) {
		uint32_t block = log->steps.items[i].block;
		if (block & FM_STEP_DIES)
			log->blocks.items[block & ~FM_STEP_DIES].died = i;
		else
			log->blocks.items[block].born = i;
	}
}

const struct fm_block *fm_heap_log_find(const struct fm_heap_log *log, uint32_t process_id, uint64_t id)
{
	return find_block(log, process_id, id);
}

uint32_t fm_heap_log_steps_until(const struct fm_heap_log *log, uint64_t time_ns)
{
	size_t low = 0, high = log->steps.n;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (log->steps.items[middle].time_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return (uint32_t)low;
}
