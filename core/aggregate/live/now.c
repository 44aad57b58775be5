// SPDX-License-Identifier: Apache-2.0
#include "aggregate/live/now.h"

#include <stdlib.h>

#include "base/clock.h"
#include "symbolize/names.h"

// A stack deeper than this is cut at its root: the screen has no room for it, and each look walks
// every stack.
#define MAX_FRAMES 2048u
// The file has what happened until a moment ago; within this, the last sample is how it is now.
#define FRESH_NS 500000000u
// A hundredth of the time that is shown.
#define WORTH_NS (FM_RECENT_SHOWN * FM_RECENT_BUCKET_NS / 100)

static const char *const state_names[FM_N_CLASSES] = { "python", "native", "system", "gc", "gil waiting", "waiting" };

struct builder {
	struct fm_now *now;
	const struct fm_recent *recent;
	const struct fm_profile *profile;
	struct fm_namer *namer;
	struct fm_map rows;      // key of a name -> row of functions
	struct fm_map zones;     // trace name -> row of zones
	FM_VEC(uint32_t) frames; // of the stack at hand, innermost first
};

// Of a thread, to choose which ones are shown.
struct thread_sum {
	uint32_t thread_id;
	uint64_t cpu_ns, wait_ns;
};

static bool is_on_cpu(unsigned class)
{
	return class != FM_CLASS_GIL_WAIT && class != FM_CLASS_WAIT;
}

// Lives until the next call.
static struct fm_now_function *row_of(struct builder *b, const struct fm_named *named)
{
	bool is_new;
	uint64_t *at = fm_map_at(&b->rows, named->key, &is_new);
	if (is_new) {
		*at = b->now->functions.n;
		fm_vec_push(&b->now->functions, (struct fm_now_function){ .function = named->function });
	}
	return &b->now->functions.items[*at];
}

static bool is_folded(struct builder *b, const struct fm_frame *f)
{
	const struct fm_profile *p = b->profile;
	if (f->kind == FM_FRAME_NATIVE)
		return f->ref < p->images.n && ((p->images.items[f->ref].flags & FM_IMAGE_IS_PYTHON) ||
						fm_name_is_agent(p->images.items[f->ref].path));
	return f->kind == FM_FRAME_PYTHON && f->ref < p->codes.n && fm_namer_code(b->namer, f->ref).function.is_ours;
}

// The frames that a person wants to see, innermost first: with Python in it, a stack goes without
// the interpreter's own code, without ours and without what started it (view.h has the rule).
static void shown_frames(struct builder *b, uint32_t stack_id)
{
	const struct fm_profile *p = b->profile;
	size_t n_until_python = 0;
	b->frames.n = 0;
	for (uint32_t s = stack_id; s && s < p->stacks.n && b->frames.n < MAX_FRAMES; s = p->stacks.items[s].parent) {
		uint32_t id = p->stacks.items[s].frame_id;
		fm_vec_push(&b->frames, id);
		if (id < p->frames.n && p->frames.items[id].kind == FM_FRAME_PYTHON)
			n_until_python = b->frames.n;
	}
	if (!n_until_python)
		return;
	b->frames.n = 0;
	uint32_t s = stack_id;
	for (size_t i = 0; i < n_until_python; i++, s = p->stacks.items[s].parent) {
		uint32_t id = p->stacks.items[s].frame_id;
		if (id >= p->frames.n || !is_folded(b, &p->frames.items[id]))
			fm_vec_push(&b->frames, id);
	}
}

static void add_stack(struct builder *b, uint32_t stack_id, uint64_t cpu_ns, uint64_t wait_ns)
{
	shown_frames(b, stack_id);
	for (size_t i = 0; i < b->frames.n; i++) {
		struct fm_named named = fm_namer_frame(b->namer, b->frames.items[i]);
		struct fm_now_function *f = row_of(b, &named);
		if (i == 0)
			f->self_ns += cpu_ns;
		if (f->last_stack == stack_id + 1)
			continue; // recursion
		f->last_stack = stack_id + 1;
		f->total_ns += cpu_ns;
		f->wait_ns += wait_ns;
	}
}

