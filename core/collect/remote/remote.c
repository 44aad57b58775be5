// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/remote.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "collect/remote/parts.h"
#include "format/model.h"
#include "image/dwarf_regs.h"

// What is read of a stack in one go. Most are smaller; the rest comes page by page.
#define STACK_PAGES 8u

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
	fm_vec_deinit(&r->frame_addrs);
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
	fm_remote_memory_fetch(r->memory, regs->r[FM_DW_RSP], STACK_PAGES);
	fm_remote_images_refresh(r->images, fm_now_ns());
	r->native.n = r->frames.n = r->frame_addrs.n = r->runs.n = 0;
	r->native_error = r->python_error = 0;
	r->precise_native = UINT32_MAX;
	ret->waits_for_gil = ret->has_gil = false;
	uint64_t state = want & FM_REMOTE_PYTHON && fm_remote_find_interpreter(r) ? fm_remote_thread_state(r, tid) : 0;
	state = fm_remote_state_on_stack(r, tid, state, regs->r[FM_DW_RSP]);
	if (state) {
		fm_remote_python_walk(r, state);
		ret->waits_for_gil = call->nr == SYS_futex && fm_remote_is_gil(r, state, call->arg[0]);
		ret->has_gil = want & FM_REMOTE_GIL && fm_remote_has_gil(r, state);
	}
	if (want & FM_REMOTE_NATIVE) {
		fm_remote_unwind(r, regs);
		if (r->native_error && fm_remote_images_refresh(r->images, fm_now_ns()))
			fm_remote_unwind(r, regs); // through a library that was loaded since
	} else if (!r->frames.n) {                 // it shows where it is by its pc alone
		fm_vec_push(&r->native, (struct fm_native_frame){ regs->pc, UINT64_MAX });
	}
	fm_remote_merge(r, r->native.n ? call->nr : -1, ret);
}

bool fm_remote_is_evaluator(const struct fm_remote *r, size_t i)
{
	return fm_merge_is_evaluator(r->native.items, (uint32_t)i, false, &r->python.evaluator);
}

void fm_remote_merge(struct fm_remote *r, int32_t syscall_nr, struct fm_remote_stack *ret)
{
	// A system call, and an error at each end.
	size_t n_room = FM_MIN(r->native.n + r->frames.n + 3, (size_t)r->max_frames);
	ret->frames.n = 0;
	fm_vec_reserve(&ret->frames, n_room);
	struct fm_merge m = {
		.native = r->native.items,
		.runs = r->runs.items,
		.python = r->frames.items,
		.n_native = (uint32_t)r->native.n,
		.n_runs = (uint32_t)r->runs.n,
		.n_python = (uint32_t)r->frames.n,
		.native_error = r->native_error,
		.python_error = r->python_error,
		.native_sp = r->native_sp,
		.precise_native = r->precise_native,
		.pairs_by_evaluators = fm_py_pairs_by_evaluators(&r->python.row, r->is_greenlet),
		.evaluator = &r->python.evaluator,
		.syscall_nr = syscall_nr < FM_WIRE_N_SYSCALLS ? syscall_nr : -1,
		.out = ret->frames.items,
		.max_out = (uint32_t)n_room,
	};
	fm_merge(&m);
	ret->frames.n = m.n_out;
	ret->leaf_idx = m.leaf_idx;
	ret->precise_idx = m.precise_idx;
	ret->is_broken =
		r->native_error || r->python_error ||
		(m.n_out && m.out[m.n_out - 1] == (FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | FM_STACK_TOO_DEEP));
}
