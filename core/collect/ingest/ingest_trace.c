// SPDX-License-Identifier: Apache-2.0
#include "collect/ingest/ingest_trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/mem.h"
#include "format/zones.h"
#include "wire/trace.h"

// A batch goes to the writer when it is so large, or so old: what a crash of the collector can
// cost.
#define BATCH_BYTES ((size_t)48 << 10)
#define BATCH_NS 100000000u
#define N_TRIES 5
// The ring is memory of the target, which may damage it. Calls that are said to be open after a
// loss are written one by one: as many as a stack could hold, and not at every other event. A
// writer that loses goes on when half of the ring is free, so that many lie between two losses.
#define MOST_OPEN (1u << 18)
#define EVENTS_BETWEEN_LOSSES (FM_WIRE_TRACE_EVENTS / 2)
// Of batches that wait for the end (--last). The oldest go first, even if they are not old enough.
#define KEPT_BYTES ((size_t)256 << 20)

struct thread_trace {
	struct fm_wire_trace *control; // NULL: not traced so far
	uint64_t noted_head;
	uint32_t process_idx, thread_id;
	struct fm_zone_encoder encoder;
	uint64_t batch_ns;        // when its first event was read
	uint32_t counter_ref;     // of the counter whose value comes next
	uint64_t counter_ns;      // 0 = none
	uint64_t lost_ns, n_lost; // of a loss whose depths come next; n_lost 0 = none
	uint64_t next_loss;       // the first event that can be one
};

struct process_trace {
	FM_VEC(uint32_t) names; // wire id -> id of the profile + 1
	uint64_t off_ns;        // tracing ended then; 0 = nothing to do
};

// One moment on both clocks. Between two of them, time is a straight line.
struct calibration {
	uint64_t stamp, ns;
};

// A batch that is written only if it is among the last ones.
struct kept_batch {
	uint64_t end_ns;
	uint32_t thread_id;
	uint32_t len;
	uint8_t *body;
};

struct fm_ingest_trace {
	struct fm_shared *shared;
	struct fm_trace_limits limits;
	FM_VEC(struct kept_batch) kept; // oldest first, from first_kept on
	size_t first_kept, kept_bytes;
	struct fm_writer *writer;
	struct thread_trace threads[FM_WIRE_N_SLOTS];
	struct process_trace processes[FM_WIRE_N_PROCESSES];
	FM_VEC(uint32_t) busy; // slots that are traced
	FM_VEC(uint8_t) zones; // by the profile's id of a name: whether it is one
	struct calibration from;
	uint64_t ns_per_2_32; // stamps since `from` to nanoseconds, times 2^32
	struct fm_buf body;
	struct fm_ingest_trace_totals totals;
};

static bool has_cycles(const struct fm_ingest_trace *t)
{
	return t->shared->header->trace_clock == FM_WIRE_CLOCK_CYCLES;
}

// The pair whose two readings of the counter lie closest together: nothing came between.
static struct calibration look_at_clocks(void)
{
	struct calibration best = { 0 };
	uint64_t best_width = UINT64_MAX;
	for (int i = 0; i < N_TRIES; i++) {
		uint64_t before = fm_cycles(), ns = fm_now_ns(), after = fm_cycles();
		if (after - before < best_width) {
			best_width = after - before;
			best = (struct calibration){ before + (after - before) / 2, ns };
		}
	}
	return best;
}

struct fm_ingest_trace *fm_ingest_trace_create(struct fm_shared *shared, struct fm_writer *writer,
					       const struct fm_trace_limits *limits)
{
	struct fm_ingest_trace *t = fm_alloc(sizeof(*t));
	t->shared = shared;
	t->writer = writer;
	t->limits = *limits;
	t->from = look_at_clocks();
	return t;
}

