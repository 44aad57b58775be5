// SPDX-License-Identifier: Apache-2.0
// The reader of other processes' stacks, over memory that is made here: the process is this one.
#include "collect/remote/parts.h"

#include "format/model.h"
#include "pyabi/pyabi.h"
#include "test.h"

#define N_FRAMES 20000u
#define STRIDE 128u

static void put(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

// A thread state, a code object of the interpreter's own and a ring of frames that have it, of
// which the last is a shim. None is a function's.
TEST(a_ring_of_frames_that_do_not_count_is_walked_once_or_twice)
{
	struct fm_remote_files *files = fm_remote_files_create();
	struct fm_remote *r = fm_remote_create((uint32_t)getpid(), files, NULL, 0);
	struct fm_py_row *row = &r->python.row;
	CHECK(fm_pyabi_row_by_minor(13, row) == FM_OK);
	CHECK(row->frame_owner < STRIDE && row->frame_previous + 8u <= STRIDE);

	uint8_t *state = calloc(1, 4096), *code = calloc(1, 4096), *frames = calloc(N_FRAMES, STRIDE);
	CHECK(state && code && frames);
	put(code + row->object_type, (uintptr_t)code); // any address will do for the type
	put(code + row->code_name, (uintptr_t)code);
	put(code + row->code_filename, (uintptr_t)code);
	r->python.code_type = (uintptr_t)code;
	for (uint32_t i = 0; i < N_FRAMES; i++) {
		uint8_t *frame = frames + (size_t)i * STRIDE;
		put(frame + row->frame_code, (uintptr_t)code);
		put(frame + row->frame_previous, (uintptr_t)frames + (size_t)((i + 1) % N_FRAMES) * STRIDE);
		frame[row->frame_owner] = i + 1 < N_FRAMES ? 0 : row->first_shim_owner;
	}
	put(state + row->ts_current_frame, (uintptr_t)frames);

	alarm(30); // a walk for each time around would take minutes
	fm_remote_memory_begin(r->memory, (uint32_t)getpid());
	fm_remote_python_walk(r, (uintptr_t)state);
	CHECK_EQ(r->frames.n, 0);
	CHECK_EQ(r->python_error, FM_STACK_PYTHON_TORN);
	fm_remote_destroy(r);
	fm_remote_files_destroy(files);
	free(state);
	free(code);
	free(frames);
}

TEST_MAIN()
