// SPDX-License-Identifier: Apache-2.0
// Definitions (code objects, images) and samples travel through different threads' rings, so the
// order between rings matters:
// an agent publishes a definition before any sample that uses it. Reading therefore goes in three
// steps: note how far each ring is; read the definitions of every ring as far as it is by then;
// read the samples up to the notes. A sample within the notes finds its definitions read.
#include "collect/ingest/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collect/process/kernel_stacks.h"
#include "collect/ingest/recorder_parts.h"

// A thread's end is noticed this often.
#define LIVENESS_NS 50000000u

struct fm_recorder *fm_recorder_create(struct fm_registry *registry, struct fm_writer *writer,
				       const struct fm_trace_limits *limits)
{
	struct fm_recorder *r = fm_alloc(sizeof(*r));
	struct fm_shared *shared = fm_registry_shared(registry);
	r->registry = registry;
	r->shared = shared;
	r->writer = writer;
	r->rows = fm_rows_create(shared);
	r->trace = fm_ingest_trace_create(shared, writer, limits);
	return r;
}

void fm_recorder_set_observer(struct fm_recorder *r, const struct fm_thread_observer *observer)
{
	r->observer = *observer;
}

void fm_recorder_set_sources(struct fm_recorder *r, const char *dir)
{
	r->sources_dir = dir;
}

void fm_recorder_add_kernel(struct fm_recorder *r, struct fm_kernel_stacks *kernel)
{
	r->kernel = kernel;
}

void fm_recorder_limit_log(struct fm_recorder *r, uint64_t bytes)
{
	r->log_limit_bytes = bytes;
}

void fm_recorder_destroy(struct fm_recorder *r)
{
	for (size_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used)
			fm_recorded_process_deinit(&r->processes[i]);
	for (size_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		fm_vec_deinit(&r->slots[i].stacks);
		fm_vec_deinit(&r->slots[i].wire);
	}
	fm_intern_deinit(&r->sources);
	fm_vec_deinit(&r->exits);
	fm_map_deinit(&r->thread_ids);
	fm_vec_deinit(&r->threads);
	fm_buf_deinit(&r->record);
	fm_rows_destroy(r->rows);
	fm_ingest_trace_destroy(r->trace);
	free(r);
}

void fm_recorder_set_exit(struct fm_recorder *r, uint32_t pid, int exit_code, int exit_signal)
{
	fm_vec_push(&r->exits, (struct exit_status){ pid, exit_code, exit_signal });
}

typedef void (*take_fn)(struct fm_recorder *, struct recorded_process *, struct recorded_slot *,
			const struct fm_wire_record *);

static void take_definition(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			    const struct fm_wire_record *rec)
{
	if (rec->type == FM_WIRE_TRACE_NAME) {
		if (!fm_ingest_trace_name(r->trace, s->process_idx, rec))
			r->totals.n_bad_records++;
		return;
	}
	fm_ingest_definition(r, p, rec);
}

static void take_sample(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			const struct fm_wire_sample *rec)
{
	if (rec->rec.size < sizeof(*rec)) {
		r->totals.n_bad_records++;
		return;
	}
	struct wire_stack from = { rec->time_ns,
				   rec->n_frames,
				   rec->n_shared,
				   rec->leaf_idx,
				   rec->precise_idx,
				   rec->frames,
				   (rec->rec.size - sizeof(*rec)) / sizeof(uint64_t) };
	uint32_t stack;
	if (!fm_ingest_stack(r, p, s, &from, &stack)) {
		r->totals.n_bad_records++;
		return;
	}
	if (r->kernel && rec->class == FM_CLASS_SYSTEM)
		stack = fm_kernel_stacks_extend(r->kernel, s->tid, r->threads.items[s->thread_id].last_ns, rec->time_ns,
						stack);
	struct fm_sample sample = {
		.thread_id = s->thread_id,
		.stack_id = stack,
		.time_ns = rec->time_ns,
		.weight_ns = rec->weight_ns,
		.cpu = rec->cpu,
		.class = rec->class,
	};
	fm_writer_sample(r->writer, &sample);
	r->threads.items[s->thread_id].last_ns = rec->time_ns;
	r->totals.n_samples++;
	// One that was held back by a system call shows the very call that used the time.
	uint64_t period_ns = 1000000000u / FM_MAX(r->shared->header->rate_hz, 1u);
	bool is_heavy = rec->weight_ns > FM_HEAVY_PERIODS * FM_MAX(period_ns, FM_HEAVY_LEAST_PERIOD_NS);
	if (is_heavy && rec->class != FM_CLASS_SYSTEM) {
		r->totals.n_heavy++;
		r->totals.heavy_ns += rec->weight_ns;
	}
}