void fm_ingest_trace_destroy(struct fm_ingest_trace *t)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		if (t->threads[i].control)
			munmap(t->threads[i].control, FM_WIRE_TRACE_SLOT_BYTES);
		fm_zone_encoder_deinit(&t->threads[i].encoder);
	}
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		fm_vec_deinit(&t->processes[i].names);
	for (size_t i = t->first_kept; i < t->kept.n; i++)
		free(t->kept.items[i].body);
	fm_vec_deinit(&t->kept);
	fm_vec_deinit(&t->busy);
	fm_vec_deinit(&t->zones);
	fm_buf_deinit(&t->body);
	free(t);
}

void fm_ingest_trace_calibrate(struct fm_ingest_trace *t)
{
	if (!t->busy.n || !has_cycles(t))
		return;
	struct calibration to = look_at_clocks();
	// The line from the last moment to this one holds for what was written in between; what is
	// read later starts at this one. So errors of a reading do not add up. Two moments too
	// close together tell nothing of the slope.
	if (to.ns - t->from.ns < 1000000u && t->ns_per_2_32)
		return;
	if (to.stamp > t->from.stamp) {
		unsigned __int128 scaled = (unsigned __int128)(to.ns - t->from.ns) << 32;
		t->ns_per_2_32 = (uint64_t)(scaled / (to.stamp - t->from.stamp));
	}
	t->from = to;
}

static uint64_t ns_of(const struct fm_ingest_trace *t, uint64_t stamp)
{
	if (!has_cycles(t))
		return stamp;
	__int128 delta = (__int128)stamp - t->from.stamp; // mostly negative: `from` is the end of the line
	return t->from.ns + (uint64_t)(int64_t)((delta * (__int128)t->ns_per_2_32) >> 32);
}

void fm_ingest_trace_note(struct fm_ingest_trace *t, uint32_t slot_idx)
{
	struct thread_trace *thread = &t->threads[slot_idx];
	if (!thread->control) {
		if (!atomic_load_explicit(&fm_shared_slot(t->shared, slot_idx)->has_trace, memory_order_acquire))
			return;
		void *p = mmap(NULL, FM_WIRE_TRACE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			       t->shared->fd, (off_t)(FM_WIRE_TRACE_OFFSET + slot_idx * FM_WIRE_TRACE_SLOT_BYTES));
		if (p == MAP_FAILED)
			return;
		thread->control = p;
		thread->next_loss =
			atomic_load_explicit(&thread->control->tail, memory_order_relaxed) + EVENTS_BETWEEN_LOSSES;
		thread->encoder.min_ns = t->limits.min_ns;
		fm_vec_push(&t->busy, slot_idx);
	}
	thread->noted_head = atomic_load_explicit(&thread->control->head, memory_order_acquire);
}

static void drop_oldest(struct fm_ingest_trace *t)
{
	struct kept_batch *oldest = &t->kept.items[t->first_kept++];
	t->kept_bytes -= oldest->len;
	free(oldest->body);
	// Moved down now and then, so that the list does not grow with time.
	if (t->first_kept >= 1024 && t->first_kept >= t->kept.n / 2) {
		t->kept.n -= t->first_kept;
		memmove(t->kept.items, t->kept.items + t->first_kept, t->kept.n * sizeof(*t->kept.items));
		t->first_kept = 0;
	}
}

static void keep_batch(struct fm_ingest_trace *t, const struct thread_trace *thread)
{
	struct kept_batch batch = { thread->encoder.time_ns, thread->thread_id, (uint32_t)t->body.len,
				    fm_alloc(t->body.len) };
	memcpy(batch.body, t->body.data, t->body.len);
	fm_vec_push(&t->kept, batch);
	t->kept_bytes += batch.len;
	while (t->first_kept < t->kept.n &&
	       (t->kept_bytes > KEPT_BYTES || t->kept.items[t->first_kept].end_ns + t->limits.last_ns < batch.end_ns))
		drop_oldest(t);
}

void fm_ingest_trace_finish(struct fm_ingest_trace *t)
{
	for (size_t i = t->first_kept; i < t->kept.n; i++)
		fm_writer_trace(t->writer, t->kept.items[i].thread_id, t->kept.items[i].body, t->kept.items[i].len);
}

