// SPDX-License-Identifier: Apache-2.0
// The Firefox Profiler's JSON: its processed format (samply, what the profiler saves) and the raw
// one that Firefox and perf's script give.
//
// What threads share may stand behind them, so the file is read twice. Bound: the shared tables,
// and of one thread at a time its tables and 8 bytes a column for each of its samples.
#include "import/gecko.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"

#define MAX_PROCESS_DEPTH 8u // of raw profiles inside each other
#define MAX_MS 4e12

struct thread {
	uint64_t pid, tid;
	struct fm_buf name, process_name;
	uint64_t n_markers, n_allocations;
};

bool fm_gecko_recognise(const uint8_t *head, size_t n)
{
	return fm_json_in_is_object(head, n) && fm_json_in_has(head, n, "\"meta\"") &&
	       fm_json_in_has(head, n, "\"interval\"") &&
	       (fm_json_in_has(head, n, "\"preprocessedProfileVersion\"") || fm_json_in_has(head, n, "\"stackwalk\""));
}

// ---- What holds for all threads ----

static uint64_t to_ns(double ms)
{
	return ms > 0 ? (uint64_t)llround(fmin(ms, MAX_MS) * 1e6) : 0;
}

static uint8_t class_of_category(struct fm_str name)
{
	return fm_str_eq(name, FM_STR_LIT("Idle"))     ? FM_CLASS_WAIT
	       : fm_str_eq(name, FM_STR_LIT("Kernel")) ? FM_CLASS_SYSTEM
	       : fm_str_starts_with(name, "GC")        ? FM_CLASS_GC
						       : UINT8_MAX;
}

static void read_categories(struct gecko *g)
{
	struct fm_str key;
	if (!fm_json_in_array(&g->j))
		return;
	while (fm_json_in_item(&g->j)) {
		uint8_t class = UINT8_MAX;
		if (fm_json_in_object(&g->j))
			while (fm_json_in_key(&g->j, &key)) {
				if (fm_str_eq(key, FM_STR_LIT("name")))
					class = class_of_category(fm_json_in_str(&g->j));
				else
					fm_json_in_skip(&g->j);
			}
		fm_vec_push(&g->categories, class);
	}
}

static void read_units(struct gecko *g)
{
	struct fm_str key;
	if (!fm_json_in_object(&g->j))
		return;
	while (fm_json_in_key(&g->j, &key)) {
		if (!fm_str_eq(key, FM_STR_LIT("threadCPUDelta"))) {
			fm_json_in_skip(&g->j);
			continue;
		}
		struct fm_str unit = fm_json_in_str(&g->j);
		g->cpu_delta_ns = fm_str_eq(unit, FM_STR_LIT("ns")) ? 1 : fm_str_eq(unit, FM_STR_LIT("µs")) ? 1000 : 0;
	}
}

static void read_meta(struct gecko *g)
{
	struct fm_str key;
	if (!fm_json_in_object(&g->j))
		return;
	while (fm_json_in_key(&g->j, &key)) {
		if (fm_str_eq(key, FM_STR_LIT("interval"))) {
			double ms = fm_json_in_real(&g->j);
			g->interval_ms = ms > 0 && ms < MAX_MS ? ms : 0;
		} else if (fm_str_eq(key, FM_STR_LIT("categories"))) {
			read_categories(g);
		} else if (fm_str_eq(key, FM_STR_LIT("sampleUnits"))) {
			read_units(g);
		} else if (fm_str_eq(key, FM_STR_LIT("startTime"))) {
			fm_import_started(g->in, to_ns(fm_json_in_real(&g->j)));
		} else if (fm_str_eq(key, FM_STR_LIT("product"))) {
			fm_writer_meta(g->in->w, "command", fm_json_in_str(&g->j));
		} else {
			fm_json_in_skip(&g->j);
		}
	}
}

static struct fm_str keep(struct gecko *g, struct fm_str s)
{
	return (struct fm_str){ fm_arena_strdup(&g->arena, s.p, s.len), s.len };
}

// The code id of an ELF file is its build id in hexadecimal.
static struct fm_str build_id_of(struct gecko *g, struct fm_str hex)
{
	uint8_t bytes[FM_IMPORT_MAX_BUILD_ID];
	return keep(g, (struct fm_str){ (const char *)bytes, fm_import_hex(hex, bytes) });
}

static void read_libs(struct gecko *g)
{
	struct fm_str key, none = FM_STR_LIT("");
	if (!fm_json_in_array(&g->j))
		return;
	while (fm_json_in_item(&g->j)) {
		struct gecko_lib lib = { none, none };
		struct fm_str name = none;
		if (fm_json_in_object(&g->j))
			while (fm_json_in_key(&g->j, &key)) {
				if (fm_str_eq(key, FM_STR_LIT("path")))
					lib.path = keep(g, fm_json_in_str(&g->j));
				else if (fm_str_eq(key, FM_STR_LIT("name")))
					name = keep(g, fm_json_in_str(&g->j));
				else if (fm_str_eq(key, FM_STR_LIT("codeId")))
					lib.build_id = build_id_of(g, fm_json_in_str(&g->j));
				else
					fm_json_in_skip(&g->j);
			}
		lib.path = fm_import_name(g->in, lib.path.len ? lib.path : name);
		fm_vec_push(&g->libs, lib);
	}
}

