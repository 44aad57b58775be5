// SPDX-License-Identifier: Apache-2.0
// pprof: a protocol buffer, mostly gzipped. Samples are sums by stack, so they have no times.
//
// Fields stand in any order, so the file is read twice: first its tables, then its samples, one at a
// time. Bound: the tables.
#include "import/pprof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"

enum { PROFILE_SAMPLE = 2, SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
#define MAX_TYPES 64u
#define MAX_FRAMES 100000u
#define MAX_TOLD_LABELS 16u
#define MANY_MESSAGES 16u // of which other data does not make as many by chance
#define NONE UINT32_MAX
#define MAX_PERIOD_NS ((uint64_t)1 << 60)
// A location of more frames is put on a stack once, and found there again: a sample names it in two bytes.
#define MANY_FRAMES 4u

enum role { COUNT, CPU, WALL, DELAY, ALLOC_BYTES, N_ALLOCS, LIVE_BYTES, N_LIVE, N_ROLES };

struct samples {
	struct pprof p;
	uint32_t column[N_ROLES]; // of the values, NONE = not there
	uint64_t ns_per_unit[N_ROLES];
	uint64_t ns_per_count; // where there is no time
	FM_VEC(uint64_t) locations;
	FM_VEC(int64_t) values;
	FM_VEC(uint64_t) told_labels;
	struct fm_map long_stacks; // stack << 32 | first of many frames -> the stack with all of them
	bool has_negative;
};

// ---- Recognition ----

// The fields of a Profile: 7 to 10 and from 12 on are numbers, 13 may be packed.
static bool is_field(const struct fm_pb_field *f)
{
	bool is_number = f->number >= 7 && f->number != 11;
	return f->number <= 15 &&
	       (f->wire == (is_number ? FM_PB_VARINT : FM_PB_BYTES) || (f->number == 13 && f->wire == FM_PB_BYTES));
}

// Whether the bytes of a field are a message whose fields have no higher number. Of those in pprof,
// only strings would not be, and they are not asked.
static bool is_message(struct fm_cursor c, uint32_t max_number)
{
	struct fm_pb_field f;
	while (fm_pb_next(&c, &f))
		if (f.number > max_number)
			return false;
	return !c.err;
}

// No magic number tells it: all that is in sight are fields of a Profile, with what they may hold,
// and one of them says what is counted, or enough of them agree.
bool fm_pprof_recognise(const uint8_t *head, size_t n)
{
	static const uint32_t max_numbers[] = { [1] = 2, [2] = 3, [3] = 10, [4] = 5, [5] = 5, [11] = 2 };
	struct fm_cursor c = fm_cursor_over(head, n);
	struct fm_pb_field f;
	unsigned n_messages = 0;
	bool has_type = false;
	while (fm_pb_next(&c, &f)) {
		uint32_t max_number = f.number < FM_ARRAY_LEN(max_numbers) ? max_numbers[f.number] : 0;
		if (!is_field(&f) || (max_number && !is_message(f.body, max_number)))
			return false;
		has_type = has_type || f.number == 1;
		n_messages += max_number > 0;
	}
	return (has_type || n_messages >= MANY_MESSAGES) && (!c.err || c.err == FM_E_TRUNCATED);
}

// ---- What the values are ----

static uint64_t ns_of_unit(struct fm_str unit)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "nanoseconds", 1 },        { "ns", 1 },       { "microseconds", 1000 },  { "us", 1000 },
		      { "milliseconds", 1000000 }, { "ms", 1000000 }, { "seconds", 1000000000 }, { "s", 1000000000 } };
	for (size_t i = 0; i < FM_ARRAY_LEN(units); i++)
		if (fm_str_eq(unit, fm_str_of(units[i].name)))
			return units[i].ns;
	return 0;
}

