// SPDX-License-Identifier: Apache-2.0
#include "collect/ingest/recorder_parts.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"

// How often it is looked what sites hold; less often where there are so many that it takes more
// than a 200th of the time.
#define LOOK_NS 100000000u
#define LOOK_TIMES_COST 200u

struct fm_wire_exact *fm_exact_find(const struct fm_shared *shared, uint32_t process_idx)
{
	if (!shared->sums)
		return NULL;
	for (uint32_t i = 0; i < FM_WIRE_N_EXACT; i++) {
		struct fm_wire_exact *e = (void *)(shared->sums + i * FM_WIRE_EXACT_BYTES);
		if (atomic_load_explicit(&e->process_idx1, memory_order_acquire) == process_idx + 1)
			return e;
	}
	return NULL;
}

void fm_exact_take_site(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			const struct fm_wire_site_stack *rec)
{
	if (rec->rec.size < sizeof(*rec) || rec->site >= FM_WIRE_N_SITES || rec->domain >= FM_N_ALLOC_DOMAINS) {
		r->totals.n_bad_records++;
		return;
	}
	struct wire_stack from = { .time_ns = rec->time_ns,
				   .n_frames = rec->n_frames,
				   .n_shared = rec->n_shared,
				   .leaf_idx = UINT32_MAX,
				   .precise_idx = UINT32_MAX,
				   .frames = rec->frames,
				   .n_room = (rec->rec.size - sizeof(*rec)) / sizeof(uint64_t) };
	if (!fm_ingest_wire_stack(s, &from)) {
		r->totals.n_bad_records++;
		return;
	}
	fm_vec_grow_to(&p->sites, (size_t)rec->site + 1);
	uint32_t node = fm_site_stacks_add(&p->site_stacks, s->wire.items, s->wire.n, rec->time_ns);
	p->sites.items[rec->site] = (struct recorded_site){ node, rec->domain, true };
}

static uint32_t stack_of(struct fm_recorder *r, struct recorded_process *p, uint32_t node)
{
	// Outwards to what is in the file, and back: stacks may be deeper than ours.
	FM_VEC(uint32_t) missing = { 0 };
	struct fm_site_node *nodes = p->site_stacks.nodes.items;
	for (; !nodes[node].stack_id1; node = nodes[node].parent)
		fm_vec_push(&missing, node);
	uint32_t stack = nodes[node].stack_id1 - 1;
	for (size_t i = missing.n; i-- > 0;) {
		struct fm_site_node *n = &nodes[missing.items[i]];
		stack = fm_writer_stack(r->writer, stack, fm_ingest_frame(r, p, n->frame, n->time_ns));
		n->stack_id1 = stack + 1;
	}
	fm_vec_deinit(&missing);
	return stack;
}

// Lines of the user's own code keep every byte that is theirs, however few.
static bool is_own_code(const void *process, uint64_t frame)
{
	const struct recorded_process *p = process;
	uint32_t code = frame >> 32 & ((1u << FM_WIRE_CODE_BITS) - 1);
	return (frame & ~(1ull << 63)) >> FM_WIRE_FRAME_SHIFT == FM_WIRE_FRAME_PYTHON && code < p->codes.n &&
	       !p->codes.items[code].is_library;
}

static struct recorded_site find_site(const struct recorded_process *p, uint32_t site)
{
	static const struct recorded_site nowhere = { .domain = FM_ALLOC_MALLOC };
	return site < p->sites.n && p->sites.items[site].is_told ? p->sites.items[site] : nowhere;
}

static void write_block(struct fm_recorder *r, struct recorded_process *p, const struct fm_alloc *block)
{
	struct fm_alloc alloc = *block;
	struct recorded_site site = find_site(p, block->stack_id);
	alloc.stack_id = stack_of(r, p, site.node);
	alloc.domain = site.domain;
	fm_writer_alloc(r->writer, &alloc);
	r->totals.n_memory_events++;
}