static void add_samples(struct builder *b, struct thread_sum *by_thread)
{
	struct stack_sum {
		uint32_t stack_id;
		uint64_t cpu_ns, wait_ns;
	};
	FM_VEC(struct stack_sum) sums = { 0 };
	struct fm_map index = { 0 };
	for (uint32_t i = 0; i < FM_RECENT_SHOWN; i++) {
		const struct fm_recent_bucket *bucket = fm_recent_bucket(b->recent, b->now->first_bucket + i);
		for (size_t k = 0; bucket && k < bucket->cells.n; k++) {
			const struct fm_recent_cell *c = &bucket->cells.items[k];
			bool is_new, is_cpu = is_on_cpu(c->class);
			uint64_t *at = fm_map_at(&index, c->stack_id, &is_new);
			if (is_new) {
				*at = sums.n;
				fm_vec_push(&sums, (struct stack_sum){ c->stack_id, 0, 0 });
			}
			*(is_cpu ? &sums.items[*at].cpu_ns : &sums.items[*at].wait_ns) += c->weight_ns;
			*(is_cpu ? &by_thread[c->thread_id].cpu_ns : &by_thread[c->thread_id].wait_ns) += c->weight_ns;
			b->now->class_ns[c->class] += c->weight_ns;
		}
	}
	for (size_t i = 0; i < sums.n; i++)
		add_stack(b, sums.items[i].stack_id, sums.items[i].cpu_ns, sums.items[i].wait_ns);
	fm_vec_deinit(&sums);
	fm_map_deinit(&index);
}

static struct fm_now_zone *zone_of(struct builder *b, uint32_t name)
{
	bool is_new;
	uint64_t *at = fm_map_at(&b->zones, name, &is_new);
	if (is_new) {
		*at = b->now->zones.n;
		fm_vec_push(&b->now->zones, (struct fm_now_zone){ .name = name });
	}
	return &b->now->zones.items[*at];
}

static bool is_zone(const struct fm_profile *p, fm_zone_ref ref)
{
	return fm_zone_ref_is_name(ref) && fm_zone_ref_id(ref) < p->trace_names.n &&
	       p->trace_names.items[fm_zone_ref_id(ref)].kind == FM_NAME_ZONE;
}

// A called function's row: of Python by its code, of C by its name.
static struct fm_now_function *called_row(struct builder *b, fm_zone_ref ref)
{
	struct fm_named named = { .key = (uint64_t)3 << 32 | fm_zone_ref_id(ref) };
	if (!fm_zone_ref_is_name(ref)) {
		named = fm_namer_code(b->namer, fm_zone_ref_id(ref));
	} else {
		named.function = (struct fm_function){ .kind = FM_FRAME_NATIVE,
						       .name = fm_now_ref_name(b->profile, ref),
						       .file = FM_STR_LIT(""),
						       .module = FM_STR_LIT("") };
	}
	return row_of(b, &named);
}

static void add_calls(struct builder *b)
{
	const struct fm_profile *p = b->profile;
	for (uint32_t i = 0; i < FM_RECENT_SHOWN; i++) {
		const struct fm_recent_bucket *bucket = fm_recent_bucket(b->recent, b->now->first_bucket + i);
		for (size_t k = 0; bucket && k < bucket->calls.n; k++) {
			const struct fm_recent_calls *c = &bucket->calls.items[k];
			bool is_name = fm_zone_ref_is_name(c->ref);
			if (!c->ref || fm_zone_ref_id(c->ref) >= (is_name ? p->trace_names.n : p->codes.n))
				continue;
			if (is_zone(p, c->ref)) {
				struct fm_now_zone *z = zone_of(b, fm_zone_ref_id(c->ref));
				z->n += c->n_ended;
				z->total_ns += c->total_ns;
				z->max_ns = FM_MAX(z->max_ns, c->max_ns);
				continue;
			}
			b->now->is_traced = true;
			struct fm_now_function *f = called_row(b, c->ref);
			f->n_calls += c->n;
			f->own_ns += c->own_ns;
		}
	}
}

