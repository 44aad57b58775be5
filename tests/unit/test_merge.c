// SPDX-License-Identifier: Apache-2.0
// Hand-made native and Python stacks, and the one stack that they make together. Letters are Python
// frames, numbers native ones.
#include "sigsafe/python/merge.h"

#include "format/model.h"
#include "test.h"

static struct fm_sig_thread t;

static uint64_t python_frame(char name)
{
	return FM_WIRE_FRAME_PYTHON << FM_WIRE_FRAME_SHIFT | (uint64_t)name;
}

// One native frame: pc and the end of its part of the stack; 0 = the walk ended in it.
static void native(uint64_t pc, uint64_t cfa)
{
	t.native[t.n_native].pc = pc;
	t.native[t.n_native++].cfa = cfa ? cfa : UINT64_MAX;
}

static void run(uint64_t marker, const char *names)
{
	for (; *names; names++)
		t.python[t.n_python++] = python_frame(*names);
	t.runs[t.n_runs].marker = marker;
	t.runs[t.n_runs++].end = t.n_python;
}

static void begin(enum fm_py_frames style)
{
	fm_sig.python.row.frames = style;
	fm_sig.python.evaluator.part[0].start = 900;
	fm_sig.python.evaluator.part[0].end = 1000;
	fm_sig.python.evaluator.part[1].start = 800;
	fm_sig.python.evaluator.part[1].end = 810;
	t.n_native = t.n_python = t.n_runs = t.native_error = t.python_error = 0;
	t.native_sp = 0x10;
	t.precise_native = UINT32_MAX;
}

static uint32_t leaf_idx, precise_idx;

// "a1 ..." innermost first: letters, pcs, !N for an error.
static const char *merged(void)
{
	static char text[4096];
	char *at = text;
	fm_sig_merge(&t, -1, &leaf_idx, &precise_idx);
	for (uint32_t i = 0; i < t.n_out; i++) {
		uint64_t kind = t.out[i] >> FM_WIRE_FRAME_SHIFT, value = t.out[i] & 0xffffffff;
		if (kind == FM_WIRE_FRAME_PYTHON)
			at += sprintf(at, "%s%c", i ? " " : "", (char)value);
		else
			at += sprintf(at, "%s%s%" PRIu64, i ? " " : "", kind == FM_WIRE_FRAME_ERROR ? "!" : "", value);
	}
	*at = 0;
	return text;
}

#define CHECK_MERGED(expected)                                                                         \
	do {                                                                                           \
		const char *got_ = merged();                                                           \
		if (strcmp(got_, expected) != 0) {                                                     \
			printf("%s:%d: got \"%s\", not \"%s\"\n", __FILE__, __LINE__, got_, expected); \
			fflush(stdout);                                                                \
			_exit(1);                                                                      \
		}                                                                                      \
	} while (0)

TEST(runs_go_to_the_frame_that_holds_their_marker)
{
	begin(FM_PY_FRAMES_SHIM);
	native(1, 0x20);
	native(950, 0x60); // evaluator
	native(2, 0x80);
	native(951, 0xc0); // evaluator
	native(3, 0);
	run(0x50, "cb");
	run(0xb8, "a");
	CHECK_MERGED("1 950 c b 2 951 a 3");
	CHECK_EQ(leaf_idx, 0);
	CHECK_EQ(precise_idx, UINT32_MAX);
}

TEST(a_leaf_in_the_evaluator_is_what_its_innermost_function_does)
{
	begin(FM_PY_FRAMES_SHIM);
	native(950, 0x60);
	native(3, 0);
	run(0x50, "ba");
	CHECK_MERGED("950 b a 3");
	CHECK_EQ(leaf_idx, 0);
}

TEST(the_interrupted_frame_below_a_handler_is_marked)
{
	begin(FM_PY_FRAMES_SHIM);
	native(1, 0x20);
	native(2, 0x30); // signal frame
	native(950, 0x60);
	native(3, 0);
	run(0x50, "a");
	t.precise_native = 2;
	CHECK_MERGED("1 2 950 a 3");
	CHECK_EQ(precise_idx, 2);
}

TEST(python_frames_follow_the_error_where_the_native_stack_breaks)
{
	begin(FM_PY_FRAMES_SHIM);
	native(1, 0x20);
	native(950, 0x60);
	native(2, 0);
	t.native_error = FM_STACK_BAD_CFA;
	run(0x50, "b");
	run(0xb0, "a");
	CHECK_MERGED("1 950 b 2 !2 a");
}

