// SPDX-License-Identifier: Apache-2.0
// Rings as an agent fills them, drained into a profile: samples and allocations share stacks across
// kinds of records.
#include "test.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "collect/ingest/recorder.h"
#include "collect/shared/shared.h"
#include "read/reader.h"

static char path[64];

static void remove_path(void)
{
	unlink(path);
}

struct rig {
	struct fm_shared shared;
	struct fm_registry *registry;
	struct fm_writer *writer;
	struct fm_recorder *recorder;
};

static _Atomic uint32_t second_tid;

static void *second_thread(void *unused)
{
	second_tid = (uint32_t)syscall(SYS_gettid);
	for (;;)
		pause();
	return unused;
}

// One process, which is ourselves, with a slot for each of two threads.
static struct rig *begin(void)
{
	static struct rig rig;
	struct fm_diag diag;
	snprintf(path, sizeof(path), "/tmp/fathom-recorder-%d.fathom", (int)getpid());
	atexit(remove_path);
	CHECK_EQ(fm_shared_init(&rig.shared, &diag), FM_OK);
	CHECK_EQ(fm_writer_open(path, &rig.writer, &diag), FM_OK);
	rig.registry = fm_registry_create(&rig.shared);
	rig.recorder = fm_recorder_create(rig.registry, rig.writer, &(struct fm_trace_limits){ 0 });
	struct fm_wire_process *process = &rig.shared.processes[0];
	process->pid = (uint32_t)getpid();
	process->start_ns = fm_now_ns();
	atomic_store(&process->state, FM_WIRE_LIVE);
	pthread_t thread;
	CHECK_EQ(pthread_create(&thread, NULL, second_thread, NULL), 0);
	pthread_detach(thread);
	while (!second_tid)
		usleep(100);
	for (uint32_t i = 0; i < 2; i++) {
		rig.shared.owners[i].pid = (uint32_t)getpid();
		rig.shared.owners[i].tid = i ? second_tid : (uint32_t)getpid();
		atomic_store(&rig.shared.owners[i].state, FM_WIRE_LIVE);
	}
	return &rig;
}

// Appends a record of a fixed part and n frames.
static void push(struct rig *rig, uint32_t slot_idx, void *rec, size_t size, const uint64_t *frames, size_t n)
{
	struct fm_wire_slot *slot = fm_shared_slot(&rig->shared, slot_idx);
	uint64_t head = atomic_load(&slot->head);
	uint8_t *at = (uint8_t *)slot + FM_WIRE_CONTROL_BYTES + head % FM_WIRE_RING_BYTES;
	((struct fm_wire_record *)rec)->size = (uint32_t)(size + n * 8);
	memcpy(at, rec, size);
	if (n)
		memcpy(at + size, frames, n * 8);
	atomic_store(&slot->head, head + size + n * 8);
}

static void push_sample(struct rig *rig, uint32_t slot, uint64_t time_ns, uint32_t n_shared, const uint64_t *frames,
			uint32_t n)
{
	struct fm_wire_sample rec = { .rec.type = FM_WIRE_SAMPLE,
				      .time_ns = time_ns,
				      .weight_ns = 1000,
				      .n_frames = n_shared + n,
				      .n_shared = n_shared,
				      .leaf_idx = UINT32_MAX,
				      .precise_idx = UINT32_MAX };
	push(rig, slot, &rec, sizeof(rec), frames, n);
}

static void push_alloc(struct rig *rig, uint32_t slot, uint64_t time_ns, uint64_t id, uint8_t domain, uint32_t n_shared,
		       const uint64_t *frames, uint32_t n)
{
	struct fm_wire_alloc rec = { .rec.type = FM_WIRE_ALLOC,
				     .time_ns = time_ns,
				     .id = id,
				     .size = 100 * id,
				     .weight = 1000 * id,
				     .n_frames = n_shared + n,
				     .n_shared = n_shared,
				     .domain = domain };
	push(rig, slot, &rec, sizeof(rec), frames, n);
}