static void add_open(struct builder *b)
{
	for (size_t i = 0; i < b->recent->threads.n; i++) {
		const struct fm_recent_thread *t = &b->recent->threads.items[i];
		for (size_t k = 0; k < t->open.n && !t->is_lost; k++) {
			const struct fm_recent_open *o = &t->open.items[k];
			if (is_zone(b->profile, o->ref))
				zone_of(b, fm_zone_ref_id(o->ref))->n_open++;
			if (b->now->now_ns - FM_MIN(o->begin_ns, b->now->now_ns) >= b->recent->min_span_ns)
				fm_vec_push(&b->now->spans, (struct fm_recent_span){
								    o->ref, (uint32_t)i,
								    (uint32_t)FM_MIN(t->walked.n_below + k, UINT32_MAX),
								    o->begin_ns, 0 });
		}
	}
}

static int compare_spans(const void *pa, const void *pb)
{
	const struct fm_recent_span *a = pa, *b = pb;
	uint64_t x = a->end_ns ? a->end_ns - a->begin_ns : UINT64_MAX;
	uint64_t y = b->end_ns ? b->end_ns - b->begin_ns : UINT64_MAX;
	return (x < y) - (x > y);
}

static void add_spans(struct builder *b)
{
	const struct fm_recent *r = b->recent;
	uint64_t from_ns = b->now->first_bucket * FM_RECENT_BUCKET_NS;
	for (uint64_t i = 0; i < FM_MIN(r->n_spans, FM_RECENT_SPANS); i++)
		if (r->spans[i].end_ns >= from_ns)
			fm_vec_push(&b->now->spans, r->spans[i]);
	if (b->now->spans.n)
		qsort(b->now->spans.items, b->now->spans.n, sizeof(*b->now->spans.items), compare_spans);
	b->now->spans.n = FM_MIN(b->now->spans.n, FM_NOW_SPANS);
}

static int compare_threads(const void *pa, const void *pb)
{
	const struct thread_sum *a = pa, *b = pb;
	if (a->cpu_ns != b->cpu_ns)
		return a->cpu_ns < b->cpu_ns ? 1 : -1;
	return (a->thread_id > b->thread_id) - (a->thread_id < b->thread_id);
}

static void set_state(struct builder *b, struct fm_now_thread *t)
{
	const struct fm_thread *known = &b->profile->threads.items[t->thread_id];
	const struct fm_recent_thread *seen =
		t->thread_id < b->recent->threads.n ? &b->recent->threads.items[t->thread_id] : NULL;
	t->state = "waiting"; // a thread that uses CPU time is sampled
	if (known->end_ns)
		t->state = "ended";
	else if (seen && seen->last_ns + FRESH_NS > b->now->now_ns)
		t->state = state_names[seen->last_class];
	if (!seen || !seen->last_ns)
		return;
	shown_frames(b, seen->last_stack);
	if (b->frames.n) {
		t->place = fm_namer_frame(b->namer, b->frames.items[0]);
		t->has_place = true;
	}
}

// What the threads that are shown did, bucket by bucket.
static void fill_threads(struct builder *b)
{
	struct fm_map rows = { 0 };
	for (size_t i = 0; i < b->now->threads.n; i++)
		*fm_map_at(&rows, b->now->threads.items[i].thread_id, NULL) = i;
	for (uint32_t i = 0; i < FM_RECENT_SHOWN; i++) {
		const struct fm_recent_bucket *bucket = fm_recent_bucket(b->recent, b->now->first_bucket + i);
		for (size_t k = 0; bucket && k < bucket->cells.n; k++) {
			const struct fm_recent_cell *c = &bucket->cells.items[k];
			const uint64_t *row = fm_map_find(&rows, c->thread_id);
			if (!row)
				continue;
			b->now->threads.items[*row].class_ns[c->class] += c->weight_ns;
			b->now->threads.items[*row].bucket_ns[i][c->class] += c->weight_ns;
		}
	}
	fm_map_deinit(&rows);
}

static void choose_threads(struct builder *b, struct thread_sum *by_thread)
{
	struct fm_now *now = b->now;
	size_t n = 0;
	for (size_t i = 0; i < b->profile->threads.n; i++) {
		bool is_alive = !b->profile->threads.items[i].end_ns;
		now->n_threads += is_alive;
		struct thread_sum sum = { (uint32_t)i, by_thread[i].cpu_ns, by_thread[i].wait_ns };
		if (is_alive || sum.cpu_ns || sum.wait_ns)
			by_thread[n++] = sum; // n <= i: what is overwritten was seen
	}
	if (n)
		qsort(by_thread, n, sizeof(*by_thread), compare_threads);
	for (size_t i = 0; i < FM_MIN(n, (size_t)FM_NOW_THREADS); i++)
		fm_vec_push(&now->threads, (struct fm_now_thread){ .thread_id = by_thread[i].thread_id,
								   .cpu_ns = by_thread[i].cpu_ns });
	fill_threads(b);
	for (size_t i = 0; i < now->threads.n; i++)
		set_state(b, &now->threads.items[i]);
}

