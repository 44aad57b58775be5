// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tally/workers.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tally/weight.h"
#include "symbolize/names.h"

// Of images that workers and callers share; further ones tie nobody.
#define MAX_IMAGES 64u
// New stacks; workers that would need more stay untied.
#define MAX_STACKS (1u << 21)

struct process {
	FM_VEC(uint32_t) callers; // ids of threads
};

// Whom a worker mostly works for when there is no doubt: the candidate of a running majority vote.
struct home {
	uint32_t thread_id;
	uint32_t votes;
};

struct fm_workers {
	struct fm_reader *reader;
	const struct fm_profile *profile;
	size_t n_stacks;        // of the file
	uint64_t *images;       // by stack: those of the frames inside the innermost Python frame
	uint32_t *python_stack; // by stack: up to its innermost Python frame; 0 = none
	struct fm_callers callers;
	struct process *processes;
	struct home *homes; // by thread
	size_t n_threads;
	struct fm_map grafts; // Python stack << 32 | worker's stack -> new stack
	uint32_t frame_id;    // "[worker threads]"
	size_t n_grafts;
};

void fm_workers_destroy(struct fm_workers *w)
{
	if (!w)
		return;
	for (size_t i = 0; w->processes && i < w->profile->processes.n; i++)
		fm_vec_deinit(&w->processes[i].callers);
	fm_callers_deinit(&w->callers);
	fm_map_deinit(&w->grafts);
	free(w->images);
	free(w->python_stack);
	free(w->processes);
	free(w->homes);
	free(w);
}

// ---- libraries ----

static const struct fm_frame *frame_of(const struct fm_workers *w, uint32_t stack_id)
{
	return &w->profile->frames.items[w->profile->stacks.items[stack_id].frame_id];
}

static void find_python(struct fm_workers *w)
{
	for (uint32_t s = 1; s < w->n_stacks; s++)
		w->python_stack[s] = frame_of(w, s)->kind == FM_FRAME_PYTHON
					     ? s
					     : w->python_stack[w->profile->stacks.items[s].parent];
}

enum { BY_WORKER = 1, BY_CALLER = 2, BY_BOTH = 3 };

// Marks the images of the frames from here out to the next Python frame.
static void mark_images(const struct fm_workers *w, uint32_t stack_id, uint8_t by, uint8_t *stack_marks,
			uint8_t *image_marks)
{
	for (uint32_t s = stack_id; s && s < w->n_stacks; s = w->profile->stacks.items[s].parent) {
		const struct fm_frame *f = frame_of(w, s);
		if (f->kind == FM_FRAME_PYTHON || stack_marks[s] & by)
			return;
		stack_marks[s] |= by;
		if (f->kind == FM_FRAME_NATIVE && f->ref < w->profile->images.n)
			image_marks[f->ref] |= by;
	}
}

static bool is_telling(const struct fm_image *image)
{
	return !(image->flags & (FM_IMAGE_IS_PYTHON | FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_NAMED | FM_IMAGE_IS_VDSO)) &&
	       !fm_name_is_go_between(image->path);
}

// By image: its bit in the sets, 0 for those that do not tie anybody. NULL when none does.
static uint64_t *find_shared(const struct fm_workers *w, const struct fm_tally *tally)
{
	uint8_t *stack_marks = fm_alloc(w->n_stacks), *image_marks = fm_alloc(w->profile->images.n + 1);
	for (size_t i = 0; i < tally->cells.n; i++) {
		const struct fm_cell *cell = &tally->cells.items[i];
		bool has_python = cell->stack_id < w->n_stacks && w->python_stack[cell->stack_id];
		if (has_python || fm_class_is_cpu(cell->class))
			mark_images(w, cell->stack_id, has_python ? BY_CALLER : BY_WORKER, stack_marks, image_marks);
	}
	uint64_t *bits = fm_alloc((w->profile->images.n + 1) * sizeof(*bits));
	unsigned n = 0;
	for (size_t i = 0; i < w->profile->images.n && n < MAX_IMAGES; i++)
		if (image_marks[i] == BY_BOTH && is_telling(&w->profile->images.items[i]))
			bits[i] = 1ull << n++;
	free(stack_marks);
	free(image_marks);
	if (n)
		return bits;
	free(bits);
	return NULL;
}

