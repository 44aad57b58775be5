#include "collect/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/remote_parts.h"
#include "format/model.h"

// What is read of a stack in one go. Most are smaller; the rest comes page by page.
#define STACK_PAGES 8u
#define DW_RSP 7
#define SYSCALL_FUTEX 202 // x86-64

struct fm_remote *fm_remote_create(uint32_t pid, struct fm_remote_files *files, const struct fm_shared *shared,
				   uint32_t process_idx)
{
	struct fm_remote *r = fm_alloc(sizeof(*r));
	r->pid = pid;
	r->shared = shared;
	r->process_idx = process_idx;
	r->max_frames = FM_REMOTE_MAX_FRAMES;
	r->max_chain = FM_REMOTE_MAX_CHAIN;
	r->memory = fm_remote_files_memory(files);
	r->images = fm_remote_images_create(pid, files);
	fm_arena_init(&r->arena);
	return r;
}

void fm_remote_destroy(struct fm_remote *r)
{
	if (!r)
		return;
	fm_remote_images_destroy(r->images);
	fm_arena_deinit(&r->arena);
	fm_map_deinit(&r->code_ids);
	fm_map_deinit(&r->states);
	fm_vec_deinit(&r->codes);
	fm_vec_deinit(&r->names);
	fm_vec_deinit(&r->native);
	fm_vec_deinit(&r->frames);
	fm_vec_deinit(&r->runs);
	free(r);
}

void fm_remote_stack_deinit(struct fm_remote_stack *stack)
{
	fm_vec_deinit(&stack->frames);
}

const struct fm_remote_image *fm_remote_find_image(struct fm_remote *r, uint64_t pc)
{
	return fm_remote_images_find(r->images, pc);
}

bool fm_remote_is_python(const struct fm_remote *r, const struct fm_remote_image *image)
{
	return r->python.state == FM_REMOTE_HAS_PYTHON && image->start == r->python.image_start;
}

void fm_remote_read_stack(struct fm_remote *r, uint32_t tid, const struct fm_remote_regs *regs,
			  const struct fm_remote_call *call, unsigned want, struct fm_remote_stack *ret)
{
	fm_remote_limit_codes(r);
	fm_remote_memory_begin(r->memory, r->pid);
	fm_remote_memory_fetch(r->memory, regs->r[DW_RSP], STACK_PAGES);
	fm_remote_images_refresh(r->images, fm_now_ns());
	r->native.n = r->frames.n = r->runs.n = 0;
	r->native_error = r->python_error = 0;
	r->exact_native = UINT32_MAX;
	ret->waits_for_gil = false;
	uint64_t state = want & FM_REMOTE_PYTHON && fm_remote_python_look(r) ? fm_remote_thread_state(r, tid) : 0;
	if (state) {
		fm_remote_python_walk(r, state);
		ret->waits_for_gil = call->nr == SYSCALL_FUTEX && fm_remote_is_gil(r, state, call->arg[0]);
	}
	if (want & FM_REMOTE_NATIVE) {
		fm_remote_unwind(r, regs);
		if (r->native_error && fm_remote_images_refresh(r->images, fm_now_ns()))
			fm_remote_unwind(r, regs); // through a library that was loaded since
	} else if (!r->frames.n) {                 // it shows where it is by its pc alone
		fm_vec_push(&r->native, (struct fm_remote_native){ regs->pc, UINT64_MAX });
	}
	fm_remote_merge(r, r->native.n ? call->nr : -1, ret);
}

// ---- merge: as sigsafe/merge.c does it, where the way is drawn ----

bool fm_remote_is_evaluator(const struct fm_remote *r, size_t i)
{
	uint64_t pc = r->native.items[i].pc - (i ? 1 : 0);
	for (unsigned part = 0; part < 2; part++)
		if (pc >= r->python.eval[part][0] && pc < r->python.eval[part][1])
			return true;
	return false;
}

