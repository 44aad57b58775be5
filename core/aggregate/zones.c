#include "aggregate/zones.h"

#include <stdlib.h>

#define MAX_MARKS 10000
#define MAX_POINTS 8192 // of one counter
#define MAX_COUNTERS 64
#define MAX_DEPTH UINT16_MAX

struct open_zone {
	fm_zone_ref ref;
	uint64_t begin_ns;
};

struct track {
	FM_VEC(struct open_zone) open;
	uint64_t last_ns;
};

struct reading {
	struct fm_zones *z;
	size_t max_zones;
	FM_VEC(struct track) tracks; // by thread id
};

static int longest_first(const void *a, const void *b)
{
	const struct fm_zone *x = a, *y = b;
	if (x->duration_ns != y->duration_ns)
		return x->duration_ns < y->duration_ns ? 1 : -1;
	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static int in_order(const void *a, const void *b)
{
	const struct fm_zone *x = a, *y = b;
	if (x->thread_id != y->thread_id)
		return x->thread_id < y->thread_id ? -1 : 1;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return x->depth < y->depth ? -1 : x->depth > y->depth;
}

static void keep_longest(struct fm_zones *z, size_t max)
{
	if (z->items.n <= max)
		return;
	qsort(z->items.items, z->items.n, sizeof(*z->items.items), longest_first);
	for (size_t i = max; i < z->items.n; i++)
		z->left_out_ns += z->items.items[i].duration_ns;
	z->n_left_out += z->items.n - max;
	z->items.n = max;
}

static void begin(struct track *t, fm_zone_ref ref, uint64_t ns)
{
	fm_vec_push(&t->open, (struct open_zone){ ref, ns });
}

static void end(struct reading *r, uint32_t thread_id, uint64_t ns)
{
	struct track *t = &r->tracks.items[thread_id];
	if (!t->open.n)
		return;
	const struct open_zone *zone = &t->open.items[--t->open.n];
	struct fm_zone done = { zone->ref, thread_id, (uint16_t)FM_MIN(t->open.n, (size_t)MAX_DEPTH), zone->begin_ns,
				ns - zone->begin_ns };
	fm_vec_push(&r->z->items, done);
	if (r->z->items.n >= 2 * r->max_zones + 1024) // sorted once for that many: cheap
		keep_longest(r->z, r->max_zones);
}

static void add_mark(struct fm_zones *z, const struct fm_zone_event *ev, uint32_t thread_id, uint64_t ns)
{
	if (z->marks.n < MAX_MARKS)
		fm_vec_push(&z->marks, (struct fm_zone_mark){ thread_id, ev->ref, ns });
	else
		z->n_marks_left_out++;
}

static void add_point(struct fm_zones *z, const struct fm_zone_event *ev, uint64_t ns)
{
	size_t i = 0;
	while (i < z->counters.n && z->counters.items[i].name != ev->ref)
		i++;
	if (i == MAX_COUNTERS)
		return;
	if (i == z->counters.n)
		fm_vec_push(&z->counters, (struct fm_zone_counter){ .name = ev->ref, .stride = 1 });
	struct fm_zone_counter *c = &z->counters.items[i];
	if (c->n_seen++ % c->stride)
		return;
	if (c->points.n == MAX_POINTS) {
		for (size_t k = 0; 2 * k < c->points.n; k++)
			c->points.items[k] = c->points.items[2 * k];
		c->points.n /= 2;
		c->stride *= 2;
	}
	fm_vec_push(&c->points, (struct fm_zone_point){ ns, ev->value });
}

static void add_batch(struct reading *r, const struct fm_profile *p, struct fm_zone_batch *batch)
{
	uint32_t id = batch->thread_id;
	fm_vec_grow_to(&r->tracks, (size_t)id + 1);
	struct track *t = &r->tracks.items[id];
	t->last_ns = FM_MAX(t->last_ns, batch->time_ns);
	while (t->open.n > batch->depth) // parts of the file are missing
		end(r, id, t->last_ns);
	for (uint32_t i = 0; t->open.n < batch->depth && i < batch->n_listed; i++)
		begin(t, 0, t->last_ns);
	struct fm_zone_event ev;
	while (fm_trace_next(p, batch, &ev) == FM_OK) {
		t->last_ns = FM_MAX(t->last_ns, ev.time_ns);
		switch (ev.op) {
		case FM_ZONE_ENTER:
		case FM_ZONE_RESUME:
		case FM_ZONE_BEGIN:
			begin(t, ev.ref == FM_NO_ID ? 0 : fm_zone_ref_of(ev.op, ev.ref), t->last_ns);
			break;
		case FM_ZONE_LEAVE:
			end(r, id, t->last_ns);
			break;
		case FM_ZONE_MARK:
			add_mark(r->z, &ev, id, t->last_ns);
			break;
		case FM_ZONE_COUNTER:
			add_point(r->z, &ev, t->last_ns);
			break;
		case FM_ZONE_NOTE:
			while (ev.ref == FM_ZONE_OFF && t->open.n)
				end(r, id, t->last_ns);
			break;
		}
	}
}

enum fm_err fm_zones_read(struct fm_zones *z, const char *path, size_t max_zones, struct fm_diag *diag)
{
	*z = (struct fm_zones){ 0 };
	struct fm_reader *reader;
	enum fm_err err = fm_reader_open(path, &reader, diag);
	if (err)
		return err;
	struct reading r = { .z = z, .max_zones = max_zones };
	struct fm_event event;
	while (!(err = fm_reader_next(reader, &event)))
		if (event.type == FM_EVENT_TRACE)
			add_batch(&r, fm_reader_profile(reader), event.trace);
	for (uint32_t i = 0; i < r.tracks.n; i++) {
		while (r.tracks.items[i].open.n)
			end(&r, i, r.tracks.items[i].last_ns);
		fm_vec_deinit(&r.tracks.items[i].open);
	}
	fm_vec_deinit(&r.tracks);
	fm_reader_close(reader);
	if (err != FM_E_END) {
		fm_zones_deinit(z);
		return fm_diag_set(diag, err, "cannot read %s: %s", path, fm_err_text(err));
	}
	keep_longest(z, max_zones);
	if (z->items.n)
		qsort(z->items.items, z->items.n, sizeof(*z->items.items), in_order);
	return FM_OK;
}

void fm_zones_deinit(struct fm_zones *z)
{
	for (size_t i = 0; i < z->counters.n; i++)
		fm_vec_deinit(&z->counters.items[i].points);
	fm_vec_deinit(&z->items);
	fm_vec_deinit(&z->marks);
	fm_vec_deinit(&z->counters);
	*z = (struct fm_zones){ 0 };
}
