// SPDX-License-Identifier: Apache-2.0
// Perfetto's own trace format: processes, threads and counters as tracks, then calls, zones,
// samples, marks and counters as track events with interned names and source locations. Times are
// those of CLOCK_MONOTONIC.
#include <stdlib.h>

#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/export/perfetto_fields.h"
#include "render/export/perfetto_sequence.h"

#define SEQUENCE_OF_TRACKS 1

// All kinds of tracks share one range of numbers, none of them 0.
enum track_kind { PROCESS, THREAD, SAMPLES, COUNTER, MEMORY, N_TRACK_KINDS };

static uint64_t track_of(enum track_kind kind, uint32_t id)
{
	return (uint64_t)id * N_TRACK_KINDS + kind + 1;
}

// A track; what kind of one is in x->entry as the message of that field (0: a plain one).
static void put_track(struct fm_perfetto *x, uint64_t uuid, uint64_t parent_uuid, struct fm_str name, uint32_t kind)
{
	x->packet.len = x->part.len = 0;
	fm_proto_uint(&x->part, TRACK_UUID, uuid);
	if (parent_uuid)
		fm_proto_uint(&x->part, TRACK_PARENT_UUID, parent_uuid);
	if (name.len)
		fm_proto_text(&x->part, TRACK_NAME, name);
	if (kind)
		fm_proto_message(&x->part, kind, &x->entry);
	fm_proto_uint(&x->packet, PACKET_SEQUENCE_ID, SEQUENCE_OF_TRACKS);
	fm_proto_message(&x->packet, PACKET_TRACK_DESCRIPTOR, &x->part);
	fm_perfetto_put_packet(x);
}

static void put_processes(struct fm_perfetto *x)
{
	const struct fm_profile *p = x->a->profile;
	for (uint32_t i = 0; i < p->processes.n; i++) {
		struct fm_buf command = { 0 };
		fm_label_worker(&command, &p->processes.items[i].info);
		x->entry.len = 0;
		fm_proto_uint(&x->entry, PROCESS_PID, p->processes.items[i].info.pid);
		fm_proto_text(&x->entry, PROCESS_NAME, (struct fm_str){ (char *)command.data, (uint32_t)command.len });
		put_track(x, track_of(PROCESS, i), 0, FM_STR_LIT(""), TRACK_PROCESS);
		fm_buf_deinit(&command);
	}
}

static void put_threads(struct fm_perfetto *x)
{
	const struct fm_profile *p = x->a->profile;
	for (uint32_t i = 0; i < p->threads.n; i++) {
		const struct fm_thread *thread = &p->threads.items[i];
		uint32_t process = fm_label_process_of(x->a, i);
		if (process == FM_NO_ID)
			continue;
		x->entry.len = 0;
		fm_proto_uint(&x->entry, THREAD_PID, p->processes.items[process].info.pid);
		fm_proto_uint(&x->entry, THREAD_TID, thread->tid);
		if (thread->name.len)
			fm_proto_text(&x->entry, THREAD_NAME, thread->name);
		put_track(x, track_of(THREAD, i), track_of(PROCESS, process), FM_STR_LIT(""), TRACK_THREAD);
	}
}

// The sequence of a track's events, begun when it is first asked for. Counters go with the thread
// that sets them.
static struct fm_perfetto_sequence *get_sequence(struct fm_perfetto *x, enum track_kind kind, uint32_t id,
						 bool *ret_is_new)
{
	uint32_t idx = id * 3 + (kind == THREAD ? 0 : kind == SAMPLES ? 1 : 2);
	fm_vec_grow_to(&x->sequences, (size_t)idx + 1);
	struct fm_perfetto_sequence *s = &x->sequences.items[idx];
	*ret_is_new = !s->id;
	s->id = SEQUENCE_OF_TRACKS + 1 + idx;
	return s;
}

