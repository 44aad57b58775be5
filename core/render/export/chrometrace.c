// SPDX-License-Identifier: Apache-2.0
// Chrome trace events: what begins (B) and ends (E) on every thread, marks (i) and counters (C).
// `loc` is where a function stands, which Tracy's importer reads and others pass over.
#include <stdlib.h>

#include "base/json.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/export/slices.h"

// Where a thread has calls as well, its samples get a row of their own: frames of two kinds cannot
// nest in one.
#define SAMPLES_TID_BIT (1u << 30)
#define CPUS_PID (1u << 30) // the lanes of CPUs: a process that no system has

struct chrome {
	struct fm_json j;
	struct fm_analysis *a;
	uint64_t origin_ns;
	bool has_calls;
};

static void write_head(struct chrome *c, const char *phase, uint64_t pid, uint64_t tid, uint64_t ns)
{
	fm_json_newline(&c->j);
	fm_json_object(&c->j, NULL);
	fm_json_str(&c->j, "ph", fm_str_of(phase));
	fm_json_u64(&c->j, "pid", pid);
	fm_json_u64(&c->j, "tid", tid);
	fm_json_real(&c->j, "ts", (double)(ns - c->origin_ns) / 1e3);
}

static void begin_event(struct chrome *c, const char *phase, struct fm_slice_row row, uint64_t ns)
{
	const struct fm_profile *p = c->a->profile;
	uint32_t process = fm_label_process_of(c->a, row.thread_id);
	uint64_t tid = row.thread_id < p->threads.n ? p->threads.items[row.thread_id].tid : 0;
	write_head(c, phase, process != FM_NO_ID ? p->processes.items[process].info.pid : 0,
		   row.is_samples && c->has_calls ? tid | SAMPLES_TID_BIT : tid, ns);
}

static void write_loc(struct fm_json *j, struct fm_slice_place place)
{
	struct fm_buf loc = { 0 };
	fm_buf_bytes(&loc, place.file.p, place.file.len);
	fm_buf_printf(&loc, ":%u", place.line);
	fm_json_str(j, "loc", (struct fm_str){ (const char *)loc.data, (uint32_t)loc.len });
	fm_buf_deinit(&loc);
}

