// SPDX-License-Identifier: Apache-2.0
// Tables may lie in each other's holes (a compiler fills a page from many objects). So they are cut
// into runs, one for each stretch of code that is described without a gap, and the runs of all
// tables are sorted into one list.
#include "collect/jit/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"
#include "base/clock.h"

// One published table spans at most this much: its rows count in 32 bits.
#define MAX_SPAN (1ull << 31)
// Publishing copies all rows. With many, new code waits this long for its own.
#define MANY_ROWS 100000u
#define MANY_ROWS_NS 250000000u

struct run {
	uint64_t start, end;
	const struct fm_unwind_row *rows;
	size_t n; // without the GAP at its end
	size_t table_idx;
};

struct runs {
	struct run *items;
	size_t n, cap;
};

void fm_jit_code_deinit(struct fm_jit_code *c)
{
	for (size_t i = 0; i < c->tables.n; i++)
		fm_jit_rows_deinit(&c->tables.items[i].rows);
	fm_vec_deinit(&c->tables);
	fm_vec_deinit(&c->areas);
	*c = (struct fm_jit_code){ 0 };
}

void fm_jit_code_remove(struct fm_jit_code *c, uint64_t key)
{
	for (size_t i = 0; i < c->tables.n; i++)
		if (c->tables.items[i].key == key) {
			fm_jit_rows_deinit(&c->tables.items[i].rows);
			memmove(&c->tables.items[i], &c->tables.items[i + 1],
				(--c->tables.n - i) * sizeof(*c->tables.items));
			c->is_changed = true;
			return;
		}
}

void fm_jit_code_add(struct fm_jit_code *c, uint64_t key, struct fm_jit_rows *rows)
{
	fm_jit_code_remove(c, key);
	if (!rows->rows.n) {
		fm_jit_rows_deinit(rows);
		return;
	}
	fm_vec_push(&c->tables, (struct fm_jit_table){ key, *rows });
	*rows = (struct fm_jit_rows){ 0 };
	c->is_changed = true;
}

bool fm_jit_code_has(const struct fm_jit_code *c, uint64_t addr)
{
	for (size_t i = 0; i < c->tables.n; i++) {
		const struct fm_jit_rows *t = &c->tables.items[i].rows;
		if (addr < t->base || addr >= t->end)
			continue;
		size_t n = fm_bisect(t->rows.n, k, t->rows.items[k].addr <= addr - t->base);
		const struct fm_unwind_row *row = &t->rows.items[n ? n - 1 : 0];
		if (row->kind != FM_UNWIND_GAP && !(row->flags & FM_UNWIND_GUESSED))
			return true;
	}
	return false;
}

static int compare(const void *pa, const void *pb)
{
	const struct run *a = pa, *b = pb;
	if (a->start != b->start)
		return (a->start > b->start) - (a->start < b->start);
	return (a->table_idx < b->table_idx) - (a->table_idx > b->table_idx); // the later one first
}

static void cut(const struct fm_jit_code *c, struct runs *ret)
{
	for (size_t t = 0; t < c->tables.n; t++) {
		const struct fm_jit_rows *table = &c->tables.items[t].rows;
		const struct fm_unwind_row *rows = table->rows.items;
		size_t from = 0;
		for (size_t i = 0; i < table->rows.n; i++) {
			if (rows[i].kind != FM_UNWIND_GAP)
				continue;
			if (i > from)
				fm_vec_push(ret, (struct run){ table->base + rows[from].addr,
							       table->base + rows[i].addr, rows + from, i - from, t });
			from = i + 1;
		}
	}
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), compare);
	// Of two that claim the same code the later one is right: memory is used again.
	size_t kept = 0;
	for (size_t i = 0; i < ret->n; i++) {
		const struct run run = ret->items[i];
		if (kept && run.start < ret->items[kept - 1].end) {
			if (run.table_idx > ret->items[kept - 1].table_idx)
				ret->items[kept - 1] = run;
			continue;
		}
		ret->items[kept++] = run;
	}
	ret->n = kept;
}

static void publish_group(const struct run *runs, size_t n, struct fm_rows *rows, uint32_t process_idx, uint32_t epoch)
{
	FM_VEC(struct fm_unwind_row) all = { 0 };
	uint64_t base = runs[0].start, end = runs[n - 1].end;
	for (size_t i = 0; i < n; i++) {
		uint32_t first = runs[i].rows[0].addr;
		for (size_t k = 0; k < runs[i].n; k++) {
			struct fm_unwind_row row = runs[i].rows[k];
			row.addr = (uint32_t)(runs[i].start - base) + (row.addr - first);
			fm_vec_push(&all, row);
		}
		if (i + 1 == n || runs[i + 1].start > runs[i].end)
			fm_vec_push(&all, (struct fm_unwind_row){ .addr = (uint32_t)(runs[i].end - base) });
	}
	fm_rows_publish_code(rows, process_idx, base, end, base, all.items, all.n, epoch);
	fm_vec_deinit(&all);
}

void fm_jit_code_publish(struct fm_jit_code *c, struct fm_rows *rows, uint32_t process_idx)
{
	uint64_t now_ns = fm_now_ns(), n_rows = 0;
	if (!c->is_changed)
		return;
	for (size_t i = 0; i < c->tables.n; i++)
		n_rows += c->tables.items[i].rows.rows.n;
	if (n_rows > MANY_ROWS && now_ns - c->published_ns < MANY_ROWS_NS)
		return;
	c->is_changed = false;
	c->published_ns = now_ns;
	c->epoch++;
	struct runs runs = { 0 };
	cut(c, &runs);
	for (size_t i = 0, from = 0; i < runs.n; i++)
		if (i + 1 == runs.n || runs.items[i + 1].end - runs.items[from].start > MAX_SPAN) {
			publish_group(runs.items + from, i + 1 - from, rows, process_idx, c->epoch);
			from = i + 1;
		}
	fm_vec_deinit(&runs);
	for (size_t i = 0; i < c->areas.n; i++)
		fm_rows_publish_code(rows, process_idx, c->areas.items[i].start, c->areas.items[i].end, 0, NULL, 0,
				     c->epoch);
	fm_rows_retract_code(rows, process_idx, c->epoch);
}