static void take_event(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		       const struct fm_wire_record *rec)
{
	if (rec->type == FM_WIRE_SAMPLE)
		take_sample(r, p, s, (const void *)rec);
	else if (rec->type == FM_WIRE_ALLOC)
		fm_ingest_alloc(r, p, s, (const void *)rec);
	else if (rec->type == FM_WIRE_FREED)
		fm_ingest_free(r, p, s, (const void *)rec);
	else if (rec->type == FM_WIRE_SITE)
		fm_exact_take_site(r, p, s, (const void *)rec);
	else if (rec->type == FM_WIRE_BLOCK)
		fm_exact_take_block(r, p, s, (const void *)rec);
}

// Walks the records in [from, to). The memory is the target's to damage: a size that cannot be ends
// the walk at to. What is looked at is a copy, which stays as it was checked.
static void walk_ring(struct fm_recorder *r, uint32_t idx, uint64_t from, uint64_t to, take_fn take)
{
	struct recorded_slot *s = &r->slots[idx];
	struct recorded_process *p = &r->processes[s->process_idx];
	const uint8_t *ring = fm_shared_ring(r->shared, idx);
	if (to - from > FM_WIRE_RING_BYTES || (from | to) % 8) {
		r->totals.n_bad_records++;
		return;
	}
	while (from < to) {
		const struct fm_wire_record *rec = (const void *)(ring + from % FM_WIRE_RING_BYTES);
		uint32_t size = rec->size;
		if (size < sizeof(*rec) || size % 8 || size > to - from ||
		    from % FM_WIRE_RING_BYTES + size > FM_WIRE_RING_BYTES) {
			r->totals.n_bad_records++;
			return;
		}
		r->record.len = 0;
		fm_buf_bytes(&r->record, rec, size);
		struct fm_wire_record *copy = (void *)r->record.data;
		copy->size = size;
		take(r, p, s, copy);
		from += size;
	}
}

// False: nobody has it.
static bool open_slot(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_slot *s = &r->slots[idx];
	struct fm_shared_owner owner;
	if (!fm_shared_read_owner(r->shared, idx, &owner) || !fm_recorded_process_open(r, owner.process_idx))
		return false;
	s->is_used = true;
	s->process_idx = owner.process_idx;
	s->tid = owner.tid;
	s->tail = s->definitions_read = 0;
	s->name[0] = 0;
	s->stacks.n = s->wire.n = 0;
	const struct fm_thread_observer *o = &r->observer;
	uint64_t start_ns = fm_shared_slot(r->shared, idx)->start_ns;
	if (o->self)
		start_ns = o->began(o->self, owner.process_idx, owner.tid, start_ns);
	s->thread_id = fm_recorder_thread(r, owner.process_idx, owner.tid, start_ns);
	return true;
}

// Threads are renamed when it suits them; what they are called now is written when it is news.
static void name_thread(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_slot *s = &r->slots[idx];
	const struct fm_thread_observer *o = &r->observer;
	uint64_t since_ns = fm_shared_slot(r->shared, idx)->start_ns;
	if (o->self &&
	    o->name_thread(o->self, s->process_idx, r->processes[s->process_idx].proc_pid, s->tid, since_ns, s->name))
		fm_writer_thread_name(r->writer, s->thread_id, fm_str_of(s->name));
}