static void push_free(struct rig *rig, uint32_t slot, uint64_t time_ns, uint64_t id)
{
	struct fm_wire_free rec = { .rec.type = FM_WIRE_FREED, .time_ns = time_ns, .id = id };
	push(rig, slot, &rec, sizeof(rec), NULL, 0);
}

static struct fm_reader *finish(struct rig *rig, struct fm_recorder_totals *totals)
{
	struct fm_diag diag;
	struct fm_reader *reader;
	fm_recorder_finish(rig->recorder, totals);
	fm_recorder_destroy(rig->recorder);
	fm_registry_destroy(rig->registry);
	CHECK_EQ(fm_writer_close(rig->writer, &diag), FM_OK);
	fm_shared_deinit(&rig->shared);
	CHECK_EQ(fm_reader_open(path, &reader, &diag), FM_OK);
	return reader;
}

// The values of a stack's frames, outermost first: native pcs are kept as they are, minus one for
// the return address.
static void check_stack(const struct fm_profile *p, uint32_t stack, const uint64_t *pcs, size_t n)
{
	for (; n; n--, stack = p->stacks.items[stack].parent) {
		CHECK(stack != FM_ROOT_STACK);
		CHECK_EQ(p->frames.items[p->stacks.items[stack].frame_id].value, pcs[n - 1] - 1);
	}
	CHECK_EQ(stack, FM_ROOT_STACK);
}

TEST(stacks_are_shared_between_samples_and_allocations)
{
	struct rig *rig = begin();
	uint64_t t = fm_now_ns();
	push_sample(rig, 0, t + 1, 0, (uint64_t[]){ 0x300, 0x200, 0x100 }, 3);          // innermost first
	push_alloc(rig, 0, t + 2, 1, FM_ALLOC_OBJ, 2, (uint64_t[]){ 0x500, 0x400 }, 2); // 100 200 400 500
	push_alloc(rig, 0, t + 3, 2, FM_ALLOC_MALLOC, 4, NULL, 0);                      // the same
	push_free(rig, 1, t + 4, 1);                                                    // by the other thread
	push_sample(rig, 0, t + 5, 3, (uint64_t[]){ 0x600 }, 1);                        // 100 200 400 600
	push_alloc(rig, 1, t + 6, 3, FM_ALLOC_COPY, 0, (uint64_t[]){ 0x900 }, 1);
	fm_recorder_drain(rig->recorder);
	push_alloc(rig, 0, t + 7, 4, FM_ALLOC_MMAP, 1, NULL, 0); // 100
	struct fm_recorder_totals totals;
	struct fm_reader *r = finish(rig, &totals);
	CHECK_EQ(totals.n_samples, 2);
	CHECK_EQ(totals.n_memory_events, 5);
	CHECK_EQ(totals.n_bad_records, 0);
	struct fm_event ev;
	struct fm_sample samples[2];
	struct fm_alloc allocs[5];
	struct fm_free frees[2];
	size_t n_samples = 0, n_allocs = 0, n_frees = 0;
	while (fm_reader_next(r, &ev) == FM_OK)
		if (ev.type == FM_EVENT_SAMPLE && n_samples < 2)
			samples[n_samples++] = ev.sample;
		else if (ev.type == FM_EVENT_ALLOC && n_allocs < 5)
			allocs[n_allocs++] = ev.alloc;
		else if (ev.type == FM_EVENT_FREE && n_frees < 2)
			frees[n_frees++] = ev.free;
	const struct fm_profile *p = fm_reader_profile(r);
	CHECK_EQ(n_samples, 2);
	CHECK_EQ(n_allocs, 4);
	CHECK_EQ(n_frees, 1);
	check_stack(p, samples[0].stack_id, (uint64_t[]){ 0x100, 0x200, 0x300 }, 3);
	check_stack(p, samples[1].stack_id, (uint64_t[]){ 0x100, 0x200, 0x400, 0x600 }, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct fm_alloc *a = &allocs[i];
		if (a->domain == FM_ALLOC_COPY) {
			check_stack(p, a->stack_id, (uint64_t[]){ 0x900 }, 1);
			CHECK_EQ(a->id, 0);
			CHECK_EQ(a->size, 300);
		} else if (a->domain == FM_ALLOC_MMAP) {
			check_stack(p, a->stack_id, (uint64_t[]){ 0x100 }, 1);
		} else {
			check_stack(p, a->stack_id, (uint64_t[]){ 0x100, 0x200, 0x400, 0x500 }, 4);
			CHECK_EQ(a->id, a->domain == FM_ALLOC_OBJ ? 1 : 2);
			CHECK_EQ(a->weight, 1000 * a->id);
			CHECK_EQ(a->time_ns, t + 1 + a->id);
			// Which thread has the lower number depends on whether the second was seen
			// asleep first.
			CHECK(a->thread_id != frees[0].thread_id);
		}
	}
	CHECK_EQ(frees[0].id, 1);
	fm_reader_close(r);
}