static void find_images(struct fm_workers *w, const uint64_t *bits)
{
	w->images = fm_alloc(w->n_stacks * sizeof(*w->images));
	for (uint32_t s = 1; s < w->n_stacks; s++) {
		const struct fm_frame *f = frame_of(w, s);
		if (f->kind == FM_FRAME_PYTHON)
			continue;
		w->images[s] = w->images[w->profile->stacks.items[s].parent];
		if (f->kind == FM_FRAME_NATIVE && f->ref < w->profile->images.n)
			w->images[s] |= bits[f->ref];
	}
}

// ---- whom a worker works for ----

static bool is_worker(const struct fm_workers *w, const struct fm_sample *s)
{
	return s->thread_id < w->n_threads && s->stack_id < w->n_stacks && fm_class_is_cpu(s->class) &&
	       w->images[s->stack_id] && !w->python_stack[s->stack_id];
}

static bool is_same_place(const struct fm_workers *w, const struct fm_call *a, const struct fm_call *b)
{
	const struct fm_stack *stacks = w->profile->stacks.items;
	return stacks[a->python_stack].frame_id == stacks[b->python_stack].frame_id;
}

struct found {
	const struct fm_call *call;
	uint32_t thread_id;
	bool is_doubtful; // another thread on another line may be meant as well
};

static struct found find_caller(const struct fm_workers *w, const struct fm_sample *s)
{
	struct found found = { NULL, FM_NO_ID, false };
	const struct home *home = &w->homes[s->thread_id];
	const struct process *p = &w->processes[w->profile->threads.items[s->thread_id].process_id];
	int most = 0;
	for (size_t i = 0; i < p->callers.n; i++) {
		uint32_t thread_id = p->callers.items[i];
		const struct fm_call *call =
			thread_id != s->thread_id ? fm_callers_at(&w->callers, thread_id, s->time_ns) : NULL;
		int shared = call ? __builtin_popcountll(call->images & w->images[s->stack_id]) : 0;
		if (!shared || shared < most)
			continue;
		bool is_better = shared > most;
		found.is_doubtful = !is_better && (found.is_doubtful || !is_same_place(w, call, found.call));
		if (is_better || (home->votes && home->thread_id == thread_id)) {
			found.call = call;
			found.thread_id = thread_id;
		}
		most = shared;
	}
	return found;
}

static const struct fm_call *call_of(const struct fm_workers *w, const struct fm_sample *s)
{
	struct found found = find_caller(w, s);
	const struct home *home = &w->homes[s->thread_id];
	bool is_at_home = home->votes && home->thread_id == found.thread_id;
	return found.call && (!found.is_doubtful || is_at_home) ? found.call : NULL;
}

static uint64_t graft_key(uint32_t python_stack, uint32_t stack_id)
{
	return (uint64_t)python_stack << 32 | stack_id;
}

uint32_t fm_workers_stack(const struct fm_workers *w, const struct fm_sample *s)
{
	const struct fm_call *call = w && is_worker(w, s) ? call_of(w, s) : NULL;
	const uint64_t *grafted = call ? fm_map_find(&w->grafts, graft_key(call->python_stack, s->stack_id)) : NULL;
	return grafted ? (uint32_t)*grafted : s->stack_id;
}

// The worker's stack below the Python one; the worker's own when there are too many.
static uint32_t graft(struct fm_workers *w, uint32_t python_stack, uint32_t stack_id)
{
	FM_VEC(uint32_t) path = { 0 };
	uint64_t *known = NULL;
	uint32_t s = stack_id;
	for (; !(known = fm_map_find(&w->grafts, graft_key(python_stack, s))) && s;
	     s = w->profile->stacks.items[s].parent)
		fm_vec_push(&path, s);
	uint32_t at = known ? (uint32_t)*known : 0;
	if (w->n_grafts + path.n + 1 > MAX_STACKS) {
		fm_vec_deinit(&path);
		return stack_id;
	}
	if (!known) {
		at = fm_reader_add_stack(w->reader, (struct fm_stack){ python_stack, w->frame_id });
		*fm_map_at(&w->grafts, graft_key(python_stack, 0), NULL) = at;
		w->n_grafts++;
	}
	for (size_t i = path.n; i-- > 0;) {
		uint32_t frame_id = w->profile->stacks.items[path.items[i]].frame_id;
		at = fm_reader_add_stack(w->reader, (struct fm_stack){ at, frame_id });
		*fm_map_at(&w->grafts, graft_key(python_stack, path.items[i]), NULL) = at;
		w->n_grafts++;
	}
	fm_vec_deinit(&path);
	return at;
}