// The names that writers give: Go, gperftools, jemalloc, Pyroscope, Parca, Datadog.
static const struct {
	const char *type;
	enum role role;
} known_types[] = {
	{ "samples", COUNT },
	{ "sample", COUNT },
	{ "cpu-samples", COUNT },
	{ "contentions", COUNT },
	{ "goroutine", COUNT },
	{ "goroutines", COUNT },
	{ "cpu", CPU },
	{ "cpu-time", CPU },
	{ "wall", WALL },
	{ "wall-time", WALL },
	{ "time", WALL },
	{ "delay", DELAY },
	{ "lock-acquire-wait", DELAY },
	{ "alloc_space", ALLOC_BYTES },
	{ "alloc-space", ALLOC_BYTES },
	{ "alloc_size", ALLOC_BYTES },
	{ "alloc_objects", N_ALLOCS },
	{ "alloc-samples", N_ALLOCS },
	{ "inuse_space", LIVE_BYTES },
	{ "heap-space", LIVE_BYTES },
	{ "heap-live-size", LIVE_BYTES },
	{ "space", LIVE_BYTES },
	{ "inuse_objects", N_LIVE },
	{ "heap-live-samples", N_LIVE },
	{ "objects", N_LIVE },
};

static enum role role_of(const struct pprof *p, const struct pprof_type *type)
{
	struct fm_str name = pprof_str(p, type->type), unit = pprof_str(p, type->unit);
	uint64_t ns = ns_of_unit(unit);
	for (size_t i = 0; i < FM_ARRAY_LEN(known_types); i++) {
		enum role role = known_types[i].role;
		bool is_time = role == CPU || role == WALL || role == DELAY;
		if (fm_str_eq(name, fm_str_of(known_types[i].type)) && is_time == (ns != 0))
			return role;
	}
	if (ns)
		return WALL;
	return fm_str_eq(unit, FM_STR_LIT("count"))   ? COUNT
	       : fm_str_eq(unit, FM_STR_LIT("bytes")) ? ALLOC_BYTES
						      : N_ROLES;
}

// What a sample stands for, in nanoseconds; 0 = the file does not say.
static uint64_t period_of(const struct pprof *p)
{
	uint64_t ns = ns_of_unit(pprof_str(p, p->period_type.unit));
	return ns && p->period <= MAX_PERIOD_NS / ns ? p->period * ns : 0;
}

static void tell_unused(struct samples *s, const struct pprof_type *type)
{
	struct fm_str name = pprof_str(&s->p, type->type), unit = pprof_str(&s->p, type->unit);
	char what[192];
	snprintf(what, sizeof(what), "values of type %.*s (%.*s)", (int)FM_MIN(name.len, 100u), name.p,
		 (int)FM_MIN(unit.len, 50u), unit.p);
	fm_import_missing(s->p.in, what, "a capture cannot hold them");
}

// Two of one kind: the first one counts, as where an event and its samples are counted.
static void find_columns(struct samples *s)
{
	memset(s->column, 0xff, sizeof(s->column));
	for (uint32_t i = 0; i < s->p.types.n; i++) {
		enum role role = role_of(&s->p, &s->p.types.items[i]);
		if (role == N_ROLES || s->column[role] != NONE) {
			tell_unused(s, &s->p.types.items[i]);
			continue;
		}
		s->column[role] = i;
		s->ns_per_unit[role] = FM_MAX(ns_of_unit(pprof_str(&s->p, s->p.types.items[i].unit)), (uint64_t)1);
	}
	bool has_time = s->column[CPU] != NONE || s->column[WALL] != NONE || s->column[DELAY] != NONE;
	if (s->column[COUNT] == NONE || has_time)
		return;
	uint64_t period_ns = period_of(&s->p);
	s->ns_per_count = period_ns ? period_ns : FM_IMPORT_SAMPLE_NS;
	if (!period_ns)
		fm_import_missing(s->p.in, "how much time a sample stands for",
				  "the file counts samples; each is shown as 1 ms");
}

static void tell_times(struct samples *s)
{
	fm_import_missing(s->p.in, "when samples were taken", "pprof files are sums over the run");
	if (s->column[WALL] != NONE && s->column[CPU] == NONE)
		fm_import_missing(s->p.in, "whether threads ran or waited", "the file counts elapsed time only");
	if (s->p.has_filter)
		fm_import_missing(s->p.in, "which frames pprof would leave out",
				  "its patterns drop_frames and keep_frames are not used; all frames are shown");
}

// ---- Facts ----

static void write_facts(struct samples *s)
{
	fm_import_started(s->p.in, s->p.time_ns);
	if (s->p.duration_ns <= INT64_MAX)
		s->p.in->wall_ns = s->p.duration_ns;
	uint64_t period_ns = period_of(&s->p);
	if (period_ns && period_ns <= 1000000000)
		fm_import_number(s->p.in, "rate_hz", 1000000000 / period_ns);
	for (size_t i = 0; i < s->p.comments.n; i++)
		fm_writer_meta(s->p.in->w, "comment", pprof_str(&s->p, s->p.comments.items[i]));
}

