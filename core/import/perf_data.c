// SPDX-License-Identifier: Apache-2.0
// perf.data, the file of Linux's perf record: what its records mean to a capture.
//
// Bound: what FM_PERF_MAX_QUEUE_BYTES holds back, and what is distinct: processes, threads, mappings,
// addresses and stacks.
#include "import/perf_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "import/formats.h"

#define MAGIC_BYTES 8
// Younger than some headers.
#define MISC_MMAP_BUILD_ID (1u << 14)
#define MISC_SWITCH_OUT_PREEMPT (1u << 14)
#define MISC_FORK_EXEC (1u << 13)
// An event of a switch and its record are made at once.
#define SAME_SWITCH_NS 200000u

struct thread {
	uint32_t thread_id;
	uint64_t last_ns; // of its last sample
	uint64_t out_ns;  // when it left its CPU; 0 = it has one, or had to leave
	uint64_t switch_ns;
	uint32_t switch_stack; // of the event there, if the file has it
};

struct perf {
	struct fm_import *in;
	struct fm_perf_file file;
	struct fm_perf_scan scan;
	struct fm_perf_order order;
	struct fm_perf_stacks stacks;
	struct fm_map thread_ids; // pid << 32 | tid -> index of threads
	FM_VEC(struct thread) threads;
	struct fm_map name_ids; // the same key -> what it is called
	struct fm_intern names;
	uint64_t n_lost, n_waits_without_stack, n_late;
};

bool fm_perf_data_recognise(const uint8_t *head, size_t n)
{
	return n >= MAGIC_BYTES && (!memcmp(head, "PERFILE2", MAGIC_BYTES) || !memcmp(head, "2ELIFREP", MAGIC_BYTES));
}

// As long as it was, from where captures begin.
static uint64_t capture_ns(const struct perf *perf, uint64_t time_ns)
{
	return time_ns > perf->scan.first_ns ? time_ns - perf->scan.first_ns + FM_IMPORT_START_NS : FM_IMPORT_START_NS;
}

static void describe(struct perf *perf, const struct fm_perf_process *p)
{
	const struct fm_str none = FM_STR_LIT(""), exe = p->exe ? fm_str_of(p->exe) : none;
	fm_writer_process_update(perf->in->w, p->process_id,
				 &(struct fm_process_info){ p->pid, p->parent_pid, FM_IMPORT_START_NS, exe, exe, none,
							    FM_STR_LIT("import"), none });
}

// The process of a pid of which something is in the capture.
static struct fm_perf_process *seen_process(struct perf *perf, uint32_t pid)
{
	struct fm_perf_process *p = fm_perf_process_get(&perf->stacks.spaces, pid);
	if (p->process_id == FM_NO_ID) {
		p->process_id = fm_import_process(perf->in, pid);
		describe(perf, p);
	}
	return p;
}

static struct thread *thread_of(struct perf *perf, uint32_t pid, uint32_t tid)
{
	bool is_new;
	uint64_t *at = fm_map_at(&perf->thread_ids, (uint64_t)pid << 32 | tid, &is_new);
	if (is_new) {
		const struct fm_perf_process *p = seen_process(perf, pid);
		const uint64_t *name = fm_map_find(&perf->name_ids, (uint64_t)pid << 32 | tid);
		uint32_t id = fm_import_thread(perf->in, p->process_id, tid,
					       name ? fm_intern_get(&perf->names, (uint32_t)*name) : FM_STR_LIT(""));
		*at = perf->threads.n;
		fm_vec_push(&perf->threads, (struct thread){ .thread_id = id });
	}
	return &perf->threads.items[*at];
}

// ---- Processes ----

static struct fm_str text_of(const uint8_t *p, const uint8_t *end)
{
	return (struct fm_str){ (const char *)p, (uint32_t)strnlen((const char *)p, (size_t)(end - p)) };
}

static void take_kernel_map(struct perf *perf, struct fm_str path, uint64_t offset)
{
	static const char kallsyms[] = "[kernel.kallsyms]";
	struct fm_perf_stacks *s = &perf->stacks;
	uint32_t skip = sizeof(kallsyms) - 1;
	if (!fm_str_starts_with(path, kallsyms) || path.len - skip >= sizeof(s->kernel_text_name))
		return;
	s->kernel_text_at = offset; // where the symbol lies whose name follows
	memcpy(s->kernel_text_name, path.p + skip, path.len - skip);
	s->kernel_text_name[path.len - skip] = 0;
}