void fm_exact_take_block(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			 const struct fm_wire_block *rec)
{
	if (rec->rec.size < sizeof(*rec) || rec->site >= FM_WIRE_N_SITES) {
		r->totals.n_bad_records++;
		return;
	}
	struct fm_alloc block = { .thread_id = s->thread_id,
				  .stack_id = rec->site,
				  .time_ns = rec->time_ns,
				  .id = rec->id,
				  .size = rec->size,
				  .weight = rec->size };
	fm_site_stacks_add(&p->site_stacks, NULL, 0, 0); // the empty one, for those beyond all sites
	if (rec->site == 0 || find_site(p, rec->site).is_told)
		write_block(r, p, &block);
	else
		fm_vec_push(&p->unplaced, block);
}

// Those whose site has come meanwhile; at the end all.
static void place_blocks(struct fm_recorder *r, struct recorded_process *p, bool is_end)
{
	size_t n_left = 0;
	for (size_t i = 0; i < p->unplaced.n; i++)
		if (is_end || find_site(p, p->unplaced.items[i].stack_id).is_told)
			write_block(r, p, &p->unplaced.items[i]);
		else
			p->unplaced.items[n_left++] = p->unplaced.items[i];
	p->unplaced.n = n_left;
}

void fm_exact_settle(struct fm_recorder *r)
{
	if (!r->log_limit_bytes)
		return;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].unplaced.n)
			place_blocks(r, &r->processes[i], false);
	if (fm_writer_bytes(r->writer) >= r->log_limit_bytes && atomic_exchange(&r->shared->header->memory_log, 0))
		r->totals.log_end_ns = fm_now_ns();
}

void fm_exact_poll(struct recorded_process *p, struct fm_wire_exact *sums, uint64_t now_ns)
{
	if (!sums || now_ns < p->next_look_ns)
		return;
	const struct fm_wire_site *sites = fm_wire_exact_sites(sums);
	uint32_t n = FM_MIN(atomic_load_explicit(&sums->n_sites, memory_order_acquire), FM_WIRE_N_SITES);
	uint64_t begin_ns = fm_now_ns();
	double since_ns = p->last_look_ns ? (double)(now_ns - p->last_look_ns) : 0;
	fm_vec_grow_to(&p->byte_ns, n);
	for (uint32_t i = 0; i < n; i++)
		p->byte_ns.items[i] += since_ns * (double)sites[i].live_bytes; // one word: never torn
	fm_histories_look(&p->histories, sites, n, now_ns, false);
	p->first_look_ns = p->first_look_ns ? p->first_look_ns : now_ns;
	p->last_look_ns = now_ns;
	p->next_look_ns = now_ns + FM_MAX((uint64_t)LOOK_NS, (fm_now_ns() - begin_ns) * LOOK_TIMES_COST);
}

// Several sites are one in the file: those that were cut, and stacks that differ only in what it
// does not keep.
static void add(struct fm_site *to, const struct fm_wire_exact *e, const struct fm_wire_site *s)
{
	to->alloc_bytes += s->alloc_bytes;
	to->n_allocs += s->n_allocs;
	to->n_frees += s->n_frees;
	to->live_bytes += s->live_bytes;
	to->peak_bytes += s->peak_bytes; // at most: their times are not known
	to->at_peak_bytes += fm_wire_site_at_peak(e, s);
}

struct history_points {
	struct fm_history_point **items;
	size_t n, cap;
};

// A stack's history over all its sites; with a log, events tell more.
static void add_history(struct history_points *all, const struct fm_histories *histories, uint32_t site, size_t nth)
{
	if (site >= histories->of_site.n || !histories->of_site.items[site])
		return;
	fm_vec_grow_to(all, nth + 1);
	if (!all->items[nth])
		all->items[nth] = fm_alloc(FM_HISTORY_LOOKS * sizeof(**all->items));
	fm_histories_add(histories, site, all->items[nth]);
}