// 3.8 and 3.9: evaluator frames and Python frames pair one to one, from the outer end of a whole stack, from the inner end of a broken one.
static void find_markers(struct fm_remote *r)
{
	int64_t n_evaluators = 0, nth = 0;
	for (size_t i = 0; i < r->native.n; i++)
		n_evaluators += fm_remote_is_evaluator(r, i);
	int64_t shift = (int64_t)r->runs.n - n_evaluators; // run = evaluator + shift
	if (r->native_error || shift > 1)
		shift = 0;
	for (size_t i = 0; i < r->native.n; i++) {
		if (!fm_remote_is_evaluator(r, i))
			continue;
		int64_t run = nth++ + shift;
		if (run >= 0 && run < (int64_t)r->runs.n)
			r->runs.items[run].marker = r->native.items[i].cfa - 1;
	}
	for (int64_t run = nth + shift; run < (int64_t)r->runs.n; run++)
		if (run >= 0)
			r->runs.items[run].marker = UINT64_MAX;
}

static size_t find_owner(const struct fm_remote *r, size_t i, uint64_t marker)
{
	for (; i < r->native.n; i++)
		if (marker >= r->native.items[i - 1].cfa && marker < r->native.items[i].cfa)
			return i;
	return 0;
}

static void put_error(struct fm_remote_stack *to, uint32_t error)
{
	if (!error)
		return;
	fm_vec_push(&to->frames, FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | error);
	to->is_broken = true;
}

void fm_remote_merge(struct fm_remote *r, int32_t syscall_nr, struct fm_remote_stack *ret)
{
	size_t run = 0, frame = 0, wait_for = 0;
	bool is_searching = true;
	ret->frames.n = 0;
	ret->leaf_idx = ret->exact_idx = UINT32_MAX;
	ret->is_broken = false;
	if (syscall_nr >= 0 && syscall_nr < FM_WIRE_N_SYSCALLS)
		fm_vec_push(&ret->frames, FM_WIRE_FRAME_SYSCALL << FM_WIRE_FRAME_SHIFT | (uint32_t)syscall_nr);
	uint8_t frames = r->python.row.frames;
	if (r->runs.n && r->native.n &&
	    (frames == FM_PY_FRAMES_OBJECTS || (frames == FM_PY_FRAMES_OBJECTS_CFRAME && r->is_greenlet)))
		find_markers(r);
	for (size_t i = 0; i < r->native.n; i++) {
		uint64_t cfa = r->native.items[i].cfa, low = i ? r->native.items[i - 1].cfa : r->native_sp;
		if (i == 0)
			ret->leaf_idx = (uint32_t)ret->frames.n;
		if (i == r->exact_native)
			ret->exact_idx = (uint32_t)ret->frames.n;
		fm_vec_push(&ret->frames, FM_WIRE_FRAME_NATIVE << FM_WIRE_FRAME_SHIFT |
						  (r->native.items[i].pc & ((1ull << FM_WIRE_FRAME_SHIFT) - 1)));
		for (; run < r->runs.n && cfa != UINT64_MAX && r->runs.items[run].marker < cfa; run++) {
			if (r->runs.items[run].marker < low && is_searching && wait_for <= i) {
				wait_for = find_owner(r, i + 1, r->runs.items[run].marker);
				is_searching = wait_for != 0;
			}
			if (wait_for > i)
				break;
			for (; frame < r->runs.items[run].end; frame++)
				fm_vec_push(&ret->frames, r->frames.items[frame]);
		}
	}
	put_error(ret, r->native_error);
	for (; frame < r->frames.n; frame++)
		fm_vec_push(&ret->frames, r->frames.items[frame]);
	put_error(ret, r->python_error);
	if (ret->frames.n > r->max_frames) { // the outer end goes
		ret->frames.n = r->max_frames - 1;
		put_error(ret, FM_STACK_TOO_DEEP);
	}
}