static void begin(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_slice slice)
{
	struct chrome *c = arg;
	struct fm_buf name = { 0 };
	struct fm_slice_place place = fm_slice_name(&name, c->a, slice);
	bool is_frame = slice.kind == FM_SLICE_FRAME;
	begin_event(c, "B", row, ns);
	fm_json_str(&c->j, "cat",
		    is_frame                      ? FM_STR_LIT("fathom")
		    : slice.kind == FM_SLICE_CALL ? FM_STR_LIT("call")
						  : FM_STR_LIT("zone"));
	fm_json_str(&c->j, "name", (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
	if (place.file.len && place.line)
		write_loc(&c->j, place);
	if (is_frame) {
		fm_json_object(&c->j, "args");
		fm_json_str(&c->j, "filename", place.file);
		if (place.line)
			fm_json_u64(&c->j, "line", place.line);
		fm_json_end(&c->j);
	}
	fm_json_end(&c->j);
	fm_buf_deinit(&name);
}

static void end(void *arg, struct fm_slice_row row, uint64_t ns)
{
	struct chrome *c = arg;
	begin_event(c, "E", row, ns); // of the innermost that is open, whatever its name
	fm_json_end(&c->j);
}

static void mark(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str text)
{
	struct chrome *c = arg;
	begin_event(c, "i", row, ns);
	fm_json_str(&c->j, "name", text);
	fm_json_str(&c->j, "s", FM_STR_LIT("t"));
	fm_json_end(&c->j);
}

static void counter(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str name, double value)
{
	struct chrome *c = arg;
	begin_event(c, "C", row, ns);
	fm_json_str(&c->j, "name", name);
	fm_json_object(&c->j, "args");
	fm_json_real(&c->j, "value", value);
	fm_json_end(&c->j);
	fm_json_end(&c->j);
}

static void memory(void *arg, uint32_t process_id, uint64_t ns, uint64_t resident_bytes)
{
	struct chrome *c = arg;
	uint64_t pid = c->a->profile->processes.items[process_id].info.pid;
	write_head(c, "C", pid, pid, ns);
	fm_json_str(&c->j, "name", FM_STR_LIT("memory"));
	fm_json_object(&c->j, "args");
	fm_json_u64(&c->j, "resident_bytes", resident_bytes); // by this ending Tracy knows what it is
	fm_json_end(&c->j);
	fm_json_end(&c->j);
}

static void on_cpu(void *arg, uint16_t cpu, uint32_t thread_id, uint64_t from_ns, uint64_t to_ns)
{
	struct chrome *c = arg;
	static const struct fm_thread unknown;
	const struct fm_profile *p = c->a->profile;
	const struct fm_thread *thread = thread_id < p->threads.n ? &p->threads.items[thread_id] : &unknown;
	write_head(c, "X", CPUS_PID, cpu, from_ns);
	fm_json_real(&c->j, "dur", (double)(to_ns - from_ns) / 1e3);
	fm_json_str(&c->j, "cat", FM_STR_LIT("cpu"));
	fm_json_str(&c->j, "name", thread->name.len ? thread->name : FM_STR_LIT("thread"));
	fm_json_object(&c->j, "args");
	fm_json_u64(&c->j, "tid", thread->tid);
	fm_json_end(&c->j);
	fm_json_end(&c->j);
}

static bool is_over(void *arg)
{
	return ferror(((struct chrome *)arg)->j.out) != 0;
}

static void write_name(struct chrome *c, const char *what, uint64_t pid, const uint64_t *tid, struct fm_str name)
{
	fm_json_newline(&c->j);
	fm_json_object(&c->j, NULL);
	fm_json_str(&c->j, "ph", FM_STR_LIT("M"));
	fm_json_str(&c->j, "name", fm_str_of(what));
	fm_json_u64(&c->j, "pid", pid);
	if (tid)
		fm_json_u64(&c->j, "tid", *tid);
	fm_json_object(&c->j, "args");
	fm_json_str(&c->j, "name", name);
	fm_json_end(&c->j);
	fm_json_end(&c->j);
}

static void write_names(struct chrome *c)
{
	const struct fm_profile *p = c->a->profile;
	for (uint32_t i = 0; i < p->processes.n; i++) {
		struct fm_buf name = { 0 };
		fm_label_worker(&name, &p->processes.items[i].info);
		write_name(c, "process_name", p->processes.items[i].info.pid, NULL,
			   (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
		fm_buf_deinit(&name);
	}
	if (c->a->tally.cpus.n)
		write_name(c, "process_name", CPUS_PID, NULL, FM_STR_LIT("CPUs"));
	for (size_t i = 0; i < c->a->tally.cpus.n; i++) {
		char name[32];
		snprintf(name, sizeof(name), "CPU %zu", i);
		if (c->a->tally.cpus.items[i].n)
			write_name(c, "thread_name", CPUS_PID, &(uint64_t){ i }, fm_str_of(name));
	}
	for (uint32_t i = 0; i < p->threads.n; i++) {
		uint32_t process = fm_label_process_of(c->a, i);
		uint64_t tid = p->threads.items[i].tid;
		if (p->threads.items[i].name.len && process != FM_NO_ID)
			write_name(c, "thread_name", p->processes.items[process].info.pid, &tid,
				   p->threads.items[i].name);
		if (c->has_calls && process != FM_NO_ID) {
			tid |= SAMPLES_TID_BIT;
			struct fm_buf name = { 0 };
			fm_buf_bytes(&name, p->threads.items[i].name.p, p->threads.items[i].name.len);
			fm_buf_str(&name, " (samples)");
			write_name(c, "thread_name", p->processes.items[process].info.pid, &tid,
				   (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
			fm_buf_deinit(&name);
		}
	}
}

enum fm_err fm_write_chrometrace(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	static const struct fm_slice_writer writer = { begin, end, mark, counter, memory, is_over, on_cpu };
	struct chrome c = { .a = a, .origin_ns = fm_slices_origin_ns(a), .has_calls = fm_analysis_has_calls(a) };
	fm_json_init(&c.j, out);
	fm_json_array(&c.j, NULL);
	write_names(&c);
	enum fm_err err = fm_slices_read(a, &writer, &c, diag);
	fm_json_end(&c.j);
	fm_json_newline(&c.j);
	return err;
}
