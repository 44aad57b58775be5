// SPDX-License-Identifier: Apache-2.0
// Python frames of a thread that sleeps, by the offsets of its version's row. It is like
// sigsafe/python/walk.c without the care for a thread that is in the middle of a call: one that
// waits has made its call whole.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/remote/parts.h"
#include "format/model.h"
#include "pyabi/exports.h"
#include "pyabi/pyabi.h"
#include "wire/wire.h"

// A process without Python may load one later.
#define LOOK_AGAIN_NS 200000000u
// Where glibc's struct pthread keeps the kernel's thread id, on x86-64 since 2.3: behind a head of
// 704 bytes and a list's two links.
#define PTHREAD_TID_OFFSET 720u

static uint64_t symbol_at(const struct fm_remote_image *image, const char *name, uint64_t *ret_size)
{
	uint64_t addr;
	return fm_unwind_file_symbol(image->file, name, &addr, ret_size) == FM_OK ? image->bias + addr : 0;
}

static bool find_row(struct fm_remote *r, const struct fm_remote_image *image)
{
	struct fm_remote_python *py = &r->python;
	uint8_t head[FM_PY_DEBUG_OFFSETS_BYTES];
	uint32_t hex = 0;
	if (fm_remote_read(r->memory, py->runtime, head, sizeof(head)) &&
	    fm_pyabi_has_debug_offsets(head, sizeof(head)))
		return fm_pyabi_row_from_debug_offsets(head, sizeof(head), &py->row, &py->hexversion) == FM_OK;
	uint64_t version = symbol_at(image, FM_PY_EXPORT_VERSION, NULL);
	if (version && fm_remote_u32(r->memory, version, &hex))
		py->hexversion = hex;
	if (!py->hexversion) {
		unsigned minor = FM_PY_OLDER_MINOR;
		for (size_t i = 0; i < FM_ARRAY_LEN(fm_py_introduced) && minor == FM_PY_OLDER_MINOR; i++)
			if (symbol_at(image, fm_py_introduced[i].name, NULL))
				minor = fm_py_introduced[i].minor;
		py->hexversion = FM_PY_HEXVERSION_OF(minor);
	}
	return py->hexversion >> 24 == 3 && fm_pyabi_row_by_minor(py->hexversion >> 16 & 0xff, &py->row) == FM_OK;
}

static bool take_image(struct fm_remote *r, uint64_t addr)
{
	struct fm_remote_python *py = &r->python;
	const struct fm_remote_image *image = fm_remote_images_find(r->images, addr);
	if (!image || !image->file || !(py->runtime = symbol_at(image, FM_PY_EXPORT_RUNTIME, NULL)))
		return false;
	py->code_type = symbol_at(image, FM_PY_EXPORT_CODE_TYPE, NULL);
	py->image_start = image->start;
	py->image_end = image->end;
	static const char *const parts[] = { FM_PY_EXPORT_EVALUATOR, FM_PY_EXPORT_EVALUATOR ".cold" };
	for (unsigned i = 0; i < FM_ARRAY_LEN(parts); i++) {
		uint64_t size = 0;
		py->evaluator.part[i].start = symbol_at(image, parts[i], &size);
		py->evaluator.part[i].end = py->evaluator.part[i].start + size;
	}
	return py->code_type && find_row(r, image);
}

bool fm_remote_find_interpreter(struct fm_remote *r)
{
	struct fm_remote_python *py = &r->python;
	uint64_t now_ns = fm_now_ns();
	if (py->state == FM_REMOTE_HAS_PYTHON)
		return true;
	if (py->state == FM_REMOTE_NO_PYTHON && now_ns - py->looked_ns < LOOK_AGAIN_NS)
		return false;
	py->looked_ns = now_ns;
	py->state = FM_REMOTE_NO_PYTHON;
	bool is_found = false;
	if (py->addr || r->shared) { // the agent tells
		is_found = py->addr && take_image(r, py->addr);
	} else {
		const struct fm_remote_image *image;
		for (size_t i = 0; !is_found && (image = fm_remote_images_at(r->images, i)); i++) {
			const char *name = strrchr(image->path, '/');
			is_found = name && strstr(name, "python") && take_image(r, image->map_start);
			py->addr = is_found ? image->map_start : 0;
		}
	}
	if (is_found)
		py->state = FM_REMOTE_HAS_PYTHON;
	return is_found;
}

bool fm_remote_find_python(struct fm_remote *r, uint64_t *ret_pc, uint32_t *ret_hexversion)
{
	fm_remote_memory_begin(r->memory, r->pid);
	fm_remote_images_refresh(r->images, fm_now_ns());
	if (!fm_remote_find_interpreter(r))
		return false;
	*ret_pc = r->python.addr;
	*ret_hexversion = r->python.hexversion;
	return true;
}

bool fm_remote_is_free_threaded(const struct fm_remote *r)
{
	return r->python.row.is_free_threaded;
}