TEST(damaged_records_are_counted_and_left_out)
{
	struct rig *rig = begin();
	push_alloc(rig, 0, 1, 1, FM_ALLOC_OBJ, 5, NULL, 0);       // shares frames that there never were
	push_alloc(rig, 0, 2, 2, FM_N_ALLOC_DOMAINS, 0, NULL, 0); // no such domain
	push_alloc(rig, 0, 3, 3, FM_ALLOC_OBJ, 0, (uint64_t[]){ 0x100 }, 1);
	struct fm_wire_record cut = { .type = FM_WIRE_FREED };
	push(rig, 0, &cut, sizeof(cut), NULL, 0);
	struct fm_wire_alloc liar = { .rec.type = FM_WIRE_ALLOC, .n_frames = 1000000 };
	push(rig, 0, &liar, sizeof(liar), NULL, 0);
	struct fm_recorder_totals totals;
	struct fm_reader *r = finish(rig, &totals);
	CHECK_EQ(totals.n_bad_records, 4);
	CHECK_EQ(totals.n_memory_events, 1);
	fm_reader_close(r);
}

// The next sample of CPU time: our own second thread sleeps, which is in the file, too.
static bool next_sample(struct fm_reader *r, struct fm_event *ret)
{
	while (fm_reader_next(r, ret) == FM_OK)
		if (ret->type == FM_EVENT_SAMPLE && ret->sample.class < FM_CLASS_GIL_WAIT)
			return true;
	return false;
}

// What the agent counted is what the file holds: no sample more or less, and each with its own
// weight.
TEST(every_sample_arrives_with_its_weight)
{
	enum { N = 1000, FIRST = 400 };
	struct rig *rig = begin();
	uint64_t t = fm_now_ns(), sum_ns = 0;
	struct fm_wire_slot *slot = fm_shared_slot(&rig->shared, 0);
	for (uint32_t i = 0; i < N; i++) {
		struct fm_wire_sample rec = { .rec.type = FM_WIRE_SAMPLE,
					      .time_ns = t + i,
					      .weight_ns = 1000003 + 17 * i,
					      .n_frames = 1,
					      .leaf_idx = UINT32_MAX,
					      .precise_idx = UINT32_MAX };
		push(rig, 0, &rec, sizeof(rec), (uint64_t[]){ 0x100 + i }, 1);
		sum_ns += rec.weight_ns;
		if (i == FIRST)
			fm_recorder_drain(rig->recorder);
	}
	atomic_store(&slot->n_samples, N);
	atomic_store(&slot->cpu_ns, sum_ns);
	struct fm_recorder_totals totals;
	struct fm_reader *r = finish(rig, &totals);
	CHECK_EQ(totals.n_samples, N);
	CHECK_EQ(totals.n_taken, N);
	CHECK_EQ(totals.n_bad_records, 0);
	struct fm_event ev;
	uint32_t n = 0, thread_id = 0;
	for (; next_sample(r, &ev); n++) {
		CHECK_EQ(ev.sample.time_ns, t + n);
		CHECK_EQ(ev.sample.weight_ns, 1000003 + 17 * n);
		thread_id = ev.sample.thread_id;
	}
	CHECK_EQ(n, N);
	CHECK_EQ(fm_reader_profile(r)->threads.items[thread_id].cpu_ns, sum_ns);
	fm_reader_close(r);
}

