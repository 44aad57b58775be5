// SPDX-License-Identifier: Apache-2.0
// What is mapped where in each process of perf.data, as mmap, fork and exec change it.
#include "import/perf_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"

static void drop_maps(struct fm_perf_spaces *s, struct fm_perf_process *p)
{
	struct fm_perf_maps *maps = p->maps;
	p->maps = NULL;
	fm_map_deinit(&p->frames);
	if (!maps || --maps->n_users)
		return;
	s->n_maps -= maps->items.n;
	fm_vec_deinit(&maps->items);
	free(maps);
}

void fm_perf_spaces_deinit(struct fm_perf_spaces *s)
{
	for (size_t i = 0; i < s->items.n; i++) {
		drop_maps(s, s->items.items[i]);
		fm_perf_jit_close(s->items.items[i]->jit);
		free(s->items.items[i]);
	}
	fm_vec_deinit(&s->items);
	fm_map_deinit(&s->by_pid);
}

struct fm_perf_process *fm_perf_process_get(struct fm_perf_spaces *s, uint32_t pid)
{
	bool is_new;
	uint64_t *at = fm_map_at(&s->by_pid, pid, &is_new);
	if (is_new) {
		*at = s->items.n;
		struct fm_perf_process *p = fm_alloc(sizeof(*p));
		p->pid = pid;
		p->is_elsewhere = s->is_elsewhere;
		p->process_id = FM_NO_ID; // until something is seen of it
		fm_vec_push(&s->items, p);
	}
	return s->items.items[*at];
}

// Its own, to be changed. NULL: there is no room for a copy.
static struct fm_perf_maps *own_maps(struct fm_perf_spaces *s, struct fm_perf_process *p)
{
	struct fm_perf_maps *old = p->maps;
	if (old && old->n_users == 1)
		return old;
	size_t n = old ? old->items.n : 0;
	if (s->n_maps + n >= FM_PERF_MAX_ALL_MAPS)
		return NULL;
	struct fm_perf_maps *maps = fm_alloc(sizeof(*maps));
	maps->n_users = 1;
	fm_vec_reserve(&maps->items, n + 1);
	if (n)
		memcpy(maps->items.items, old->items.items, n * sizeof(*maps->items.items));
	maps->items.n = n;
	s->n_maps += n;
	drop_maps(s, p);
	p->maps = maps;
	return maps;
}

void fm_perf_process_map(struct fm_perf_spaces *s, struct fm_perf_process *p, const struct fm_perf_map *map)
{
	struct fm_perf_maps *m = own_maps(s, p);
	fm_map_deinit(&p->frames);
	if (!m || m->items.n + 2 > FM_PERF_MAX_MAPS || s->n_maps + 2 > FM_PERF_MAX_ALL_MAPS) {
		s->is_full = true;
		return;
	}
	// What lay there before is gone; of a mapping around it two parts stay.
	size_t from = fm_bisect(m->items.n, i, m->items.items[i].end <= map->start);
	size_t to = fm_bisect(m->items.n, i, m->items.items[i].start < map->end);
	struct fm_perf_map parts[3];
	size_t n_parts = 0;
	if (from < to && m->items.items[from].start < map->start) {
		parts[n_parts] = m->items.items[from];
		parts[n_parts++].end = map->start;
	}
	parts[n_parts++] = *map;
	if (from < to && m->items.items[to - 1].end > map->end) {
		parts[n_parts] = m->items.items[to - 1];
		parts[n_parts].offset += map->end - parts[n_parts].start;
		parts[n_parts++].start = map->end;
	}
	fm_vec_reserve(&m->items, m->items.n + n_parts);
	memmove(m->items.items + from + n_parts, m->items.items + to, (m->items.n - to) * sizeof(*m->items.items));
	memcpy(m->items.items + from, parts, n_parts * sizeof(*parts));
	m->items.n += n_parts - (to - from);
	s->n_maps += n_parts - (to - from);
}

void fm_perf_process_fork(struct fm_perf_spaces *s, struct fm_perf_process *child, const struct fm_perf_process *parent)
{
	if (child == parent)
		return;
	fm_perf_process_exec(s, child); // its number may be one that was used before
	child->map_pid = parent->pid;
	child->maps = parent->maps;
	child->exe = parent->exe;
	if (child->maps)
		child->maps->n_users++;
}

void fm_perf_process_exec(struct fm_perf_spaces *s, struct fm_perf_process *p)
{
	drop_maps(s, p);
	fm_perf_jit_close(p->jit);
	p->jit = NULL;
	p->exe = NULL;
	p->map_pid = 0;
}

struct fm_perf_map *fm_perf_process_find(const struct fm_perf_process *p, uint64_t pc)
{
	if (!p->maps)
		return NULL;
	size_t at = fm_bisect(p->maps->items.n, i, p->maps->items.items[i].end <= pc);
	return at < p->maps->items.n && p->maps->items.items[at].start <= pc ? &p->maps->items.items[at] : NULL;
}
