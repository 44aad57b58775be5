// SPDX-License-Identifier: Apache-2.0
// perf.data, as perf report, perf script and Hotspot open it. It holds addresses, and names come
// from the files that were mapped at them. So each process has one mapping, of a file OUT.names that
// is written beside (perf_names.h), in which each function has an address of its own. Python
// functions are called there as CPython calls them for perf: "py::name:file".
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregate/tree/view.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/owner.h"
#include "render/export/perf_names.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"

#define HEADER_BYTES 104u
#define ATTR_BYTES 112u // the fifth version of perf_event_attr
#define MAP_START 0x10000000ull
// A record has at most 64 KiB; what is further out is cut.
#define MAX_FRAMES 8000u
#define SAMPLE_BITS                                                                                       \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | \
	 PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN)
#define ATTR_FLAGS                                                                                              \
	(1ull << 5 /* exclude_kernel */ | 1ull << 8 /* mmap */ | 1ull << 9 /* comm */ | 1ull << 10 /* freq */ | \
	 1ull << 13 /* task */ | 1ull << 18 /* sample_id_all */ | 1ull << 23 /* mmap2 */)

enum feature { // HEADER_* of perf
	FEATURE_BUILD_ID = 2,
	FEATURE_HOSTNAME = 3,
	FEATURE_VERSION = 5,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CMDLINE = 11,
	FEATURE_EVENT_DESC = 12,
};
static const uint8_t features[] = { FEATURE_BUILD_ID, FEATURE_HOSTNAME, FEATURE_VERSION,   FEATURE_ARCH,
				    FEATURE_NRCPUS,   FEATURE_CMDLINE,  FEATURE_EVENT_DESC };

enum event { CPU_EVENT, WAIT_EVENT, N_EVENTS };
static const char *const event_names[N_EVENTS] = { "cpu-clock", "waiting" };

struct writer {
	FILE *out;
	struct fm_analysis *a;
	struct fm_perf_names names;
	uint32_t *node_name; // by node: its function's number
	uint32_t no_frames;  // the name of the empty stack
	struct fm_path path;
	struct fm_buf record;
	uint64_t n_cut;
	uint32_t n_cpus; // by the highest that a sample names; Hotspot makes room for so many
};

static bool is_wait(unsigned class)
{
	return class == FM_CLASS_WAIT || class == FM_CLASS_GIL_WAIT;
}

static uint64_t address_of(uint32_t name)
{
	// Into the middle: some readers look up a caller by the byte before.
	return MAP_START + FM_PERF_NAMES_TEXT_OFFSET + (uint64_t)name * FM_PERF_NAMES_FUNCTION_BYTES +
	       FM_PERF_NAMES_FUNCTION_BYTES / 2;
}

// ---- Names ----

static void name_functions(struct writer *w)
{
	const struct fm_view *view = &w->a->view;
	struct fm_map numbers = { 0 };
	struct fm_buf text = { 0 };
	w->no_frames = fm_perf_names_add(&w->names, FM_STR_LIT("[no frames]"));
	w->node_name = fm_alloc(view->nodes.n * sizeof(*w->node_name));
	for (uint32_t i = 1; i < view->nodes.n; i++) {
		bool is_new;
		uint64_t *number = fm_map_at(&numbers, view->nodes.items[i].function_id, &is_new);
		if (is_new) {
			const struct fm_function *f = fm_analysis_function(w->a, view->nodes.items[i].function_id);
			struct fm_str name = fm_label_function(f);
			bool is_python = f->kind == FM_FRAME_PYTHON;
			text.len = 0;
			fm_buf_str(&text, is_python ? "py::" : "");
			fm_buf_bytes(&text, name.p, name.len);
			fm_buf_str(&text, is_python ? ":" : "");
			if (is_python)
				fm_buf_bytes(&text, f->file.p, f->file.len);
			*number = fm_perf_names_add(&w->names,
						    (struct fm_str){ (const char *)text.data, (uint32_t)text.len });
		}
		w->node_name[i] = (uint32_t)*number;
	}
	fm_buf_deinit(&text);
	fm_map_deinit(&numbers);
}

// ---- Records ----

static void put_u16(struct fm_buf *b, uint16_t v)
{
	fm_buf_u8(b, (uint8_t)v);
	fm_buf_u8(b, (uint8_t)(v >> 8));
}

static void begin_record(struct writer *w, uint32_t type, uint16_t misc)
{
	w->record.len = 0;
	fm_buf_u32(&w->record, type);
	put_u16(&w->record, misc);
	put_u16(&w->record, 0);
}