static void give_batch(struct fm_ingest_trace *t, struct thread_trace *thread)
{
	t->body.len = 0;
	if (!fm_zone_encoder_take(&thread->encoder, thread->thread_id, &t->body))
		return;
	if (t->limits.last_ns)
		keep_batch(t, thread);
	else
		fm_writer_trace(t->writer, thread->thread_id, t->body.data, t->body.len);
}

static void put(struct fm_ingest_trace *t, struct thread_trace *thread, uint8_t op, uint32_t ref, uint64_t ns,
		double value)
{
	if (!thread->encoder.n)
		thread->batch_ns = t->from.ns;
	fm_zone_encode(&thread->encoder, op, ref, ns, value);
	t->totals.n_events++;
	if (FM_UNLIKELY(thread->encoder.events.len >= BATCH_BYTES))
		give_batch(t, thread);
}

// The end of `ref`. What was opened after it ends with it (its own end was not seen); one that is
// not open began before the trace did.
static void leave(struct fm_ingest_trace *t, struct thread_trace *thread, fm_zone_ref ref, uint64_t ns)
{
	size_t n = thread->encoder.open.n, at = n;
	while (at > 0 && thread->encoder.open.items[at - 1] != ref)
		at--;
	if (FM_UNLIKELY(at == 0))
		return;
	for (size_t i = n; i >= at; i--)
		put(t, thread, FM_ZONE_LEAVE, 0, ns, 0);
}

// Events are missing. The stack went down by so many meanwhile, and up again; what it is made of up
// there is not known.
static void resume_after_loss(struct fm_ingest_trace *t, struct thread_trace *thread, uint32_t down, uint32_t up)
{
	// More than are open: some began before the trace.
	for (; down && thread->encoder.open.n; down--)
		put(t, thread, FM_ZONE_LEAVE, 0, thread->lost_ns, 0);
	put(t, thread, FM_ZONE_NOTE, FM_ZONE_LOST, thread->lost_ns, (double)thread->n_lost);
	up = (uint32_t)FM_MIN((uint64_t)up, thread->n_lost); // each of them opened one at most
	while (up-- && thread->encoder.open.n < MOST_OPEN)
		put(t, thread, FM_ZONE_ENTER, FM_NO_ID, thread->lost_ns, 0);
	thread->n_lost = 0;
}

static void take_value(struct fm_ingest_trace *t, struct thread_trace *thread, uint64_t bits)
{
	if (thread->n_lost) {
		resume_after_loss(t, thread, (uint32_t)(bits >> 32), (uint32_t)bits);
	} else if (thread->counter_ns) {
		double value;
		memcpy(&value, &bits, sizeof(value));
		put(t, thread, FM_ZONE_COUNTER, thread->counter_ref, thread->counter_ns, value);
		thread->counter_ns = 0;
	}
}

static bool is_zone(const struct fm_ingest_trace *t, fm_zone_ref ref)
{
	return fm_zone_ref_is_name(ref) && fm_zone_ref_id(ref) < t->zones.n && t->zones.items[fm_zone_ref_id(ref)];
}

// The end of a trace: of the calls that are open, and of the zones inside them. A zone around the
// trace goes on.
static void end_calls(struct fm_ingest_trace *t, struct thread_trace *thread, uint64_t ns)
{
	size_t n = thread->encoder.open.n, n_around = 0;
	while (n_around < n && is_zone(t, thread->encoder.open.items[n_around]))
		n_around++;
	if (!n_around)
		put(t, thread, FM_ZONE_NOTE, FM_ZONE_OFF, ns, 0);
	for (; n_around && n > n_around; n--)
		put(t, thread, FM_ZONE_LEAVE, 0, ns, 0);
}