TEST(samples_for_more_than_ten_periods_are_counted)
{
	static const struct {
		uint64_t weight_ns;
		uint8_t class;
	} samples[] = { { 10000000, FM_CLASS_PYTHON }, { 180000000, FM_CLASS_NATIVE }, { 180000000, FM_CLASS_SYSTEM } };
	struct rig *rig = begin();
	rig->shared.header->rate_hz = 1000;
	for (unsigned i = 0; i < FM_ARRAY_LEN(samples); i++) {
		struct fm_wire_sample rec = { .rec.type = FM_WIRE_SAMPLE,
					      .time_ns = fm_now_ns(),
					      .weight_ns = samples[i].weight_ns,
					      .class = samples[i].class,
					      .n_frames = 1,
					      .leaf_idx = UINT32_MAX,
					      .precise_idx = UINT32_MAX };
		push(rig, 0, &rec, sizeof(rec), (uint64_t[]){ 0x100 + i }, 1);
	}
	struct fm_recorder_totals totals;
	fm_reader_close(finish(rig, &totals));
	CHECK_EQ(totals.n_heavy, 1); // a call that held the signal back is shown for what it took
	CHECK_EQ(totals.heavy_ns, 180000000);
}

TEST(what_did_not_fit_a_ring_is_counted_by_thread_and_in_all)
{
	struct rig *rig = begin();
	push_sample(rig, 0, fm_now_ns(), 0, (uint64_t[]){ 0x100 }, 1);
	atomic_store(&fm_shared_slot(&rig->shared, 0)->n_dropped, 7);
	atomic_store(&fm_shared_slot(&rig->shared, 1)->n_dropped, 35);
	atomic_store(&fm_shared_slot(&rig->shared, 1)->n_alloc_dropped, 5);
	atomic_store(&fm_shared_slot(&rig->shared, 0)->n_free_dropped, 3);
	uint32_t tids[2] = { rig->shared.owners[0].tid, rig->shared.owners[1].tid };
	struct fm_recorder_totals totals;
	struct fm_reader *r = finish(rig, &totals);
	CHECK_EQ(totals.n_dropped, 42);
	CHECK_EQ(totals.n_alloc_dropped, 5);
	CHECK_EQ(totals.n_free_dropped, 3);
	struct fm_event ev;
	while (fm_reader_next(r, &ev) == FM_OK)
		;
	const struct fm_profile *p = fm_reader_profile(r);
	for (size_t i = 0; i < p->threads.n; i++)
		for (unsigned k = 0; k < 2; k++)
			if (p->threads.items[i].tid == tids[k])
				CHECK_EQ(p->threads.items[i].n_dropped, k ? 35 : 7);
	fm_reader_close(r);
}

// What lies behind the head is not written yet, however well it looks.
TEST(a_record_that_reaches_beyond_its_head_is_none)
{
	struct rig *rig = begin();
	uint64_t t = fm_now_ns();
	struct fm_wire_slot *slot = fm_shared_slot(&rig->shared, 0);
	push_sample(rig, 0, t + 1, 0, (uint64_t[]){ 0x100 }, 1);
	uint64_t whole = atomic_load(&slot->head);
	push_sample(rig, 0, t + 2, 0, (uint64_t[]){ 0x200, 0x300, 0x400 }, 3);
	uint64_t end = atomic_load(&slot->head);
	atomic_store(&slot->head, end - 8); // its last frame is not published
	fm_recorder_drain(rig->recorder);
	CHECK(whole < end - 8);
	struct fm_recorder_totals totals;
	struct fm_reader *r = finish(rig, &totals);
	CHECK_EQ(totals.n_samples, 1);
	CHECK(totals.n_bad_records >= 1);
	struct fm_event ev;
	uint32_t n = 0;
	for (; next_sample(r, &ev); n++)
		CHECK_EQ(ev.sample.time_ns, t + 1);
	CHECK_EQ(n, 1);
	fm_reader_close(r);
}

TEST_MAIN()