static struct fm_perfetto_sequence *sequence_of(struct fm_perfetto *x, struct fm_slice_row row)
{
	// Without calls the samples have the thread's own row.
	bool is_apart = row.is_samples && x->has_calls, is_new;
	enum track_kind kind = is_apart ? SAMPLES : THREAD;
	struct fm_perfetto_sequence *s = get_sequence(x, kind, row.thread_id, &is_new);
	if (!is_new)
		return s;
	if (fm_label_process_of(x->a, row.thread_id) == FM_NO_ID) // of a damaged file
		put_track(x, track_of(THREAD, row.thread_id), 0, FM_STR_LIT("thread (unknown)"), 0);
	if (is_apart)
		put_track(x, track_of(SAMPLES, row.thread_id), track_of(THREAD, row.thread_id), FM_STR_LIT("samples"),
			  0);
	fm_perfetto_sequence_begin(x, s, track_of(kind, row.thread_id));
	return s;
}

static void begin(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_slice slice)
{
	fm_perfetto_slice(arg, sequence_of(arg, row), ns, slice);
}

static void end(void *arg, struct fm_slice_row row, uint64_t ns)
{
	fm_perfetto_end(arg, sequence_of(arg, row), ns);
}

static void mark(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str text)
{
	fm_perfetto_instant(arg, sequence_of(arg, row), ns, text);
}

// A counter is the process's: several threads may set it.
static void counter(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str name, double value)
{
	struct fm_perfetto *x = arg;
	struct fm_perfetto_sequence *s = sequence_of(x, row);
	uint32_t process = fm_label_process_of(x->a, row.thread_id);
	struct fm_buf key = { 0 };
	bool is_new;
	fm_buf_printf(&key, "%u ", process);
	fm_buf_bytes(&key, name.p, name.len);
	uint32_t id = fm_intern_id(&x->counters, (struct fm_str){ (char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	if (is_new) {
		x->entry.len = 0; // a counter of no unit
		put_track(x, track_of(COUNTER, id), process != FM_NO_ID ? track_of(PROCESS, process) : 0, name,
			  TRACK_COUNTER);
	}
	fm_perfetto_count(x, s, ns, track_of(COUNTER, id), value);
}

static void memory(void *arg, uint32_t process_id, uint64_t ns, uint64_t resident_bytes)
{
	struct fm_perfetto *x = arg;
	bool is_new;
	uint64_t track = track_of(MEMORY, process_id);
	struct fm_perfetto_sequence *s = get_sequence(x, MEMORY, process_id, &is_new);
	if (is_new) {
		x->entry.len = 0;
		fm_proto_uint(&x->entry, COUNTER_UNIT, UNIT_BYTES);
		put_track(x, track, track_of(PROCESS, process_id), FM_STR_LIT("resident memory"), TRACK_COUNTER);
		fm_perfetto_sequence_begin(x, s, track);
	}
	fm_perfetto_count(x, s, ns, track, (double)resident_bytes);
}

static bool is_over(void *arg)
{
	return ferror(((struct fm_perfetto *)arg)->out) != 0;
}

enum fm_err fm_write_perfetto(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	static const struct fm_slice_writer writer = { begin, end, mark, counter, memory, is_over };
	struct fm_perfetto x = { .out = out, .a = a, .origin_ns = fm_slices_origin_ns(a) };
	x.has_calls = fm_analysis_has_calls(a);
	put_processes(&x);
	put_threads(&x);
	enum fm_err err = fm_slices_read(a, &writer, &x, diag);
	for (size_t i = 0; i < x.sequences.n; i++)
		fm_perfetto_sequence_deinit(&x.sequences.items[i]);
	fm_vec_deinit(&x.sequences);
	fm_intern_deinit(&x.counters);
	fm_buf_deinit(&x.packet);
	fm_buf_deinit(&x.part);
	fm_buf_deinit(&x.entry);
	fm_buf_deinit(&x.text);
	return err;
}