static void close_slot(struct fm_recorder *r, uint32_t idx)
{
	struct recorded_slot *s = &r->slots[idx];
	struct fm_wire_slot *slot = fm_shared_slot(r->shared, idx);
	uint64_t n_dropped = atomic_load(&slot->n_dropped);
	if (atomic_load(&slot->tail) != s->tail)
		atomic_store(&r->shared->is_damaged, true);
	r->totals.n_dropped += n_dropped;
	r->totals.n_taken += atomic_load(&slot->n_samples);
	r->totals.n_failed += atomic_load(&slot->n_failed);
	r->totals.n_restarted += atomic_load(&slot->n_restarted);
	r->totals.n_displaced += atomic_load(&slot->n_displaced);
	r->totals.n_cut += atomic_load(&slot->n_cut);
	r->totals.n_unafforded += atomic_load(&slot->n_unafforded);
	r->totals.n_no_stack += atomic_load(&slot->n_no_stack);
	r->totals.n_alloc_samples += atomic_load(&slot->n_alloc_samples);
	r->totals.n_alloc_dropped += atomic_load(&slot->n_alloc_dropped);
	r->totals.n_free_dropped += atomic_load(&slot->n_free_dropped);
	r->totals.alloc_cycles += atomic_load(&slot->alloc_cycles);
	fm_cost_add_slot(&r->totals.cost, slot);
	fm_ingest_trace_end_thread(r->trace, idx);
	fm_writer_thread_end(r->writer, s->thread_id,
			     &(struct fm_thread_totals){ fm_now_ns(), atomic_load(&slot->cpu_ns), n_dropped,
							 r->threads.items[s->thread_id].ready_ns1 });
	fm_recorded_thread_forget(r, s->process_idx, s->tid);
	s->is_used = false;
	s->stacks.n = s->wire.n = 0;
	fm_shared_free_slot(r->shared, idx);
}

static bool is_thread_gone(const struct recorded_process *p, uint32_t tid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%u/task/%u", p->pid, tid);
	return access(path, F_OK) != 0 && errno == ENOENT;
}

static void read_rings(struct fm_recorder *r)
{
	for (uint32_t i = 0; i < r->shared->n_slots; i++) {
		if (!r->slots[i].is_used && !open_slot(r, i))
			continue;
		fm_ingest_trace_note(r->trace, i);
		r->slots[i].noted_head =
			atomic_load_explicit(&fm_shared_slot(r->shared, i)->head, memory_order_acquire);
	}
	if (r->kernel)
		fm_kernel_stacks_read(r->kernel);
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct recorded_slot *s = &r->slots[i];
		if (!s->is_used)
			continue;
		uint64_t head = atomic_load_explicit(&fm_shared_slot(r->shared, i)->head, memory_order_acquire);
		walk_ring(r, i, s->definitions_read, head, take_definition);
		s->definitions_read = head;
	}
	fm_ingest_trace_calibrate(r->trace);
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct recorded_slot *s = &r->slots[i];
		if (!s->is_used)
			continue;
		struct recorded_process *p = &r->processes[s->process_idx];
		if (!p->is_traced && atomic_load(&fm_shared_slot(r->shared, i)->has_trace))
			fm_recorded_process_is_traced(r, p);
		fm_ingest_trace_read(r->trace, i, s->process_idx, s->thread_id, p->code_ids.items, p->code_ids.n);
		struct fm_wire_slot *slot = fm_shared_slot(r->shared, i);
		if (s->tail == s->noted_head)
			continue;
		walk_ring(r, i, s->tail, s->noted_head, take_event);
		s->tail = s->noted_head;
		// Release: we are done with these bytes, the owner may overwrite them.
		atomic_store_explicit(&slot->tail, s->tail, memory_order_release);
	}
	fm_ingest_trace_settle(r->trace);
	fm_exact_settle(r);
}

// Ends threads and processes that are gone. What they wrote last has been read: they were seen gone
// before read_rings ran.
static void reap(struct fm_recorder *r, const bool *is_gone)
{
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++) {
		struct recorded_slot *s = &r->slots[i];
		if (s->is_used && (is_gone[s->process_idx] || is_thread_gone(&r->processes[s->process_idx], s->tid))) {
			struct fm_wire_slot *slot = fm_shared_slot(r->shared, i);
			if (s->tail == atomic_load(&slot->head) && fm_ingest_trace_is_read(r->trace, i))
				close_slot(r, i);
		}
	}
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		if (!r->processes[i].is_used || !is_gone[i])
			continue;
		bool has_slots = false;
		for (uint32_t j = 0; j < FM_WIRE_N_SLOTS; j++)
			has_slots |= r->slots[j].is_used && r->slots[j].process_idx == i;
		if (!has_slots)
			fm_recorded_process_end(r, i);
	}
}