static void read_shared(struct gecko *g)
{
	struct fm_str key;
	if (!fm_json_in_object(&g->j))
		return;
	while (fm_json_in_key(&g->j, &key))
		if (!gecko_read_table(g, &g->shared, key))
			fm_json_in_skip(&g->j);
}

static void read_common(struct gecko *g)
{
	struct fm_str key;
	fm_json_in_init(&g->j, g->in->input);
	if (!fm_json_in_object(&g->j))
		return;
	while (fm_json_in_key(&g->j, &key)) {
		if (fm_str_eq(key, FM_STR_LIT("meta")))
			read_meta(g);
		else if (fm_str_eq(key, FM_STR_LIT("libs")))
			read_libs(g);
		else if (fm_str_eq(key, FM_STR_LIT("shared")))
			read_shared(g);
		else
			fm_json_in_skip(&g->j);
	}
}

// ---- Threads ----

// Numbers of processes and threads are strings where they must be told apart: "12", "12-1".
static uint64_t read_number(struct gecko *g)
{
	if (fm_json_in_kind(&g->j) == '0')
		return (uint64_t)fm_json_in_int(&g->j);
	struct fm_str s = fm_json_in_str(&g->j);
	uint64_t value = 0;
	for (uint32_t i = 0; i < s.len && s.p[i] >= '0' && s.p[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(s.p[i] - '0');
	return value;
}

static void read_text(struct gecko *g, struct fm_buf *b)
{
	struct fm_str s = fm_json_in_str(&g->j);
	b->len = 0;
	fm_buf_bytes(b, s.p, s.len);
}

static struct fm_str text_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->data ? (const char *)b->data : "", (uint32_t)b->len };
}

// "length" says how many there are in the processed format, the rows of "data" in the raw one.
static uint64_t count_rows(struct gecko *g)
{
	struct fm_str key;
	uint64_t n = 0;
	if (!fm_json_in_object(&g->j))
		return 0;
	while (fm_json_in_key(&g->j, &key)) {
		if (fm_str_eq(key, FM_STR_LIT("length"))) {
			int64_t length = fm_json_in_int(&g->j);
			n = length > 0 ? (uint64_t)length : 0;
		} else if (fm_str_eq(key, FM_STR_LIT("data")) && fm_json_in_kind(&g->j) == '[') {
			n = 0;
			if (fm_json_in_array(&g->j))
				for (; fm_json_in_item(&g->j); n++)
					fm_json_in_skip(&g->j);
		} else {
			fm_json_in_skip(&g->j);
		}
	}
	return n;
}

static double ms_at(const struct gecko_values *v, size_t i)
{
	double ms = i < v->n ? v->items[i] : 0;
	return ms > 0 && ms < MAX_MS ? ms : 0;
}

struct emission {
	const struct gecko_tables *stacks;
	uint32_t thread_id;
	enum gecko_weight weight;
};

// Threads are sampled whether they run or wait: one that used no CPU since the sample before waited.
static uint8_t class_at(const struct gecko *g, const struct emission *e, size_t i, int64_t stack)
{
	const struct gecko_values *cpu = gecko_column(g, SAMPLE_CPU_DELTA);
	if (g->cpu_delta_ns && i && i < cpu->n && cpu->items[i] == 0)
		return FM_CLASS_WAIT;
	if (stack < 0)
		return FM_CLASS_NATIVE;
	uint32_t class = e->stacks->classes.items[stack];
	return class != GECKO_NO_CLASS ? (uint8_t) class : fm_import_class_of(g->in, e->stacks->leaves.items[stack]);
}

static void add_sample(struct gecko *g, const struct emission *e, size_t i, double at_ms)
{
	const struct gecko_values *weights = gecko_column(g, SAMPLE_WEIGHT);
	const struct fm_import_thread *t = &g->in->threads.items[e->thread_id];
	int64_t stack = gecko_index(g, SAMPLE_STACK, (int64_t)i);
	if (stack >= 0 && (uint64_t)stack >= e->stacks->stacks.n) {
		fm_json_in_fail(&g->j, "a sample has a stack that the file does not define");
		return;
	}
	uint32_t stack_id = stack < 0 ? FM_ROOT_STACK : e->stacks->stacks.items[stack];
	double weight = i < weights->n && !isnan(weights->items[i]) ? weights->items[i] : 1;
	if (weight < 0) {
		fm_import_missing(g->in, "negative values", "the file holds differences; a capture has none");
		return;
	}
	if (e->weight == GECKO_BYTES) {
		fm_import_add_site(g->in, &(struct fm_import_site){ .process_id = t->process_id,
								    .stack_id = stack_id,
								    .domain = FM_ALLOC_MALLOC,
								    .alloc_bytes = (uint64_t)fmin(weight, 9e15),
								    .n_allocs = 1 });
		return;
	}
	uint64_t weight_ns = to_ns(e->weight == GECKO_MS ? weight : weight * g->interval_ms),
		 begin_ns = FM_IMPORT_START_NS + to_ns(at_ms);
	begin_ns = begin_ns > weight_ns ? begin_ns - weight_ns : 0;
	if (begin_ns > t->now_ns)
		fm_import_pass_time(g->in, e->thread_id, begin_ns - t->now_ns);
	uint64_t count = e->weight == GECKO_MS ? 1 : (uint64_t)llround(fmin(weight, 1e15));
	fm_import_sample(g->in, e->thread_id, stack_id, class_at(g, e, i, stack), count, weight_ns);
}