static void write_history(struct fm_recorder *r, const struct fm_histories *histories, const struct fm_site *site,
			  struct fm_history_point *points)
{
	for (uint32_t i = 0; i < histories->n_looks; i++)
		points[i].time_ns = histories->look_ns[i];
	fm_writer_site_history(r->writer, site, points, histories->n_looks);
}

static uint8_t held_of(const struct recorded_process *p, double byte_ns, uint64_t peak_bytes)
{
	double whole = (double)(p->last_look_ns - p->first_look_ns) * (double)peak_bytes;
	return whole > 0 ? (uint8_t)lround(FM_MIN(byte_ns / whole, 1.0) * 255) : 0;
}

void fm_exact_end(struct fm_recorder *r, struct recorded_process *p, uint32_t process_idx)
{
	struct fm_wire_exact *e = fm_exact_find(r->shared, process_idx);
	if (!e)
		return;
	const struct fm_wire_site *sites = fm_wire_exact_sites(e);
	uint32_t n = FM_MIN(atomic_load_explicit(&e->n_sites, memory_order_acquire), FM_WIRE_N_SITES);
	FM_VEC(struct fm_site) sums = { 0 };
	FM_VEC(double) averages = { 0 };
	struct history_points histories = { 0 }; // by place in sums
	fm_histories_look(&p->histories, sites, n, fm_now_ns(), true);
	struct fm_map by_stack = { 0 };
	fm_site_stacks_add(&p->site_stacks, NULL, 0, 0); // the empty one, at least
	place_blocks(r, p, true);
	for (uint32_t i = 0; i < n; i++)
		fm_site_stacks_count(&p->site_stacks, find_site(p, i).node, sites[i].alloc_bytes, sites[i].n_allocs,
				     sites[i].peak_bytes);
	for (uint32_t i = 0; i < n; i++) {
		if (!sites[i].n_allocs)
			continue;
		struct recorded_site site = find_site(p, i);
		r->totals.n_exact_untold += i && !site.is_told ? sites[i].n_allocs : 0;
		// With a log, every stack is there already.
		uint32_t node =
			r->log_limit_bytes ? site.node : fm_site_stacks_cut(&p->site_stacks, site.node, is_own_code, p);
		uint32_t stack = stack_of(r, p, node);
		bool is_new;
		uint64_t *at = fm_map_at(&by_stack, (uint64_t)stack << 8 | site.domain, &is_new);
		if (is_new) {
			*at = sums.n;
			fm_vec_push(&sums,
				    ((struct fm_site){
					    .process_id = p->process_id, .stack_id = stack, .domain = site.domain }));
		}
		add(&sums.items[*at], e, &sites[i]);
		fm_vec_grow_to(&averages, sums.n);
		averages.items[*at] += i < p->byte_ns.n ? p->byte_ns.items[i] : 0;
		if (!r->log_limit_bytes)
			add_history(&histories, &p->histories, i, *at);
	}
	for (size_t i = 0; i < sums.n; i++) {
		sums.items[i].held = held_of(p, averages.items[i], sums.items[i].peak_bytes);
		fm_writer_site(r->writer, &sums.items[i]);
		if (i < histories.n && histories.items[i])
			write_history(r, &p->histories, &sums.items[i], histories.items[i]);
		if (i < histories.n)
			free(histories.items[i]);
	}
	fm_vec_deinit(&histories);
	fm_vec_deinit(&sums);
	fm_vec_deinit(&averages);
	fm_map_deinit(&by_stack);
	r->totals.n_exact_lost += atomic_load(&e->n_lost);
	r->totals.n_exact_beyond += e->n_beyond;
	r->totals.max_sites = FM_MAX(r->totals.max_sites, n);
	r->totals.n_unlogged += atomic_load(&e->n_unlogged);
	uint64_t offset = FM_WIRE_EXACT_OFFSET + (uint64_t)((uint8_t *)e - r->shared->sums);
	fallocate(r->shared->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, FM_WIRE_EXACT_BYTES);
}