// ---- Samples ----

struct thread_label {
	uint64_t pid, tid;
	struct fm_str name;
};

static void tell_label(struct samples *s, uint64_t key)
{
	char what[192];
	struct fm_str name = pprof_str(&s->p, key);
	for (size_t i = 0; i < s->told_labels.n; i++)
		if (s->told_labels.items[i] == key)
			return;
	if (s->told_labels.n >= MAX_TOLD_LABELS)
		return;
	fm_vec_push(&s->told_labels, key);
	snprintf(what, sizeof(what), "labels \"%.*s\" of samples", (int)FM_MIN(name.len, 100u), name.p);
	fm_import_missing(s->p.in, what, "a capture cannot hold them");
}

static bool is_one_of(struct fm_str key, const char *const *names)
{
	for (; *names; names++)
		if (fm_str_eq(key, fm_str_of(*names)))
			return true;
	return false;
}

static void read_label(struct samples *s, struct fm_cursor *c, struct thread_label *ret)
{
	static const char *const tids[] = { "thread_id", "thread id", "tid", "thread native id", NULL };
	static const char *const pids[] = { "pid", "process_id", "process id", NULL };
	static const char *const names[] = { "thread", "thread_name", "thread name", "comm", NULL };
	uint64_t key = 0, text = 0, number = 0;
	struct fm_pb_field f;
	while (fm_pb_next(c, &f))
		*(f.number == 1 ? &key : f.number == 2 ? &text : f.number == 3 ? &number : &(uint64_t){ 0 }) = f.value;
	struct fm_str name = pprof_str(&s->p, key), value = pprof_str(&s->p, text);
	if (!number && value.len && (is_one_of(name, tids) || is_one_of(name, pids)))
		number = strtoull(value.p, NULL, 10);
	if (is_one_of(name, tids))
		ret->tid = ret->tid ? ret->tid : number;
	else if (is_one_of(name, pids))
		ret->pid = number;
	else if (is_one_of(name, names))
		ret->name = value;
	else
		tell_label(s, key);
}

// The value of that kind; negative ones, which differences have, are none.
static uint64_t value_of(struct samples *s, enum role role)
{
	uint32_t column = s->column[role];
	if (column >= s->values.n)
		return 0;
	int64_t value = s->values.items[column];
	s->has_negative = s->has_negative || value < 0;
	return value > 0 ? (uint64_t)value : 0;
}

static uint64_t time_of(struct samples *s, enum role role)
{
	uint64_t value = value_of(s, role);
	return value <= UINT64_MAX / s->ns_per_unit[role] ? value * s->ns_per_unit[role] : UINT64_MAX;
}

static void add_time(struct samples *s, uint32_t thread_id, uint32_t stack_id, uint8_t class)
{
	bool has_cpu = s->column[CPU] != NONE, has_wall = s->column[WALL] != NONE;
	uint64_t count = FM_MAX(value_of(s, COUNT), 1u), cpu = has_cpu ? time_of(s, CPU) : 0,
		 wall = has_wall ? time_of(s, WALL) : 0, delay = s->column[DELAY] != NONE ? time_of(s, DELAY) : 0;
	if (s->ns_per_count && value_of(s, COUNT))
		cpu = count <= UINT64_MAX / s->ns_per_count ? count * s->ns_per_count : UINT64_MAX;
	else if (!has_cpu)
		cpu = wall;
	uint64_t waited = has_cpu && wall > cpu ? wall - cpu : 0;
	if (cpu)
		fm_import_sample(s->p.in, thread_id, stack_id, class, count, cpu);
	if (waited || delay)
		fm_import_sample(s->p.in, thread_id, stack_id, FM_CLASS_WAIT, cpu ? 1 : count,
				 waited > UINT64_MAX - delay ? UINT64_MAX : waited + delay);
}

static void add_memory(struct samples *s, uint32_t process_id, uint32_t stack_id, bool is_python)
{
	struct fm_import_site site = {
		.process_id = process_id,
		.stack_id = stack_id,
		.domain = is_python ? FM_ALLOC_OBJ : FM_ALLOC_MALLOC,
		.alloc_bytes = value_of(s, ALLOC_BYTES),
		.n_allocs = value_of(s, N_ALLOCS),
		.live_bytes = value_of(s, LIVE_BYTES),
		.n_live = value_of(s, N_LIVE),
	};
	if (site.alloc_bytes || site.live_bytes)
		fm_import_add_site(s->p.in, &site);
}