static void pad(struct fm_buf *b)
{
	while (b->len % 8)
		fm_buf_u8(b, 0);
}

static void end_record(struct writer *w)
{
	w->record.data[6] = (uint8_t)w->record.len;
	w->record.data[7] = (uint8_t)(w->record.len >> 8);
	fwrite(w->record.data, 1, w->record.len, w->out);
}

// What stands at the end of each record but a sample (sample_id_all).
static void put_who(struct fm_buf *b, uint32_t pid, uint32_t tid)
{
	pad(b);
	fm_buf_u32(b, pid);
	fm_buf_u32(b, tid);
	fm_buf_u64(b, 1); // before all samples
	fm_buf_u64(b, 0); // CPU
	fm_buf_u64(b, CPU_EVENT + 1);
}

static void put_attr(struct fm_buf *b, const struct writer *w, enum event event)
{
	size_t start = b->len;
	struct fm_str rate = fm_profile_meta(w->a->profile, "rate_hz", FM_STR_LIT("1000"));
	char digits[24];
	snprintf(digits, sizeof(digits), "%.*s", (int)FM_MIN(rate.len, 20u), rate.p);
	fm_buf_u32(b, PERF_TYPE_SOFTWARE);
	fm_buf_u32(b, ATTR_BYTES);
	fm_buf_u64(b, event == CPU_EVENT ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY);
	fm_buf_u64(b, FM_MAX(strtoull(digits, NULL, 10), 1ull));
	fm_buf_u64(b, SAMPLE_BITS);
	fm_buf_u64(b, 0); // read_format
	fm_buf_u64(b, ATTR_FLAGS);
	while (b->len - start < ATTR_BYTES)
		fm_buf_u8(b, 0);
}

