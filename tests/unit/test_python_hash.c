// SPDX-License-Identifier: Apache-2.0
// Stacks that are the same have the same number, others have others, whatever happened in between:
// calls, returns, generators that are resumed from elsewhere, code objects that come to the address
// of others.
#include "sigsafe/memory/stack_compare.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "sigsafe/base/state.h"

#include "faults.h"
#include "test.h"

#define N_FRAMES 64
#define N_CODES 6
#define N_SEEN 4096

struct frame { // as 3.13 has it, in small
	uint64_t code, previous, lasti;
};

struct code {
	uint64_t refs, type, name;
};

static struct {
	uint64_t thread_id, current;
} state;

static struct frame frames[N_FRAMES];
static struct code codes[N_CODES];
static struct fm_sig_thread thread;
static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

static uint64_t current_state; // as CPython keeps it: a pointer

static void begin(void)
{
	fm_sig.python.row = (struct fm_py_row){ .frames = FM_PY_FRAMES_SHIM,
						.lasti = FM_PY_LASTI_POINTER,
						.frame_code = offsetof(struct frame, code),
						.frame_previous = offsetof(struct frame, previous),
						.frame_lasti = offsetof(struct frame, lasti),
						.object_type = offsetof(struct code, type),
						.code_name = offsetof(struct code, name),
						.ts_current_frame = offsetof(__typeof__(state), current),
						.ts_thread_id = offsetof(__typeof__(state), thread_id) };
	current_state = (uint64_t)&state;
	fm_sig.python.current = (struct fm_sig_tls){ .kind = FM_SIG_TLS_FIXED, .offset = (uint64_t)&current_state };
	fm_sig.python.code_type = 77;
	static struct fm_sig_frame_cache frame_cache;
	fm_sig_mirror_epoch = 0;
	memset(&frame_cache, 0, sizeof(frame_cache));
	thread.frame_cache = NULL;
	fm_sig_mirrors = &frame_cache;
	atomic_store(&fm_sig.has_python, 1);
	state.thread_id = (uint64_t)pthread_self();
	for (unsigned i = 0; i < N_CODES; i++)
		codes[i] = (struct code){ .type = i == N_CODES - 1 ? 78 : 77, .name = 1000 + i };
}

// What was seen: a stack in words, as far as it counts, and its number.
static struct seen {
	enum fm_sig_hash_of of;
	uint64_t words[3 * N_FRAMES], n, hash;
} seen[N_SEEN];
static unsigned n_seen, n_recalled;

static bool is_further_out(const struct frame *f)
{
	for (const struct frame *outer = (const struct frame *)f->previous; outer;
	     outer = (const struct frame *)outer->previous)
		if (outer->code == f->code && outer->lasti == f->lasti)
			return true;
	return false;
}

static void check(enum fm_sig_hash_of of)
{
	struct seen now = { .of = of };
	for (struct frame *f = (struct frame *)state.current; f; f = (struct frame *)f->previous) {
		const struct code *c = (const struct code *)f->code;
		if (c->type != 77)
			continue; // the interpreter's own
		if ((of == FM_SIG_HASH_INNERMOST && now.n) || (of == FM_SIG_HASH_FOLDED && is_further_out(f)))
			continue;
		now.words[now.n++] = f->code;
		now.words[now.n++] = f->lasti;
		now.words[now.n++] = c->name;
	}
	// What was learnt of a stack is recalled for it alone, by either way.
	unsigned domain = (unsigned)draw(2);
	const struct fm_sig_memo *recalled = NULL;
	if (thread.frame_cache && thread.frame_cache->thread_state && thread.frame_cache->of == of && state.current) {
		bool is_pointer = fm_sig.python.row.lasti == FM_PY_LASTI_POINTER;
		recalled = draw(2) ? fm_sig_mirror_recall(thread.frame_cache, (uint64_t)&state, domain, is_pointer)
				   : fm_sig_mirror_follow(&thread, (uint64_t)&state, domain);
	}
	uint64_t token = recalled ? recalled->token : 0;
	now.hash = fm_sig_python_hash(&thread, of);
	CHECK_EQ(fm_sig_python_hash(&thread, of), now.hash);
	if (recalled)
		CHECK_EQ(token, now.hash + domain);
	n_recalled += recalled != NULL;
	if (state.current)
		fm_sig_mirror_learn(thread.frame_cache, domain, NULL, now.hash + domain);
	for (unsigned i = 0; i < n_seen; i++) {
		if (seen[i].of != of)
			continue;
		bool is_same = seen[i].n == now.n && !memcmp(seen[i].words, now.words, now.n * sizeof(uint64_t));
		CHECK_EQ(seen[i].hash == now.hash, is_same);
		if (is_same)
			return;
	}
	if (n_seen < N_SEEN)
		seen[n_seen++] = now;
}

// To some instruction of its code.
static void go_on(struct frame *f)
{
	f->lasti = draw(3) + (fm_sig.python.row.lasti == FM_PY_LASTI_POINTER ? f->code : 0);
}