// The frames of one location, outermost first.
static uint32_t push_frames(struct samples *s, uint32_t stack_id, const uint32_t *frames, uint32_t n)
{
	bool is_new = true;
	uint64_t key = (uint64_t)stack_id << 32 | (uint32_t)(frames - s->p.frames.items), *known = NULL;
	if (n > MANY_FRAMES)
		known = fm_map_at(&s->long_stacks, key, &is_new);
	if (!is_new)
		return (uint32_t)*known;
	for (uint32_t i = 0; i < n; i++)
		stack_id = fm_writer_stack(s->p.in->w, stack_id, frames[i]);
	if (known)
		*known = stack_id;
	return stack_id;
}

// NULL, or what is wrong with the sample.
static const char *add_sample(struct samples *s, const struct thread_label *label)
{
	struct fm_import *in = s->p.in;
	uint32_t stack_id = FM_ROOT_STACK, frame_id = 0, n;
	size_t n_frames = 0;                        // a location has as many as were inlined there
	for (size_t i = s->locations.n; i-- > 0;) { // the innermost is the first
		const uint32_t *frames = pprof_frames(&s->p, s->locations.items[i], &n);
		if (!frames)
			return "a sample has a location that the file does not define";
		n_frames += n;
		if (n_frames > MAX_FRAMES)
			return "a stack is deeper than any program's";
		stack_id = push_frames(s, stack_id, frames, n);
		frame_id = frames[n - 1];
	}
	if (s->values.n != s->p.types.n)
		return "a sample has another number of values than the file has types";
	uint32_t process_id = fm_import_process(in, (uint32_t)label->pid);
	uint32_t thread_id = fm_import_thread(in, process_id, (uint32_t)(label->tid ^ label->tid >> 32), label->name);
	uint8_t class = stack_id ? fm_import_class_of(in, frame_id) : FM_CLASS_NATIVE;
	add_time(s, thread_id, stack_id, class);
	add_memory(s, process_id, stack_id, class == FM_CLASS_PYTHON);
	return NULL;
}

static const char *read_sample(struct samples *s, struct fm_cursor *c)
{
	struct thread_label label = { .name = { "", 0 } };
	struct fm_pb_field f;
	uint64_t number;
	s->locations.n = s->values.n = 0;
	while (fm_pb_next(c, &f)) {
		if (f.number == SAMPLE_LOCATION)
			while (fm_pb_number(&f, &number))
				fm_vec_push(&s->locations, number);
		else if (f.number == SAMPLE_VALUE)
			while (fm_pb_number(&f, &number))
				fm_vec_push(&s->values, (int64_t)number);
		else if (f.number == SAMPLE_LABEL && f.wire == FM_PB_BYTES)
			read_label(s, &f.body, &label);
		if (f.body.err)
			return "the sample before this is damaged";
	}
	return c->err ? "the sample before this is damaged" : add_sample(s, &label);
}

static enum fm_err read_samples(struct samples *s)
{
	struct fm_pb_field f;
	const char *error = NULL;
	fm_input_rewind(s->p.in->input);
	while (!error && fm_pb_next_of_input(s->p.in->input, &f, &error))
		if (f.number == PROFILE_SAMPLE && f.wire == FM_PB_BYTES)
			error = read_sample(s, &f.body);
	if (s->has_negative)
		fm_import_missing(s->p.in, "negative values", "the file holds differences; a capture has none");
	return error ? fm_import_bad_byte(s->p.in, "%s", error) : fm_import_end(s->p.in);
}

enum fm_err fm_pprof_import(struct fm_import *in)
{
	struct samples s = { .p = { .in = in } };
	enum fm_err err = pprof_read_tables(&s.p);
	if (!err && (!s.p.types.n || s.p.types.n > MAX_TYPES))
		err = fm_import_bad_byte(in, "the file does not say what its samples count");
	if (!err) {
		find_columns(&s);
		tell_times(&s);
		write_facts(&s);
		err = read_samples(&s);
	}
	pprof_deinit(&s.p);
	fm_vec_deinit(&s.locations);
	fm_vec_deinit(&s.values);
	fm_vec_deinit(&s.told_labels);
	fm_map_deinit(&s.long_stacks);
	return err;
}
