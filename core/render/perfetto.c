// Perfetto's own trace format: processes, threads and counters as tracks, then calls, zones, samples, marks and counters as track events
// with interned names and source locations. Times are those of CLOCK_MONOTONIC, so that a trace of the kernel's fits to it.
#include <stdlib.h>

#include "render/formats.h"
#include "render/label.h"
#include "render/perfetto_fields.h"
#include "render/perfetto_sequence.h"
#include "render/protobuf.h"

#define SEQUENCE_OF_TRACKS 1

// Four kinds of tracks share one range of numbers, none of them 0.
static uint64_t process_track(uint32_t process_id)
{
	return (uint64_t)process_id * 4 + 1;
}

static uint64_t thread_track(uint32_t thread_id)
{
	return (uint64_t)thread_id * 4 + 2;
}

static uint64_t samples_track(uint32_t thread_id)
{
	return (uint64_t)thread_id * 4 + 3;
}

static uint64_t counter_track(uint32_t counter)
{
	return (uint64_t)counter * 4 + 4;
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
		fm_label_command(&command, p->processes.items[i].info.command);
		x->entry.len = 0;
		fm_proto_uint(&x->entry, PROCESS_PID, p->processes.items[i].info.pid);
		fm_proto_text(&x->entry, PROCESS_NAME, (struct fm_str){ (char *)command.data, (uint32_t)command.len });
		put_track(x, process_track(i), 0, FM_STR_LIT(""), TRACK_PROCESS);
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
		put_track(x, thread_track(i), process_track(process), FM_STR_LIT(""), TRACK_THREAD);
	}
}

static struct fm_perfetto_sequence *sequence_of(struct fm_perfetto *x, struct fm_slice_row row)
{
	// Without calls the samples have the thread's own row.
	bool is_apart = row.is_samples && x->has_calls;
	uint32_t idx = row.thread_id * 2 + is_apart;
	fm_vec_grow_to(&x->sequences, (size_t)idx + 1);
	struct fm_perfetto_sequence *s = &x->sequences.items[idx];
	if (s->id)
		return s;
	if (is_apart)
		put_track(x, samples_track(row.thread_id), thread_track(row.thread_id), FM_STR_LIT("samples"), 0);
	fm_perfetto_sequence_begin(x, s, SEQUENCE_OF_TRACKS + 1 + idx,
				   is_apart ? samples_track(row.thread_id) : thread_track(row.thread_id));
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
		put_track(x, counter_track(id), process != FM_NO_ID ? process_track(process) : 0, name, TRACK_COUNTER);
	}
	fm_perfetto_count(x, s, ns, counter_track(id), value);
}

static bool is_over(void *arg)
{
	return ferror(((struct fm_perfetto *)arg)->out) != 0;
}

enum fm_err fm_write_perfetto(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	static const struct fm_slice_writer writer = { begin, end, mark, counter, is_over };
	struct fm_perfetto x = { .out = out, .a = a, .origin_ns = fm_slices_origin_ns(a) };
	x.has_calls = fm_slices_has_calls(a);
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
