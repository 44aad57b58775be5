#include "collect/exact_sites.h"

#include <fcntl.h>
#include <stdlib.h>

struct fm_wire_exact *fm_exact_find(const struct fm_shared *shared, uint32_t process_idx)
{
	if (shared->header->memory != FM_WIRE_MEMORY_EXACT)
		return NULL;
	for (uint32_t i = 0; i < FM_WIRE_N_EXACT; i++) {
		struct fm_wire_exact *e = (void *)(shared->base + FM_WIRE_EXACT_OFFSET + i * FM_WIRE_EXACT_BYTES);
		if (atomic_load_explicit(&e->process_idx1, memory_order_acquire) == process_idx + 1)
			return e;
	}
	return NULL;
}

void fm_exact_take_site(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			const struct fm_wire_site_stack *rec)
{
	uint32_t stack;
	if (rec->rec.size < sizeof(*rec) || rec->site >= FM_WIRE_N_SITES || rec->domain >= FM_N_ALLOC_DOMAINS) {
		r->totals.n_bad_records++;
		return;
	}
	if (!fm_take_memory_stack(r, p, s, &rec->rec, sizeof(*rec), rec->time_ns, rec->n_frames, rec->n_shared, &stack))
		return;
	while (p->sites.n <= rec->site)
		fm_vec_push(&p->sites, ((struct recorded_site){ FM_ROOT_STACK, FM_ALLOC_MALLOC }));
	p->sites.items[rec->site] = (struct recorded_site){ stack, rec->domain };
}

// Two stacks that differ only in what the file does not keep (the same code object made twice) are one site there.
static void add(struct fm_site *to, const struct fm_wire_exact *e, const struct fm_wire_site *s)
{
	to->alloc_bytes += s->alloc_bytes;
	to->n_allocs += s->n_allocs;
	to->n_frees += s->n_frees;
	to->live_bytes += s->live_bytes;
	to->peak_bytes += s->peak_bytes; // at most: their times are not known
	to->at_peak_bytes += fm_wire_site_at_peak(e, s);
}

void fm_exact_end(struct fm_recorder *r, struct recorded_process *p, uint32_t process_idx)
{
	struct fm_wire_exact *e = fm_exact_find(r->shared, process_idx);
	if (!e)
		return;
	const struct fm_wire_site *sites = fm_wire_exact_sites(e);
	uint32_t n = FM_MIN(atomic_load_explicit(&e->n_sites, memory_order_acquire), FM_WIRE_N_SITES);
	FM_VEC(struct fm_site) sums = { 0 };
	struct fm_map by_stack = { 0 };
	for (uint32_t i = 0; i < n; i++) {
		struct recorded_site site = { FM_ROOT_STACK, FM_ALLOC_MALLOC };
		if (!sites[i].n_allocs)
			continue;
		if (i < p->sites.n)
			site = p->sites.items[i];
		bool is_new;
		uint64_t *at = fm_map_at(&by_stack, (uint64_t)site.stack_id << 8 | site.domain, &is_new);
		if (is_new) {
			*at = sums.n;
			fm_vec_push(&sums, ((struct fm_site){ .process_id = p->process_id,
							      .stack_id = site.stack_id,
							      .domain = site.domain }));
		}
		add(&sums.items[*at], e, &sites[i]);
	}
	for (size_t i = 0; i < sums.n; i++)
		fm_writer_site(r->writer, &sums.items[i]);
	fm_vec_deinit(&sums);
	fm_map_deinit(&by_stack);
	r->totals.n_exact_lost += atomic_load(&e->n_lost);
	r->totals.n_exact_beyond += e->n_beyond;
	uint64_t offset = (uint64_t)((uint8_t *)e - r->shared->base);
	fallocate(r->shared->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, FM_WIRE_EXACT_BYTES);
}