static void take_map(struct perf *perf, const struct fm_perf_record *r)
{
	struct fm_cursor c = r->body;
	struct fm_str build_id = FM_STR_LIT("");
	uint32_t pid = fm_cursor_u32(&c);
	fm_cursor_u32(&c); // tid
	uint64_t start = fm_cursor_u64(&c), len = fm_cursor_u64(&c), offset = fm_cursor_u64(&c);
	bool is_data = r->misc & PERF_RECORD_MISC_MMAP_DATA;
	if (r->type == PERF_RECORD_MMAP2) {
		const uint8_t *id = fm_cursor_bytes(&c, 24); // or device and inode
		if (id && r->misc & MISC_MMAP_BUILD_ID && id[0] <= 20)
			build_id = (struct fm_str){ (const char *)id + 4, id[0] };
		is_data |= !(fm_cursor_u32(&c) & 4); // PROT_EXEC
		fm_cursor_u32(&c);
	}
	struct fm_str path = text_of(c.pos, c.end);
	if (c.err || is_data || !len || start + len < start)
		return;
	if (pid == UINT32_MAX || (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL) {
		take_kernel_map(perf, path, offset);
		return;
	}
	if (!build_id.len)
		build_id = fm_perf_build_id(&perf->file, path);
	struct fm_perf_process *p = fm_perf_process_get(&perf->stacks.spaces, pid);
	struct fm_perf_image *image = fm_perf_image_get(&perf->stacks.images, path, build_id);
	if (image->is_file && !p->exe) {
		p->exe = image->path;
		if (p->process_id != FM_NO_ID)
			describe(perf, p);
	}
	fm_perf_process_map(
		&perf->stacks.spaces, p,
		&(struct fm_perf_map){ .start = start, .end = start + len, .offset = offset, .image = image });
	if (path.len > 5 && !memcmp(path.p + path.len - 5, ".dump", 5))
		fm_perf_jit_add_dump(p, image->path);
}

static void take_comm(struct perf *perf, const struct fm_perf_record *r)
{
	struct fm_cursor c = r->body;
	uint32_t pid = fm_cursor_u32(&c), tid = fm_cursor_u32(&c);
	struct fm_str name = text_of(c.pos, c.end);
	if (c.err)
		return;
	struct fm_perf_process *p = fm_perf_process_get(&perf->stacks.spaces, pid);
	if (r->misc & PERF_RECORD_MISC_COMM_EXEC)
		fm_perf_process_exec(&perf->stacks.spaces, p);
	bool is_new;
	uint32_t id = fm_intern_id(&perf->names, name, &is_new);
	*fm_map_at(&perf->name_ids, (uint64_t)pid << 32 | tid, NULL) = id;
	const uint64_t *at = fm_map_find(&perf->thread_ids, (uint64_t)pid << 32 | tid);
	if (at)
		fm_writer_thread_name(perf->in->w, perf->threads.items[*at].thread_id, name);
}

static void take_fork(struct perf *perf, const struct fm_perf_record *r)
{
	struct fm_cursor c = r->body;
	uint32_t pid = fm_cursor_u32(&c), parent_pid = fm_cursor_u32(&c);
	uint32_t tid = fm_cursor_u32(&c), parent_tid = fm_cursor_u32(&c);
	if (c.err)
		return;
	struct fm_perf_spaces *s = &perf->stacks.spaces;
	// A new thread or process is called as the one that made it until it says otherwise.
	const uint64_t *name = fm_map_find(&perf->name_ids, (uint64_t)parent_pid << 32 | parent_tid);
	if (name) {
		uint64_t id = *name;
		*fm_map_at(&perf->name_ids, (uint64_t)pid << 32 | tid, NULL) = id;
	}
	if (pid == parent_pid)
		return;
	struct fm_perf_process *child = fm_perf_process_get(s, pid);
	struct fm_perf_process *parent = fm_perf_process_get(s, parent_pid);
	if (!(r->misc & MISC_FORK_EXEC))
		fm_perf_process_fork(s, child, parent);
	child->parent_pid = parent_pid;
}

static void take_exit(struct perf *perf, const struct fm_perf_record *r, uint64_t time_ns)
{
	struct fm_cursor c = r->body;
	uint32_t pid = fm_cursor_u32(&c);
	fm_cursor_u32(&c);
	uint32_t tid = fm_cursor_u32(&c);
	if (c.err || pid != tid || !fm_map_find(&perf->stacks.spaces.by_pid, pid))
		return;
	const struct fm_perf_process *p = fm_perf_process_get(&perf->stacks.spaces, pid);
	if (p->process_id != FM_NO_ID)
		fm_writer_process_end(perf->in->w, p->process_id, capture_ns(perf, time_ns), -1, 0);
}

// ---- Samples and waits ----

static void put_sample(struct perf *perf, struct thread *t, struct fm_sample s)
{
	perf->n_late += s.time_ns < t->last_ns;
	s.time_ns = t->last_ns = FM_MAX(s.time_ns, t->last_ns);
	s.thread_id = t->thread_id;
	fm_import_sample_at(perf->in, &s);
}

static void take_sample(struct perf *perf, const struct fm_perf_record *r)
{
	struct fm_perf_sample s;
	if (fm_perf_sample_read(&perf->file, r, &s) || !s.attr ||
	    (!s.attr->event.ns_per_period && s.attr->event.kind != FM_PERF_SWITCH))
		return;
	if (s.pid == UINT32_MAX) // of a thread that is nearly gone
		s.pid = s.tid = 0;
	struct fm_perf_process *p = seen_process(perf, s.pid);
	struct thread *t = thread_of(perf, s.pid, s.tid);
	uint8_t class;
	uint32_t stack = fm_perf_stack(&perf->stacks, p, &s, r->misc, &class);
	if (s.attr->event.kind == FM_PERF_SWITCH) {
		t->switch_ns = s.time_ns;
		t->switch_stack = stack;
	}
	if (!s.attr->event.ns_per_period)
		return;
	put_sample(perf, t,
		   (struct fm_sample){ .stack_id = stack,
				       .time_ns = s.has_time ? capture_ns(perf, s.time_ns) : t->last_ns,
				       .weight_ns = fm_perf_event_weight(&s.attr->event, s.period),
				       .cpu = (uint16_t)s.cpu,
				       .class = class });
}

static void take_switch(struct perf *perf, const struct fm_perf_record *r)
{
	struct fm_perf_sample who;
	fm_perf_id_read(&perf->file, r, &who);
	if (!who.has_time || !who.tid) // the idle task waits for nothing
		return;
	struct thread *t = thread_of(perf, who.pid, who.tid);
	if (r->misc & PERF_RECORD_MISC_SWITCH_OUT) {
		// Who had to make room for another one does not wait for anything.
		t->out_ns = r->misc & MISC_SWITCH_OUT_PREEMPT ? 0 : who.time_ns;
		return;
	}
	if (t->out_ns && who.time_ns > t->out_ns) {
		bool has_stack = t->switch_ns && t->switch_ns + SAME_SWITCH_NS > t->out_ns &&
				 t->switch_ns < t->out_ns + SAME_SWITCH_NS;
		perf->n_waits_without_stack += !has_stack;
		put_sample(perf, t,
			   (struct fm_sample){ .stack_id = has_stack ? t->switch_stack : FM_ROOT_STACK,
					       .time_ns = capture_ns(perf, who.time_ns),
					       .weight_ns = who.time_ns - t->out_ns,
					       .cpu = (uint16_t)who.cpu,
					       .class = FM_CLASS_WAIT });
	}
	t->out_ns = 0;
}

static void take_lost(struct perf *perf, const struct fm_perf_record *r)
{
	struct fm_perf_sample who;
	struct fm_cursor c = r->body;
	// Both kinds of records count the same; the second one counts samples only.
	bool has_samples = perf->scan.n_lost_samples > 0;
	if (has_samples != (r->type == PERF_RECORD_LOST_SAMPLES))
		return;
	if (!has_samples)
		fm_cursor_u64(&c);
	uint64_t n = fm_cursor_u64(&c);
	fm_perf_id_read(&perf->file, r, &who);
	perf->n_lost += n;
	if (!who.tid || who.pid == UINT32_MAX)
		return;
	uint32_t id = thread_of(perf, who.pid, who.tid)->thread_id; // may make it
	if (id < perf->in->threads.n)
		perf->in->threads.items[id].n_dropped += n;
}

static void take_record(void *ctx, const struct fm_perf_record *r, uint64_t time_ns)
{
	struct perf *perf = ctx;
	switch (r->type) {
	case PERF_RECORD_SAMPLE:
		take_sample(perf, r);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		take_map(perf, r);
		break;
	case PERF_RECORD_COMM:
		take_comm(perf, r);
		break;
	case PERF_RECORD_FORK:
		take_fork(perf, r);
		break;
	case PERF_RECORD_EXIT:
		take_exit(perf, r, time_ns);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		take_switch(perf, r);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		take_lost(perf, r);
		break;
	}
}

// The second reading.
static enum fm_err take_all(struct perf *perf)
{
	struct fm_perf_record r;
	struct fm_perf_sample who;
	enum fm_err err;
	fm_perf_file_to_data(&perf->file);
	while (!(err = fm_perf_file_next(&perf->file, &r)) && !fm_writer_error(perf->in->w)) {
		if (r.type == FM_PERF_FINISHED_ROUND) {
			fm_perf_order_round(&perf->order);
			continue;
		}
		if (r.type >= FM_PERF_HEADER_ATTR)
			continue;
		if (r.type != PERF_RECORD_SAMPLE)
			fm_perf_id_read(&perf->file, &r, &who);
		else if (fm_perf_sample_read(&perf->file, &r, &who))
			continue;
		fm_perf_order_add(&perf->order, &r, who.has_time ? who.time_ns : 0);
	}
	fm_perf_order_end(&perf->order);
	return err == FM_E_END ? FM_OK : err;
}

// ---- The whole ----

static void tell_facts(struct perf *perf)
{
	const struct fm_perf_file *f = &perf->file;
	const struct {
		const char *key;
		struct fm_str value;
	} facts[] = { { "host", f->host }, { "command", f->command }, { "arch", f->arch }, { "cpu", f->cpu } };
	for (size_t i = 0; i < FM_ARRAY_LEN(facts); i++)
		if (facts[i].value.len)
			fm_writer_meta(perf->in->w, facts[i].key, facts[i].value);
}

static void tell_count(struct fm_import *in, uint64_t n, const char *what, const char *why)
{
	char text[200];
	snprintf(text, sizeof(text), "%" PRIu64 " %s", n, what);
	if (n)
		fm_import_missing(in, text, why);
}

static void tell_missing(struct perf *perf)
{
	struct fm_import *in = perf->in;
	tell_count(in, perf->n_lost, "records that perf lost",
		   "its buffers were full; a lower rate, or perf record -m with more pages, loses fewer");
	tell_count(in, perf->n_waits_without_stack, "waits have no stack",
		   "a record of a context switch has none; record them with perf record -e context-switches, in "
		   "addition to the clock");
	tell_count(in, perf->scan.n_broken, "samples could not be read",
		   "they belong to no event of the file, or are damaged");
	tell_count(in, perf->n_late, "samples came out of order",
		   "they are older than what perf had already written; they count where they came");
	if (perf->scan.has_aux)
		fm_import_missing(in, "hardware traces (Intel PT or similar)", "Fathom reads only samples");
	if (perf->file.is_unfinished)
		fm_import_missing(in, "the end of the recording, and names of its events",
				  "perf record was killed and did not finish the file");
}

static enum fm_err run(struct perf *perf)
{
	struct fm_import *in = perf->in;
	enum fm_err err = fm_perf_file_open(&perf->file, in);
	if (err)
		return err;
	enum fm_err first = fm_perf_scan(&perf->file, in, &perf->scan);
	if (!perf->file.attrs.n)
		return fm_import_bad_byte(in, "it describes no events");
	tell_facts(perf);
	struct utsname here;
	bool is_elsewhere =
		perf->file.host.len && (uname(&here) || !fm_str_eq(perf->file.host, fm_str_of(here.nodename)));
	perf->stacks.spaces.is_elsewhere = perf->stacks.images.is_elsewhere = is_elsewhere;
	err = take_all(perf);
	err = err ? err : first;
	fm_perf_stacks_end(&perf->stacks);
	tell_missing(perf);
	if (err == FM_E_TRUNCATED && !fm_input_error(in->input) && perf->file.is_unfinished)
		return FM_OK;
	if (perf->file.is_bomb)
		return fm_import_bad_byte(in, "it unpacks to more than any profile holds");
	return !err ? fm_import_end(in)
		    : fm_import_bad_byte(in, err == FM_E_TRUNCATED ? "it ends inside of a record"
								   : "no record can be here");
}

enum fm_err fm_perf_data_import(struct fm_import *in)
{
	struct perf perf = { .in = in };
	perf.stacks.in = in;
	perf.stacks.file = &perf.file;
	perf.order.each = take_record;
	perf.order.ctx = &perf;
	perf.order.fd = fm_input_is_packed(in->input) ? -1 : fm_input_fd(in->input);
	enum fm_err err = run(&perf);
	fm_perf_order_deinit(&perf.order);
	fm_perf_stacks_deinit(&perf.stacks);
	fm_perf_file_close(&perf.file);
	fm_map_deinit(&perf.thread_ids);
	fm_vec_deinit(&perf.threads);
	fm_map_deinit(&perf.name_ids);
	fm_intern_deinit(&perf.names);
	return err;
}