// ---- the samples once more ----

struct tying {
	struct fm_workers *w;
	struct fm_tally *tally;
	void (*each)(const struct tying *t, const struct fm_sample *s);
};

static void add_caller(const struct tying *t, const struct fm_sample *s)
{
	struct fm_workers *w = t->w;
	if (s->thread_id >= w->n_threads || s->stack_id >= w->n_stacks || s->class >= FM_N_CLASSES)
		return;
	uint32_t python_stack = w->python_stack[s->stack_id];
	fm_callers_add(&w->callers, s, python_stack, python_stack ? w->images[s->stack_id] : 0);
}

static void vote(const struct tying *t, const struct fm_sample *s)
{
	struct fm_workers *w = t->w;
	struct found found = is_worker(w, s) ? find_caller(w, s) : (struct found){ NULL, FM_NO_ID, false };
	if (!found.call || found.is_doubtful)
		return;
	struct home *home = &w->homes[s->thread_id];
	if (home->votes && home->thread_id != found.thread_id)
		home->votes--;
	else if (home->votes < UINT32_MAX)
		*home = (struct home){ found.thread_id, home->votes + 1 };
}

static void move(const struct tying *t, const struct fm_sample *s)
{
	struct fm_workers *w = t->w;
	const struct fm_call *call = is_worker(w, s) ? call_of(w, s) : NULL;
	uint32_t stack_id = call ? graft(w, call->python_stack, s->stack_id) : s->stack_id;
	if (stack_id != s->stack_id)
		fm_tally_move(t->tally, s, stack_id);
}

static void on_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	const struct tying *t = ctx;
	for (uint32_t i = 0; i < n; i++)
		t->each(t, &samples[i]);
}

static enum fm_err replay(struct tying t, struct fm_diag *diag)
{
	const struct fm_observer observer = { .on_samples = on_samples, .ctx = &t };
	return fm_reader_replay(t.w->reader, &observer, diag);
}

// True when there are several in one process: then votes tell in doubt.
static bool sort_callers(struct fm_workers *w)
{
	bool is_doubtful = false;
	w->processes = fm_alloc((w->profile->processes.n + 1) * sizeof(*w->processes));
	for (uint32_t i = 0; i < FM_MIN(w->callers.threads.n, w->n_threads); i++)
		if (w->callers.threads.items[i].calls.n) {
			struct process *p = &w->processes[w->profile->threads.items[i].process_id];
			fm_vec_push(&p->callers, i);
			is_doubtful |= p->callers.n > 1;
		}
	return is_doubtful;
}

enum fm_err fm_workers_tie(struct fm_reader *reader, struct fm_tally *tally, struct fm_workers **ret,
			   struct fm_diag *diag)
{
	struct fm_workers *w = fm_alloc(sizeof(*w));
	w->reader = reader;
	w->profile = fm_reader_profile(reader);
	w->n_stacks = w->profile->stacks.n;
	w->n_threads = w->profile->threads.n;
	w->python_stack = fm_alloc((w->n_stacks + 1) * sizeof(*w->python_stack));
	find_python(w);
	uint64_t *bits = find_shared(w, tally);
	enum fm_err err = FM_OK;
	if (bits) {
		find_images(w, bits);
		free(bits);
		w->homes = fm_alloc((w->n_threads + 1) * sizeof(*w->homes));
		w->frame_id = fm_reader_add_frame(reader, (struct fm_frame){ FM_FRAME_WORKERS, 0, 0 });
		err = replay((struct tying){ w, tally, add_caller }, diag);
		if (!err && sort_callers(w))
			err = replay((struct tying){ w, tally, vote }, diag);
		if (!err)
			err = replay((struct tying){ w, tally, move }, diag);
	}
	if (!w->n_grafts) {
		fm_workers_destroy(w);
		w = NULL;
	} else {
		fm_tally_drop_empty(tally);
	}
	*ret = w;
	return err;
}