static void add_samples(struct gecko *g, const struct thread *t)
{
	const struct gecko_values *times = gecko_column(g, SAMPLE_TIME), *deltas = gecko_column(g, SAMPLE_TIME_DELTA);
	uint32_t process_id = fm_import_process(g->in, (uint32_t)t->pid);
	struct emission e = { .thread_id = fm_import_thread(g->in, process_id, (uint32_t)t->tid, text_of(&t->name)),
			      .weight = g->thread.weight };
	double at_ms = 0;
	if (t->process_name.len)
		fm_import_process_command(g->in, process_id, text_of(&t->process_name));
	e.stacks = gecko_stacks(g);
	for (size_t i = 0; !g->j.error && i < gecko_column(g, SAMPLE_STACK)->n; i++) {
		at_ms = times->n ? ms_at(times, i) : at_ms + ms_at(deltas, i);
		add_sample(g, &e, i, at_ms);
	}
	if (t->n_markers)
		fm_import_missing(g->in, "markers", "a capture of samples cannot hold them");
	if (t->n_allocations)
		fm_import_missing(g->in, "allocations",
				  "the file has them as markers of threads, which Fathom does not read");
}

static void read_thread(struct gecko *g)
{
	struct thread t = { 0 };
	struct fm_str key;
	if (!fm_json_in_object(&g->j))
		return;
	gecko_tables_clear(&g->thread);
	while (fm_json_in_key(&g->j, &key)) {
		if (gecko_read_table(g, &g->thread, key))
			continue;
		if (fm_str_eq(key, FM_STR_LIT("pid")))
			t.pid = read_number(g);
		else if (fm_str_eq(key, FM_STR_LIT("tid")))
			t.tid = read_number(g);
		else if (fm_str_eq(key, FM_STR_LIT("name")))
			read_text(g, &t.name);
		else if (fm_str_eq(key, FM_STR_LIT("processName")))
			read_text(g, &t.process_name);
		else if (fm_str_eq(key, FM_STR_LIT("markers")))
			t.n_markers = count_rows(g);
		else if (fm_str_eq(key, FM_STR_LIT("nativeAllocations")) || fm_str_eq(key, FM_STR_LIT("jsAllocations")))
			t.n_allocations = count_rows(g);
		else
			fm_json_in_skip(&g->j);
	}
	if (!g->j.error)
		add_samples(g, &t);
	fm_buf_deinit(&t.name);
	fm_buf_deinit(&t.process_name);
}

// A raw profile has those of other processes inside.
static void read_threads(struct gecko *g, unsigned depth)
{
	struct fm_str key;
	if (!fm_json_in_object(&g->j))
		return;
	while (fm_json_in_key(&g->j, &key)) {
		bool is_threads = fm_str_eq(key, FM_STR_LIT("threads"));
		if (!is_threads && !(fm_str_eq(key, FM_STR_LIT("processes")) && depth < MAX_PROCESS_DEPTH)) {
			fm_json_in_skip(&g->j);
			continue;
		}
		if (!fm_json_in_array(&g->j))
			continue;
		while (fm_json_in_item(&g->j)) {
			if (is_threads)
				read_thread(g);
			else
				read_threads(g, depth + 1);
		}
	}
}

static enum fm_err end_file(struct gecko *g)
{
	enum fm_err err = fm_json_in_end(&g->j, g->in);
	fm_json_in_deinit(&g->j);
	return err;
}

enum fm_err fm_gecko_import(struct fm_import *in)
{
	struct gecko g = { .in = in };
	fm_arena_init(&g.arena);
	read_common(&g);
	end_file(&g); // what is wrong with it is met once more
	if (!g.interval_ms) {
		g.interval_ms = (double)FM_IMPORT_SAMPLE_NS / 1e6;
		fm_import_missing(in, "how much time a sample stands for",
				  "the file does not give the interval; each sample is shown as 1 ms");
	}
	// Of a file that is cut off, the threads before the cut are whole.
	fm_input_rewind(in->input);
	fm_json_in_init(&g.j, in->input);
	read_threads(&g, 0);
	enum fm_err err = end_file(&g);
	gecko_tables_deinit(&g.shared);
	gecko_tables_deinit(&g.thread);
	fm_vec_deinit(&g.libs);
	fm_vec_deinit(&g.categories);
	fm_arena_deinit(&g.arena);
	return err;
}