static void write_process(struct writer *w, uint32_t pid, const char *names_path)
{
	begin_record(w, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	fm_buf_u32(&w->record, pid);
	fm_buf_u32(&w->record, pid);
	fm_buf_u64(&w->record, MAP_START + FM_PERF_NAMES_TEXT_OFFSET);
	fm_buf_u64(&w->record, fm_perf_names_text_bytes(&w->names));
	fm_buf_u64(&w->record, FM_PERF_NAMES_TEXT_OFFSET);
	for (unsigned i = 0; i < 3; i++) // device, inode and its generation are not known
		fm_buf_u64(&w->record, 0);
	fm_buf_u32(&w->record, 5); // to be read and executed
	fm_buf_u32(&w->record, 2); // private
	fm_buf_bytes(&w->record, names_path, strlen(names_path) + 1);
	put_who(&w->record, pid, pid);
	end_record(w);
}

static void write_thread(struct writer *w, uint32_t pid, const struct fm_thread *t)
{
	struct fm_str name = t->name;
	const struct fm_profile *p = w->a->profile;
	if (!name.len && t->process_id < p->processes.n) {
		struct fm_str command = p->processes.items[t->process_id].info.command;
		command.len = (uint32_t)strnlen(command.p, command.len);
		name = fm_label_last_part(command);
	}
	begin_record(w, PERF_RECORD_COMM, 0);
	fm_buf_u32(&w->record, pid);
	fm_buf_u32(&w->record, t->tid);
	fm_buf_bytes(&w->record, name.p, FM_MIN(name.len, 63u));
	fm_buf_u8(&w->record, 0);
	put_who(&w->record, pid, t->tid);
	end_record(w);
}

static void write_processes(struct writer *w, const char *names_path)
{
	const struct fm_profile *p = w->a->profile;
	for (size_t i = 0; i < p->processes.n; i++)
		write_process(w, p->processes.items[i].info.pid, names_path);
	for (uint32_t i = 0; i < p->threads.n; i++) {
		uint32_t process = p->threads.items[i].process_id;
		if (process < p->processes.n)
			write_thread(w, p->processes.items[process].info.pid, &p->threads.items[i]);
	}
}

static void write_sample(struct writer *w, const struct fm_sample *s)
{
	const struct fm_profile *p = w->a->profile;
	uint32_t process = fm_label_process_of(w->a, s->thread_id);
	fm_path_move(&w->path, &w->a->view, fm_analysis_node(w->a, s));
	size_t depth = w->path.nodes.n, n = FM_MIN(depth, (size_t)MAX_FRAMES);
	uint32_t leaf = depth ? w->node_name[w->path.nodes.items[depth - 1]] : w->no_frames;
	w->n_cut += depth > n;
	w->n_cpus = FM_MAX(w->n_cpus, s->cpu + 1u);
	begin_record(w, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	fm_buf_u64(&w->record, is_wait(s->class) ? WAIT_EVENT + 1 : CPU_EVENT + 1);
	fm_buf_u64(&w->record, address_of(leaf));
	fm_buf_u32(&w->record, process < p->processes.n ? p->processes.items[process].info.pid : 0);
	fm_buf_u32(&w->record, p->threads.items[s->thread_id].tid);
	fm_buf_u64(&w->record, FM_MAX(s->time_ns, (uint64_t)2));
	fm_buf_u64(&w->record, s->cpu);
	fm_buf_u64(&w->record, s->weight_ns);
	fm_buf_u64(&w->record, 1 + FM_MAX(n, (size_t)1));
	fm_buf_u64(&w->record, (uint64_t)PERF_CONTEXT_USER);
	for (size_t i = 0; i < n; i++)
		fm_buf_u64(&w->record, address_of(w->node_name[w->path.nodes.items[depth - 1 - i]]));
	if (!n)
		fm_buf_u64(&w->record, address_of(leaf));
	end_record(w);
}

static void write_samples(void *ctx, const struct fm_sample *samples, uint32_t n)
{
	struct writer *w = ctx;
	for (const struct fm_sample *s = samples; s < samples + n; s++)
		if (fm_analysis_knows(w->a, s) && fm_view_shows_class(&w->a->options, s->class) &&
		    s->thread_id < w->a->profile->threads.n)
			write_sample(w, s);
}

// ---- What it says of itself ----

static void put_string(struct fm_buf *b, struct fm_str s)
{
	uint32_t padded = (s.len + 1 + 63) & ~63u; // as perf does
	fm_buf_u32(b, padded);
	fm_buf_bytes(b, s.p, s.len);
	for (uint32_t i = s.len; i < padded; i++)
		fm_buf_u8(b, 0);
}

static void put_command(struct fm_buf *b, struct fm_str joined)
{
	uint32_t n = joined.len > 0;
	for (uint32_t i = 0; i < joined.len; i++)
		n += !joined.p[i];
	fm_buf_u32(b, n);
	for (uint32_t i = 0, from = 0; i <= joined.len && n; i++)
		if (i == joined.len || !joined.p[i]) {
			put_string(b, (struct fm_str){ joined.p + from, i - from });
			from = i + 1;
		}
}

static void put_build_id(struct fm_buf *b, const struct writer *w, const char *names_path)
{
	struct fm_buf path = { 0 };
	uint8_t id[FM_PERF_NAMES_ID_BYTES];
	fm_perf_names_build_id(&w->names, id);
	fm_buf_bytes(&path, names_path, strlen(names_path) + 1);
	while (path.len % 64)
		fm_buf_u8(&path, 0);
	fm_buf_u32(b, 0);
	put_u16(b, PERF_RECORD_MISC_USER);
	put_u16(b, (uint16_t)(8 + 4 + 24 + path.len));
	fm_buf_u32(b, UINT32_MAX); // of no guest
	fm_buf_bytes(b, id, sizeof(id));
	fm_buf_u32(b, 0);
	fm_buf_bytes(b, path.data, path.len);
	fm_buf_deinit(&path);
}

static void put_feature(struct fm_buf *b, const struct writer *w, enum feature feature, const char *names_path)
{
	const struct fm_profile *p = w->a->profile;
	const struct fm_str none = FM_STR_LIT("");
	if (feature == FEATURE_BUILD_ID)
		put_build_id(b, w, names_path);
	else if (feature == FEATURE_HOSTNAME)
		put_string(b, fm_profile_meta(p, "host", none));
	else if (feature == FEATURE_VERSION)
		put_string(b, FM_STR_LIT("fathom " FM_VERSION));
	else if (feature == FEATURE_ARCH)
		put_string(b, FM_STR_LIT("x86_64"));
	else if (feature == FEATURE_NRCPUS)
		fm_buf_u64(b, (uint64_t)w->n_cpus << 32 | w->n_cpus); // available and online
	else if (feature == FEATURE_CMDLINE)
		put_command(b, fm_profile_meta(p, "command", none));
	if (feature != FEATURE_EVENT_DESC)
		return;
	fm_buf_u32(b, N_EVENTS);
	fm_buf_u32(b, ATTR_BYTES);
	for (unsigned i = 0; i < N_EVENTS; i++) {
		put_attr(b, w, i);
		fm_buf_u32(b, 1);
		put_string(b, fm_str_of(event_names[i]));
		fm_buf_u64(b, i + 1);
	}
}

// A table of where each of them is, and then they themselves.
static void write_features(struct writer *w, const char *names_path)
{
	struct fm_buf table = { 0 }, all = { 0 };
	uint64_t at = (uint64_t)ftello(w->out) + sizeof(features) * 16;
	for (size_t i = 0; i < sizeof(features); i++) {
		size_t start = all.len;
		put_feature(&all, w, features[i], names_path);
		fm_buf_u64(&table, at + start);
		fm_buf_u64(&table, all.len - start);
	}
	fwrite(table.data, 1, table.len, w->out);
	fwrite(all.data, 1, all.len, w->out);
	fm_buf_deinit(&table);
	fm_buf_deinit(&all);
}

static void write_front(struct writer *w, uint64_t data_bytes)
{
	struct fm_buf b = { 0 };
	const uint64_t table_at = HEADER_BYTES + N_EVENTS * 8, table_bytes = N_EVENTS * (ATTR_BYTES + 16);
	uint64_t bits = 0;
	for (size_t i = 0; i < sizeof(features); i++)
		bits |= 1ull << features[i];
	const uint64_t words[] = { HEADER_BYTES,
				   ATTR_BYTES + 16,
				   table_at,
				   table_bytes,
				   table_at + table_bytes,
				   data_bytes,
				   0,
				   0,
				   bits,
				   0,
				   0,
				   0 };
	fm_buf_str(&b, "PERFILE2");
	for (size_t i = 0; i < FM_ARRAY_LEN(words); i++)
		fm_buf_u64(&b, words[i]);
	for (uint64_t i = 0; i < N_EVENTS; i++)
		fm_buf_u64(&b, i + 1); // the id of each event
	for (unsigned i = 0; i < N_EVENTS; i++) {
		put_attr(&b, w, i);
		fm_buf_u64(&b, HEADER_BYTES + i * 8);
		fm_buf_u64(&b, 8);
	}
	fseeko(w->out, 0, SEEK_SET);
	fwrite(b.data, 1, b.len, w->out);
	fm_buf_deinit(&b);
}

// ---- The two files ----

// Where the names go: beside the file that is being written, by its whole path.
static enum fm_err names_path_of(FILE *out, char *ret, size_t cap, struct fm_diag *diag)
{
	char link[64];
	struct stat st;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fileno(out));
	ssize_t n = fileno(out) < 0 ? -1 : readlink(link, ret, cap - sizeof(".names"));
	if (n < 0 || n == (ssize_t)(cap - sizeof(".names")) || fstat(fileno(out), &st) || !S_ISREG(st.st_mode))
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "perf.data needs a second file for the names; write to a file with -o");
	memcpy(ret + n, ".names", sizeof(".names"));
	return FM_OK;
}