void fm_recorder_drain(struct fm_recorder *r)
{
	uint64_t now_ns = fm_now_ns();
	bool look = now_ns >= r->liveness_ns;
	bool is_gone[FM_WIRE_N_PROCESSES] = { false };
	if (look) {
		r->liveness_ns = now_ns + LIVENESS_NS;
		for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
			if (fm_recorded_process_open(r, i))
				is_gone[i] = fm_recorded_process_is_gone(&r->processes[i]) ||
					     fm_recorded_process_was_replaced(r, i);
	}
	if (r->observer.self)
		r->observer.poll(r->observer.self, now_ns);
	read_rings(r);
	uint32_t n_processes = 0;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++) {
		if (!r->processes[i].is_used)
			continue;
		n_processes++;
		if (fm_jit_poll(r->processes[i].jit))
			fm_recorded_process_forget_frames(&r->processes[i]);
	}
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used && !is_gone[i]) {
			struct fm_wire_exact *sums = fm_exact_find(r->shared, i);
			fm_levels_poll(r->processes[i].levels, now_ns, n_processes, sums);
			fm_exact_poll(&r->processes[i], sums, now_ns);
			fm_survivors_poll(r->processes[i].survivors, r->processes[i].is_free_threaded, now_ns);
			fm_touched_look(r->processes[i].touched, now_ns);
		}
	if (!look)
		return;
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++)
		if (r->slots[i].is_used)
			name_thread(r, i);
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used && !is_gone[i])
			fm_recorded_process_update(r, i);
	reap(r, is_gone);
}

uint32_t fm_recorder_n_alive(const struct fm_recorder *r)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		n += r->processes[i].is_used && !fm_recorded_process_is_gone(&r->processes[i]);
	return n;
}

static void tell_what_was_not_seen(struct fm_recorder *r)
{
	char what[96], why[160];
	if (fm_rows_n_left_out(r->rows))
		fm_writer_coverage(r->writer, FM_STR_LIT("native frames of some libraries"),
				   FM_STR_LIT("their .debug_frame is too large; stacks may end there"));
	uint32_t n_tables = atomic_load(&r->shared->counts->n_frame_tables_lost);
	if (n_tables) {
		snprintf(what, sizeof(what), "callers of some code made at run time (%u unwind tables)", n_tables);
		snprintf(why, sizeof(why), "more than %u tables were registered at one time; stacks may end there",
			 FM_WIRE_N_FRAME_TABLES);
		fm_writer_coverage(r->writer, fm_str_of(what), fm_str_of(why));
	}
	if (r->totals.n_without_perf) {
		snprintf(what, sizeof(what), "engine perf in %u process%s", r->totals.n_without_perf,
			 r->totals.n_without_perf == 1 ? "" : "es");
		snprintf(why, sizeof(why), "perf events were refused there (%s), so the ticker was used",
			 strerror(r->totals.perf_errno));
		fm_writer_coverage(r->writer, fm_str_of(what), fm_str_of(why));
	}
}

void fm_recorder_finish(struct fm_recorder *r, struct fm_recorder_totals *ret)
{
	r->liveness_ns = 0;
	fm_recorder_drain(r);
	r->totals.n_processes_alive = fm_recorder_n_alive(r);
	if (r->observer.self)
		r->observer.finish(r->observer.self);
	read_rings(r); // what still runs is cut off here
	for (uint32_t i = 0; i < FM_WIRE_N_SLOTS; i++)
		if (r->slots[i].is_used)
			close_slot(r, i);
	for (uint32_t i = 0; i < FM_WIRE_N_PROCESSES; i++)
		if (r->processes[i].is_used)
			fm_recorded_process_end(r, i);
	tell_what_was_not_seen(r);
	fm_ingest_trace_finish(r->trace);
	r->totals.trace = *fm_ingest_trace_totals(r->trace);
	*ret = r->totals;
}