TEST(runs_that_no_frame_holds_stay_at_the_leaf_or_at_the_end)
{
	begin(FM_PY_FRAMES_SHIM); // the evaluator has left its frame, Python's chain still has it
	native(1, 0x40);
	native(950, 0x60);
	native(2, 0);
	run(0x08, "c");
	run(0x50, "b");
	run(0x70, "a");
	CHECK_MERGED("1 c 950 b 2 a");
}

TEST(a_torn_python_side_says_so_at_the_end)
{
	begin(FM_PY_FRAMES_SHIM);
	native(1, 0x20);
	native(2, 0);
	t.python_error = FM_STACK_PYTHON_TORN;
	CHECK_MERGED("1 2 !7");
}

TEST(no_native_side_leaves_the_python_one)
{
	begin(FM_PY_FRAMES_SHIM);
	t.native_error = FM_STACK_NO_UNWIND_INFO;
	run(0x50, "ba");
	CHECK_MERGED("!1 b a");
}

TEST(a_handler_on_a_higher_alternate_stack_does_not_take_the_runs)
{
	begin(FM_PY_FRAMES_SHIM);
	t.native_sp = 0x9000;
	native(1, 0x9100); // handler, on the alternate stack
	native(2, 0x30);   // signal frame: back to the thread's stack
	native(3, 0x40);
	native(950, 0x60);
	native(951, 0xc0);
	native(4, 0);
	run(0x50, "b");
	run(0xb8, "a");
	CHECK_MERGED("1 2 3 950 b 951 a 4");
}

TEST(a_handler_on_a_lower_alternate_stack_neither)
{
	begin(FM_PY_FRAMES_SHIM);
	t.native_sp = 0x1;
	native(1, 0x8);
	native(2, 0x30);
	native(950, 0x60);
	native(4, 0);
	run(0x50, "a");
	CHECK_MERGED("1 2 950 a 4");
}

TEST(frame_objects_pair_with_evaluator_frames_from_the_outer_end)
{
	begin(FM_PY_FRAMES_OBJECTS);
	native(1, 0x20);
	native(950, 0x60);
	native(805, 0x70); // the evaluator's cold part
	native(2, 0x80);
	native(951, 0xc0);
	native(3, 0);
	run(0, "c");
	run(0, "b");
	run(0, "a");
	CHECK_MERGED("1 950 c 805 b 2 951 a 3");
}

TEST(an_evaluator_without_its_frame_object_yet_is_the_innermost)
{
	begin(FM_PY_FRAMES_OBJECTS);
	native(950, 0x60);
	native(951, 0xc0);
	native(3, 0);
	run(0, "a");
	CHECK_MERGED("950 951 a 3");
}

TEST(a_frame_object_without_evaluator_any_more_stays_innermost)
{
	begin(FM_PY_FRAMES_OBJECTS);
	native(1, 0x20);
	native(951, 0xc0);
	native(3, 0);
	run(0, "b");
	run(0, "a");
	CHECK_MERGED("1 b 951 a 3");
}

TEST(a_broken_native_stack_pairs_from_the_inner_end)
{
	begin(FM_PY_FRAMES_OBJECTS);
	native(1, 0x20);
	native(950, 0x60);
	native(2, 0);
	t.native_error = FM_STACK_UNREADABLE;
	run(0, "b");
	run(0, "a");
	CHECK_MERGED("1 950 b 2 !3 a");
}

TEST(a_fiber_has_the_python_frames_of_its_thread_outside)
{
	begin(FM_PY_FRAMES_OBJECTS);
	native(1, 0x20);
	native(950, 0x60); // called back from the fiber
	native(2, 0);
	run(0, "c");
	run(0, "b");
	run(0, "a");
	CHECK_MERGED("1 950 c 2 b a");
}

TEST(a_stack_beyond_the_limit_ends_in_a_reason)
{
	begin(FM_PY_FRAMES_SHIM);
	for (uint32_t i = 0; i < FM_SIG_MAX_FRAMES; i++)
		native(7, 0x100 + i * 16);
	t.native[FM_SIG_MAX_FRAMES - 1].cfa = UINT64_MAX;
	run(0x104, "ba");
	fm_sig_merge(&t, -1, &leaf_idx, &precise_idx);
	CHECK_EQ(t.n_out, FM_SIG_MAX_FRAMES);
	CHECK_EQ(t.out[t.n_out - 1], FM_WIRE_FRAME_ERROR << FM_WIRE_FRAME_SHIFT | FM_STACK_TOO_DEEP);
	CHECK_EQ(t.out[2], python_frame('b'));
}

TEST_MAIN()