// The thread's first event of a trace. Calls that it has open are of the one before, which another
// thread ended: their ends never came.
static void end_last_trace(struct fm_ingest_trace *t, struct thread_trace *thread, uint64_t on_ns)
{
	uint64_t off_ns = t->processes[thread->process_idx].off_ns, last_ns = thread->encoder.time_ns;
	if (thread->encoder.open.n)
		end_calls(t, thread, off_ns >= last_ns && off_ns <= on_ns ? off_ns : last_ns);
}

static uint32_t lookup(const uint32_t *ids, size_t n, uint32_t id)
{
	return id < n && ids[id] ? ids[id] - 1 : FM_NO_ID;
}

void fm_ingest_trace_read(struct fm_ingest_trace *t, uint32_t slot_idx, uint32_t process_idx, uint32_t thread_id,
			  const uint32_t *code_ids, size_t n_codes)
{
	struct thread_trace *thread = &t->threads[slot_idx];
	if (!thread->control)
		return;
	struct process_trace *process = &t->processes[process_idx];
	thread->process_idx = process_idx;
	thread->thread_id = thread_id;
	const struct fm_wire_event *events = (const void *)((const uint8_t *)thread->control + FM_WIRE_CONTROL_BYTES);
	uint64_t tail = atomic_load_explicit(&thread->control->tail, memory_order_relaxed); // ours
	if (thread->noted_head - tail > FM_WIRE_TRACE_EVENTS)
		tail = thread->noted_head; // not what our agent does
	for (; tail != thread->noted_head; tail++) {
		struct fm_wire_event e = events[tail & (FM_WIRE_TRACE_EVENTS - 1)];
		uint32_t name, code;
		switch (e.kind) {
		case FM_WIRE_ENTER:
		case FM_WIRE_RESUME:
			code = lookup(code_ids, n_codes, e.id);
			put(t, thread, e.kind == FM_WIRE_ENTER ? FM_ZONE_ENTER : FM_ZONE_RESUME, code,
			    ns_of(t, e.stamp), 0);
			break;
		case FM_WIRE_LEAVE:
			code = lookup(code_ids, n_codes, e.id);
			leave(t, thread, fm_zone_ref_of(FM_ZONE_ENTER, code), ns_of(t, e.stamp));
			break;
		case FM_WIRE_LINE:
			put(t, thread, FM_ZONE_LINE, e.id, ns_of(t, e.stamp), 0);
			break;
		case FM_WIRE_BEGIN:
		case FM_WIRE_END:
		case FM_WIRE_MARK:
		case FM_WIRE_COUNTER:
			name = lookup(process->names.items, process->names.n, e.id);
			if (name == FM_NO_ID)
				break;
			if (e.kind == FM_WIRE_BEGIN) {
				put(t, thread, FM_ZONE_BEGIN, name, ns_of(t, e.stamp), 0);
			} else if (e.kind == FM_WIRE_END) {
				leave(t, thread, fm_zone_ref_of(FM_ZONE_BEGIN, name), ns_of(t, e.stamp));
			} else if (e.kind == FM_WIRE_MARK) {
				put(t, thread, FM_ZONE_MARK, name, ns_of(t, e.stamp), 0);
			} else {
				thread->counter_ref = name;
				thread->counter_ns = ns_of(t, e.stamp);
			}
			break;
		case FM_WIRE_VALUE:
			take_value(t, thread, e.stamp);
			break;
		case FM_WIRE_LOST:
			if (tail < thread->next_loss)
				break; // damaged
			thread->lost_ns = ns_of(t, e.stamp);
			thread->n_lost = FM_MAX(e.id, 1u);
			thread->next_loss = tail + EVENTS_BETWEEN_LOSSES;
			break;
		case FM_WIRE_TRACE_ON:
			end_last_trace(t, thread, ns_of(t, e.stamp));
			put(t, thread, FM_ZONE_NOTE, FM_ZONE_ON, ns_of(t, e.stamp), 0);
			break;
		case FM_WIRE_TRACE_OFF:
			process->off_ns = ns_of(t, e.stamp);
			end_calls(t, thread, process->off_ns);
			break;
		}
	}
	// Release: we are done with these bytes, the owner may overwrite them.
	atomic_store_explicit(&thread->control->tail, tail, memory_order_release);
}

