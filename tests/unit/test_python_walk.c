// SPDX-License-Identifier: Apache-2.0
// Free-threaded 3.14 in small: one function with three copies of its bytecode. Which instruction is
// meant must come out right whichever copy it lies in, also where the frame's two words do not
// belong together.
#include "sigsafe/python/python.h"

#include <pthread.h>
#include <stddef.h>

#include "sigsafe/base/state.h"
#include "wire/wire.h"

#include "faults.h"
#include "test.h"

#define N_UNITS 20
#define SHIM_OWNER 3

struct frame {
	uint64_t code, previous, lasti;
	uint8_t owner;
	int32_t copy;
};

static uint16_t copies[2][N_UNITS]; // 1 and 2; the code has number 0 itself
static struct {
	uint64_t n;
	const void *at[4]; // the last has not been made yet
} array;

static struct code {
	uint64_t refs, type, size, name, file, lines, copies;
	uint32_t first_line;
	uint16_t own[N_UNITS];
} code;

static struct {
	uint64_t thread_id, interp, current;
} state;

static uint64_t nothing[16]; // a string, and bytes, of length 0
static struct frame frame, shim;
static struct fm_sig_thread thread = { .deadline = UINT64_MAX };
static struct fm_wire_slot slot;
static uint8_t ring[FM_WIRE_RING_BYTES];

static uint64_t current_state; // as CPython keeps it: a pointer

static void begin(void)
{
	static struct fm_sig_code codes[FM_SIG_CODES];
	fm_sig.python.row = (struct fm_py_row){
		.minor = 14,
		.is_free_threaded = 1,
		.frames = FM_PY_FRAMES_SHIM,
		.lasti = FM_PY_LASTI_POINTER,
		.line_table = FM_PY_LINES_311,
		.first_shim_owner = SHIM_OWNER,
		.executable_tag_mask = 3,
		.ts_thread_id = offsetof(__typeof__(state), thread_id),
		.ts_interp = offsetof(__typeof__(state), interp),
		.ts_current_frame = offsetof(__typeof__(state), current),
		.frame_code = offsetof(struct frame, code),
		.frame_previous = offsetof(struct frame, previous),
		.frame_lasti = offsetof(struct frame, lasti),
		.frame_owner = offsetof(struct frame, owner),
		.frame_tlbc_index = offsetof(struct frame, copy),
		.code_name = offsetof(struct code, name),
		.code_filename = offsetof(struct code, file),
		.code_first_line = offsetof(struct code, first_line),
		.code_line_table = offsetof(struct code, lines),
		.code_bytecode = offsetof(struct code, own),
		.code_tlbc = offsetof(struct code, copies),
		.object_type = offsetof(struct code, type),
		.bytes_size = offsetof(struct code, size),
		.bytes_data = 64,
		.str_length = 64,
		.str_state = 72,
	};
	current_state = (uint64_t)&state;
	fm_sig.python.current = (struct fm_sig_tls){ .kind = FM_SIG_TLS_FIXED, .offset = (uint64_t)&current_state };
	fm_sig.python.code_type = 77;
	fm_sig.codes = codes;
	atomic_store(&fm_sig.has_python, 1);
	thread.slot = &slot;
	thread.ring = ring;
	array = (__typeof__(array)){ .n = 4, .at = { code.own, copies[0], copies[1], NULL } };
	code = (struct code){ .type = 77,
			      .size = N_UNITS,
			      .name = (uint64_t)nothing,
			      .file = (uint64_t)&nothing[1],
			      .lines = (uint64_t)nothing,
			      .copies = (uint64_t)&array,
			      .first_line = 5 };
	shim.owner = SHIM_OWNER;
	frame = (struct frame){ .code = (uint64_t)&code | 1, .previous = (uint64_t)&shim };
	state.thread_id = (uint64_t)pthread_self();
	state.current = (uint64_t)&frame;
}

// The offset that a walk tells for an instruction and the number of a copy; -1 for "none".
static int64_t offset_of(const void *instruction, int32_t copy)
{
	ucontext_t uc = { 0 };
	bool is_collecting;
	frame.lasti = (uint64_t)instruction;
	frame.copy = copy;
	fm_sig_python_walk(&thread, &uc, &is_collecting);
	CHECK_EQ(thread.n_python, 1);
	CHECK_EQ(thread.python_error, 0);
	return (int64_t)(uint32_t)thread.python[0] - 1;
}

TEST(an_instruction_is_found_in_the_copy_that_the_frame_names)
{
	mend_faults();
	begin();
	CHECK_EQ(offset_of(&code.own[7], 0), 14);
	CHECK_EQ(offset_of(&copies[0][0], 1), 0);
	CHECK_EQ(offset_of(&copies[1][N_UNITS - 1], 2), 2 * (N_UNITS - 1));
}

TEST(an_instruction_is_found_where_it_lies_when_the_frame_names_another_copy)
{
	mend_faults();
	begin();
	CHECK_EQ(offset_of(&copies[1][3], 1), 6);
	CHECK_EQ(offset_of(&copies[0][3], 0), 6);
	CHECK_EQ(offset_of(&code.own[3], 2), 6);
	CHECK_EQ(offset_of(&copies[0][4], 3), 8);    // has not been made
	CHECK_EQ(offset_of(&copies[0][4], 1000), 8); // beyond the array
	CHECK_EQ(offset_of(&copies[0][4], -1), 8);
}

TEST(an_instruction_outside_of_all_copies_is_none)
{
	mend_faults();
	begin();
	static uint16_t elsewhere[4];
	CHECK_EQ(offset_of(elsewhere, 1), -1);
	CHECK_EQ(offset_of(copies[1] + N_UNITS, 2), -1);
	code.copies = 0;
	CHECK_EQ(offset_of(&copies[0][4], 1), -1);
	CHECK_EQ(offset_of(&code.own[4], 1), 8);
}

TEST_MAIN()