// By self time; where that is next to nothing, what they call tells more than a sample more or
// less.
static int compare_functions(const void *pa, const void *pb)
{
	const struct fm_now_function *a = pa, *b = pb;
	const uint64_t keys[][2] = { { a->self_ns / WORTH_NS, b->self_ns / WORTH_NS },
				     { a->total_ns, b->total_ns },
				     { a->own_ns, b->own_ns },
				     { a->wait_ns, b->wait_ns },
				     { a->n_calls, b->n_calls } };
	for (size_t i = 0; i < FM_ARRAY_LEN(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? 1 : -1;
	return 0;
}

static int compare_zones(const void *pa, const void *pb)
{
	const struct fm_now_zone *a = pa, *b = pb;
	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	return (a->name > b->name) - (a->name < b->name);
}

static uint64_t start_of(const struct fm_profile *p)
{
	uint64_t start = UINT64_MAX;
	for (size_t i = 0; i < p->processes.n; i++)
		if (p->processes.items[i].info.start_ns)
			start = FM_MIN(start, p->processes.items[i].info.start_ns);
	return start == UINT64_MAX ? 0 : start;
}

void fm_now_build(struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p, struct fm_namer *namer,
		  uint64_t now_ns, bool is_over)
{
	*now = (struct fm_now){ .start_ns = start_of(p), .now_ns = now_ns };
	// The bucket that has begun is not shown, and the one before it is being filled: both would
	// look like a dip.
	uint64_t end = now_ns / FM_RECENT_BUCKET_NS;
	end = is_over ? end + 1 : FM_MAX(end, 1u) - 1;
	now->first_bucket = end > FM_RECENT_SHOWN ? end - FM_RECENT_SHOWN : 0;
	uint64_t from_ns = FM_MAX(now->first_bucket * FM_RECENT_BUCKET_NS, now->start_ns);
	uint64_t to_ns = (now->first_bucket + FM_RECENT_SHOWN) * FM_RECENT_BUCKET_NS;
	now->window_ns = to_ns > from_ns ? to_ns - from_ns : 0;
	fm_namer_refresh(namer, fm_now_ns());
	struct builder b = { .now = now, .recent = r, .profile = p, .namer = namer };
	struct thread_sum *by_thread = fm_alloc((p->threads.n + 1) * sizeof(*by_thread));
	add_samples(&b, by_thread);
	add_calls(&b);
	add_open(&b);
	add_spans(&b);
	choose_threads(&b, by_thread);
	free(by_thread);
	if (now->functions.n)
		qsort(now->functions.items, now->functions.n, sizeof(*now->functions.items), compare_functions);
	now->functions.n = FM_MIN(now->functions.n, FM_NOW_FUNCTIONS);
	if (now->zones.n)
		qsort(now->zones.items, now->zones.n, sizeof(*now->zones.items), compare_zones);
	now->zones.n = FM_MIN(now->zones.n, FM_NOW_ZONES);
	fm_map_deinit(&b.rows);
	fm_map_deinit(&b.zones);
	fm_vec_deinit(&b.frames);
}

void fm_now_deinit(struct fm_now *now)
{
	fm_vec_deinit(&now->threads);
	fm_vec_deinit(&now->functions);
	fm_vec_deinit(&now->zones);
	fm_vec_deinit(&now->spans);
}

struct fm_str fm_now_ref_name(const struct fm_profile *p, fm_zone_ref ref)
{
	uint32_t id = fm_zone_ref_id(ref);
	if (!ref)
		return FM_STR_LIT("[lost]");
	if (fm_zone_ref_is_name(ref))
		return id < p->trace_names.n ? p->trace_names.items[id].name : FM_STR_LIT("[lost]");
	if (id >= p->codes.n)
		return FM_STR_LIT("[lost]");
	const struct fm_code_info *code = &p->codes.items[id];
	return code->qualname.len ? code->qualname : code->name;
}