static enum fm_err write_names(const struct writer *w, const char *path, struct fm_diag *diag)
{
	_cleanup_fclose_ FILE *out = fm_fopen_private(path, false);
	if (!out)
		return fm_diag_set(diag, FM_E_IO, "cannot write %s, the file for the names", path);
	fm_perf_names_write(&w->names, out);
	return fflush(out) || ferror(out) ? fm_diag_set(diag, FM_E_IO, "cannot write %s: no room", path) : FM_OK;
}

enum fm_err fm_write_perf_data(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	char names_path[4096];
	struct writer w = { .out = out, .a = a };
	const struct fm_observer observer = { .on_samples = write_samples, .ctx = &w };
	if (a->options.metric != FM_METRIC_TIME)
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "perf.data holds time only; export memory to another format");
	enum fm_err err = names_path_of(out, names_path, sizeof(names_path), diag);
	if (err)
		return err;
	name_functions(&w);
	write_front(&w, 0);
	off_t start = ftello(out);
	write_processes(&w, names_path);
	err = fm_reader_replay(a->reader, &observer, diag);
	off_t end = ftello(out);
	write_features(&w, names_path);
	write_front(&w, (uint64_t)(end - start));
	fseeko(out, 0, SEEK_END);
	err = err ? err : write_names(&w, names_path, diag);
	if (!err)
		fm_say("the names of its functions are in %s, which perf looks for there", names_path);
	if (w.n_cut)
		fm_say("%" PRIu64 " stacks are deeper than %u frames and lack their outer ends", w.n_cut, MAX_FRAMES);
	fm_perf_names_deinit(&w.names);
	fm_path_deinit(&w.path);
	fm_buf_deinit(&w.record);
	free(w.node_name);
	return err;
}