void fm_remote_set_python(struct fm_remote *r, uint64_t addr, uint32_t hexversion)
{
	if (r->python.state == FM_REMOTE_HAS_PYTHON || !addr)
		return;
	if (r->python.addr != addr)
		r->python.state = FM_REMOTE_NOT_LOOKED;
	r->python.addr = addr;
	r->python.hexversion = hexversion;
}

// ---- thread states ----

enum by { BY_NATIVE_ID, BY_PTHREAD };

// From 3.11 on a state knows the kernel's id of its thread; a fork's child may still have its
// parent's there. Up to 3.10, and then, the thread is known by the address of glibc's descriptor,
// in which the kernel writes the id itself.
static bool is_state_of(struct fm_remote *r, uint64_t state, uint32_t tid, enum by by)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t id;
	uint32_t own;
	if (by == BY_NATIVE_ID)
		return row->ts_native_id && fm_remote_u64(r->memory, state + row->ts_native_id, &id) && id == tid;
	return fm_remote_u64(r->memory, state + row->ts_thread_id, &id) &&
	       fm_remote_u32(r->memory, id + PTHREAD_TID_OFFSET, &own) && own == tid;
}

static bool has_frames(struct fm_remote *r, uint64_t state)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t at = 0;
	if (row->frames == FM_PY_FRAMES_SHIM)
		return fm_remote_u64(r->memory, state + row->ts_current_frame, &at) && at;
	if (row->frames >= FM_PY_FRAMES_ENTRY_FLAG)
		return fm_remote_u64(r->memory, state + row->ts_cframe, &at) && at - state >= FM_PY_THREAD_STATE_BYTES;
	return fm_remote_u64(r->memory, state + row->ts_frame, &at) && at;
}

// Of several (one for each interpreter that the thread has been in) the first with frames.
static uint64_t search_state(struct fm_remote *r, uint32_t tid, enum by by)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t interp = 0, state, found = 0;
	fm_remote_u64(r->memory, r->python.runtime + row->runtime_interpreters, &interp);
	for (uint32_t n = 0; interp && n < r->max_chain;) {
		if (!fm_remote_u64(r->memory, interp + row->interp_threads, &state))
			break;
		for (; state && n < r->max_chain; n++) {
			if (is_state_of(r, state, tid, by)) {
				if (has_frames(r, state))
					return state;
				found = found ? found : state;
			}
			if (!fm_remote_u64(r->memory, state + row->ts_next, &state))
				break;
		}
		n++;
		if (!fm_remote_u64(r->memory, interp + row->interp_next, &interp))
			break;
	}
	return found;
}

uint64_t fm_remote_thread_state(struct fm_remote *r, uint32_t tid)
{
	uint64_t *known = fm_map_at(&r->states, tid, NULL);
	if (*known && (is_state_of(r, *known, tid, BY_NATIVE_ID) || is_state_of(r, *known, tid, BY_PTHREAD)) &&
	    has_frames(r, *known))
		return *known;
	*known = r->python.row.ts_native_id ? search_state(r, tid, BY_NATIVE_ID) : 0;
	if (!*known)
		*known = search_state(r, tid, BY_PTHREAD);
	return *known;
}

// The GIL of the thread's interpreter; 0 = none.
static uint64_t gil_of(struct fm_remote *r, uint64_t state)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t interp, gil;
	if (row->runtime_gil)
		return r->python.runtime + row->runtime_gil;
	return fm_remote_u64(r->memory, state + row->ts_interp, &interp) &&
			       fm_remote_u64(r->memory, interp + row->interp_gil, &gil)
		       ? gil
		       : 0;
}

bool fm_remote_is_gil(struct fm_remote *r, uint64_t state, uint64_t addr)
{
	uint64_t gil = gil_of(r, state);
	return gil && addr - gil < FM_PY_GIL_BYTES;
}

bool fm_remote_has_gil(struct fm_remote *r, uint64_t state)
{
	uint64_t gil = gil_of(r, state), holder;
	uint32_t is_locked;
	return gil && fm_remote_u32(r->memory, gil + FM_PY_GIL_LOCKED, &is_locked) && is_locked == 1 &&
	       fm_remote_u64(r->memory, gil + FM_PY_GIL_LAST_HOLDER, &holder) && holder == state;
}

// ---- frames ----

// Appends one frame. False: not a frame we can believe in.
static bool push_frame(struct fm_remote *r, uint64_t frame)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t code, offset;
	if (r->frames.n == r->max_frames || !fm_py_read_frame_code(fm_remote_py_read, r->memory, row, frame, &code))
		return false;
	uint32_t id = fm_remote_code_id(r, code);
	if (id == 0)
		return false;
	if (id == UINT32_MAX)
		return true;
	if (!fm_py_read_offset(fm_remote_py_read, r->memory, row, frame, code, &offset))
		return false;
	fm_vec_push(&r->frame_addrs, frame);
	fm_vec_push(&r->frames, FM_WIRE_FRAME_PYTHON << FM_WIRE_FRAME_SHIFT | (uint64_t)id << 32 | offset);
	return true;
}