// A call: the frame lies behind its caller's, or somewhere else, as a generator's does.
static void call(bool is_generator)
{
	uint64_t top = state.current ? (uint64_t)((struct frame *)state.current - frames) + 1 : 0;
	uint64_t at = is_generator ? N_FRAMES / 2 + draw(N_FRAMES / 2) : top % (N_FRAMES / 2);
	for (struct frame *f = (struct frame *)state.current; f; f = (struct frame *)f->previous)
		if (f == &frames[at])
			return; // it runs already
	frames[at] = (struct frame){ .code = (uint64_t)&codes[draw(N_CODES)], .previous = state.current };
	go_on(&frames[at]);
	state.current = (uint64_t)&frames[at];
}

static void run_at_random(enum fm_py_lasti lasti, unsigned first_of, unsigned n_ofs)
{
	begin();
	fm_sig.python.row.lasti = (uint8_t)lasti;
	n_seen = n_recalled = 0;
	state.current = 0;
	for (unsigned step = 0; step < 60000; step++) {
		struct frame *top = (struct frame *)state.current;
		unsigned what = (unsigned)draw(16);
		if (!top || what < 5)
			call(what == 0);
		else if (what < 10)
			state.current = top->previous;
		else if (what < 15)
			go_on(top);
		else {
			codes[draw(N_CODES - 1)].name = 1000 + draw(3); // another one at its address
			atomic_fetch_add(&fm_sig_mirror_epoch, 1);      // which exact.c tells of
		}
		if (draw(3))
			check((enum fm_sig_hash_of)(first_of + draw(n_ofs)));
	}
	CHECK(n_seen > (first_of == FM_SIG_HASH_INNERMOST ? 20 : 500));
	CHECK(n_recalled > (n_ofs == 1 ? 2000 : 50));
}

TEST(the_same_number_for_the_same_stack_only)
{
	mend_faults();
	run_at_random(FM_PY_LASTI_POINTER, FM_SIG_HASH_WHOLE, 1);
}

TEST(recursion_counts_once)
{
	mend_faults();
	run_at_random(FM_PY_LASTI_POINTER, FM_SIG_HASH_FOLDED, 1);
}

TEST(callers_do_not_count)
{
	mend_faults();
	run_at_random(FM_PY_LASTI_POINTER, FM_SIG_HASH_INNERMOST, 1);
}

TEST(one_after_the_other_and_back)
{
	mend_faults();
	run_at_random(FM_PY_LASTI_POINTER, FM_SIG_HASH_WHOLE, 3);
}

TEST(also_where_an_instruction_does_not_tell_the_code)
{
	mend_faults();
	run_at_random(FM_PY_LASTI_BYTES, FM_SIG_HASH_WHOLE, 1);
}

static struct frame deep[3 * FM_SIG_MIRROR_FRAMES];

// n frames, no two neighbours within reach of another alike: recursion would count once.
static void go_down(unsigned n)
{
	begin();
	for (unsigned i = 0; i < n; i++)
		deep[i] = (struct frame){ (uint64_t)&codes[i % 3], i ? (uint64_t)&deep[i - 1] : 0,
					  codes[i % 3].name + i % (3 * FM_SIG_MIRROR_DEEP) };
	state.current = (uint64_t)&deep[n - 1];
}

TEST(a_stack_with_no_room_is_told_by_its_innermost_frame)
{
	const unsigned n = 3 * FM_SIG_MIRROR_FRAMES;
	mend_faults();
	go_down(n);
	uint64_t before = fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE);
	CHECK_EQ(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE), before);
	deep[0].lasti = deep[n - 100].lasti = 99;
	CHECK_EQ(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE), before);
	deep[n - 1].lasti = 99;
	CHECK(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE) != before);
	state.current = 0;
	CHECK_EQ(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE), 1u);
}

TEST(of_a_deep_stack_the_inner_part_is_compared_at_once_and_the_outer_by_turns)
{
	const unsigned n = 4000, most_blocks = (n / FM_SIG_MIRROR_TURN + 2) * (FM_SIG_MIRROR_BLOCKS_PER_TURN + 1);
	mend_faults();
	go_down(n);
	uint64_t before = fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE), now = before;
	for (unsigned i = 0; i < 3 * most_blocks; i++)
		CHECK_EQ(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE), before);
	uint64_t lasti = deep[n - FM_SIG_MIRROR_DEEP / 2].lasti;
	deep[n - FM_SIG_MIRROR_DEEP / 2].lasti = 7;
	CHECK(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE) != before);
	deep[n - FM_SIG_MIRROR_DEEP / 2].lasti = lasti;
	CHECK_EQ(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE), before);
	deep[3].lasti = 7; // far out
	unsigned n_asked = 0;
	for (; now == before; n_asked++)
		now = fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE);
	CHECK(n_asked <= most_blocks);
	CHECK(n_asked > 1); // it does not go through all of it each time
}

TEST(recursion_counts_once_in_a_deep_stack)
{
	mend_faults();
	go_down(4000);
	for (unsigned i = 200; i < 4000; i++)
		deep[i] = (struct frame){ (uint64_t)&codes[0], (uint64_t)&deep[i - 1], 5 };
	state.current = (uint64_t)&deep[3999];
	uint64_t hash = fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE);
	state.current = (uint64_t)&deep[1000];
	CHECK_EQ(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE), hash);
	state.current = (uint64_t)&deep[199];
	CHECK(fm_sig_python_hash(&thread, FM_SIG_HASH_WHOLE) != hash);
}

TEST_MAIN()