void fm_ingest_trace_settle(struct fm_ingest_trace *t)
{
	for (size_t i = 0; i < t->busy.n; i++) {
		struct thread_trace *thread = &t->threads[t->busy.items[i]];
		uint64_t off_ns = t->processes[thread->process_idx].off_ns;
		if (thread->encoder.open.n && thread->encoder.time_ns < off_ns) // else what is open began later
			end_calls(t, thread, off_ns);
		if (thread->encoder.n && fm_now_ns() - thread->batch_ns >= BATCH_NS)
			give_batch(t, thread);
	}
	for (size_t i = 0; i < t->busy.n; i++)
		t->processes[t->threads[t->busy.items[i]].process_idx].off_ns = 0;
}

bool fm_ingest_trace_name(struct fm_ingest_trace *t, uint32_t process_idx, const struct fm_wire_record *record)
{
	const struct fm_wire_trace_name *rec = (const void *)record;
	if (record->size < sizeof(*rec) || rec->name_len > record->size - sizeof(*rec) ||
	    rec->file_len > record->size - sizeof(*rec) - rec->name_len || rec->id == 0 || rec->id > (1u << 24) ||
	    rec->kind < FM_NAME_FUNCTION || rec->kind > FM_NAME_COUNTER)
		return false;
	struct process_trace *process = &t->processes[process_idx];
	struct fm_str name = { (const char *)rec->bytes, rec->name_len };
	struct fm_str file = { (const char *)rec->bytes + rec->name_len, rec->file_len };
	fm_vec_grow_to(&process->names, (size_t)rec->id + 1);
	uint32_t id = fm_writer_trace_place(t->writer, (enum fm_trace_name_kind)rec->kind, name, file, rec->line);
	process->names.items[rec->id] = id + 1;
	fm_vec_grow_to(&t->zones, (size_t)id + 1);
	t->zones.items[id] = rec->kind == FM_NAME_ZONE;
	return true;
}

bool fm_ingest_trace_is_read(const struct fm_ingest_trace *t, uint32_t slot_idx)
{
	const struct fm_wire_trace *control = t->threads[slot_idx].control;
	if (!control) // it may have begun and ended since the rings were read
		return !atomic_load_explicit(&fm_shared_slot(t->shared, slot_idx)->has_trace, memory_order_acquire);
	return atomic_load(&control->head) == atomic_load(&control->tail);
}

void fm_ingest_trace_end_thread(struct fm_ingest_trace *t, uint32_t slot_idx)
{
	struct thread_trace *thread = &t->threads[slot_idx];
	if (!thread->control)
		return;
	// A program that was killed leaves its calls open: they are known to have lasted until the
	// thread's last event.
	if (thread->encoder.open.n)
		put(t, thread, FM_ZONE_NOTE, FM_ZONE_OFF, thread->encoder.time_ns, 0);
	give_batch(t, thread);
	t->totals.n_short += thread->encoder.n_left_out;
	t->totals.n_lost += atomic_load(&thread->control->n_lost);
	t->totals.n_unseen += atomic_load(&thread->control->n_unseen);
	munmap(thread->control, FM_WIRE_TRACE_SLOT_BYTES);
	fm_zone_encoder_deinit(&thread->encoder);
	*thread = (struct thread_trace){ 0 };
	for (size_t i = 0; i < t->busy.n; i++)
		if (t->busy.items[i] == slot_idx)
			t->busy.items[i--] = t->busy.items[--t->busy.n];
}

void fm_ingest_trace_end_process(struct fm_ingest_trace *t, uint32_t process_idx)
{
	t->processes[process_idx].names.n = 0;
	t->processes[process_idx].off_ns = 0;
}

const struct fm_ingest_trace_totals *fm_ingest_trace_totals(const struct fm_ingest_trace *t)
{
	return &t->totals;
}