// A chain may bite its tail, and frames that are no function's do not count as frames. There are
// two such for a function at most.
#define STEPS_FOR_A_FRAME 4u
static bool may_step(struct fm_remote *r)
{
	return r->n_steps++ < STEPS_FOR_A_FRAME * r->max_frames;
}

static void end_run(struct fm_remote *r, uint64_t marker)
{
	fm_vec_push(&r->runs, (struct fm_python_run){ marker, (uint32_t)r->frames.n });
}

// 3.8 to 3.10: frame objects, one evaluator call each. Runs get their markers from the cframe chain
// (3.10); on 3.8 and 3.9 the merge finds the evaluator's C frames itself.
static bool walk_objects(struct fm_remote *r, uint64_t state)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t frame, cframe;
	if (!fm_remote_u64(r->memory, state + row->ts_frame, &frame))
		return false;
	while (frame) {
		if (!may_step(r) || !push_frame(r, frame) ||
		    !fm_remote_u64(r->memory, frame + row->frame_previous, &frame))
			return false;
		end_run(r, 0);
	}
	if (row->frames != FM_PY_FRAMES_OBJECTS_CFRAME)
		return true;
	// Both chains are in step at the outer end.
	FM_VEC(uint64_t) cframes = { 0 };
	bool is_good = fm_remote_u64(r->memory, state + row->ts_cframe, &cframe);
	while (is_good && cframe - state >= FM_PY_THREAD_STATE_BYTES && cframes.n < r->max_frames) {
		fm_vec_push(&cframes, cframe);
		is_good = fm_remote_u64(r->memory, cframe + row->cframe_previous, &cframe);
	}
	for (size_t i = 0; i < cframes.n && i < r->runs.n; i++)
		r->runs.items[r->runs.n - 1 - i].marker = cframes.items[cframes.n - 1 - i];
	fm_vec_deinit(&cframes);
	return is_good;
}

// The frames of one evaluator call, up to the frame with which it began (3.11) or its shim (3.12
// and later). *frame becomes the outer call's; *ret_last the one that ended the run.
static bool push_run(struct fm_remote *r, uint64_t *frame, uint64_t *ret_last)
{
	while (may_step(r)) {
		uint64_t at = *frame;
		struct fm_py_step step;
		if (!fm_py_read_step(fm_remote_py_read, r->memory, &r->python.row, at, &step) ||
		    (!step.is_shim && !push_frame(r, at)))
			return false;
		*frame = step.previous;
		*ret_last = at;
		if (step.is_last)
			return true;
	}
	return false;
}

// 3.11 and 3.12: every evaluator call has a cframe, which knows the call's current frame.
static bool walk_cframes(struct fm_remote *r, uint64_t state)
{
	const struct fm_py_row *row = &r->python.row;
	uint64_t cframe, frame, last;
	if (!fm_remote_u64(r->memory, state + row->ts_cframe, &cframe))
		return false;
	while (cframe && cframe - state >= FM_PY_THREAD_STATE_BYTES) {
		uint64_t outer;
		if (!fm_remote_u64(r->memory, cframe + row->cframe_current_frame, &frame) ||
		    !fm_remote_u64(r->memory, cframe + row->cframe_previous, &outer))
			return false;
		if (!frame && outer - state < FM_PY_THREAD_STATE_BYTES)
			return true; // with this one a greenlet begins
		if (!push_run(r, &frame, &last))
			return false;
		end_run(r, cframe);
		cframe = outer;
	}
	return true;
}

// 3.13 and later: one chain, in which a shim frame on the C stack ends each evaluator call's run.
static bool walk_shims(struct fm_remote *r, uint64_t state)
{
	uint64_t frame, shim;
	if (!fm_remote_u64(r->memory, state + r->python.row.ts_current_frame, &frame))
		return false;
	while (frame) {
		size_t n_before = r->frames.n;
		if (!push_run(r, &frame, &shim))
			return false;
		if (r->frames.n > n_before)
			end_run(r, shim);
	}
	return true;
}

void fm_remote_python_walk(struct fm_remote *r, uint64_t state)
{
	const struct fm_py_row *row = &r->python.row;
	r->frames.n = r->frame_addrs.n = r->runs.n = r->n_steps = 0;
	bool is_whole = row->frames == FM_PY_FRAMES_SHIM         ? walk_shims(r, state)
			: row->frames >= FM_PY_FRAMES_ENTRY_FLAG ? walk_cframes(r, state)
								 : walk_objects(r, state);
	r->python_error = is_whole ? 0 : r->frames.n == r->max_frames ? FM_STACK_TOO_DEEP : FM_STACK_PYTHON_TORN;
}
