// SPDX-License-Identifier: Apache-2.0
// What memray recorded. Its file has no documented format, so an installed memray is asked to write
// it as CSV, once what was live at the peak and once what was never freed; where there is none, one
// line says so. "memray transform csv" files themselves are read as well.
//
// A row is "allocator,number,bytes,thread,its name,func;file;line|...", the innermost frame first.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "import/formats.h"
#include "import/frame_text.h"
#include "import/sink.h"

#define HEADER "allocator,num_allocations,size,tid,thread_name,stack_trace"
#define N_FIELDS 6
#define MAX_BYTES ((uint64_t)1 << 56)

struct place {
	uint32_t stack_id;
	uint8_t domain;
	uint64_t peak_bytes, n_peak, live_bytes, n_live;
};

struct memray {
	struct fm_import *in;
	struct fm_intern frame_texts;
	FM_VEC(uint32_t) frames; // by these
	struct fm_map index;     // stack and domain
	FM_VEC(struct place) places;
	struct fm_buf fields[N_FIELDS];
};

// ---- rows ----

// One field of a row, quoted or not. False: the row is damaged.
static bool take_field(struct fm_str *row, struct fm_buf *ret)
{
	uint32_t i = 0;
	ret->len = 0;
	if (row->len && row->p[0] == '"') {
		for (i = 1; i < row->len; i++) {
			if (row->p[i] == '"' && !(i + 1 < row->len && row->p[i + 1] == '"'))
				break;
			i += row->p[i] == '"';
			fm_buf_u8(ret, (uint8_t)row->p[i]);
		}
		if (i++ >= row->len)
			return false;
	} else {
		while (i < row->len && row->p[i] != ',')
			i++;
		fm_buf_bytes(ret, row->p, i);
	}
	if (i < row->len && row->p[i] != ',')
		return false;
	i += i < row->len;
	*row = (struct fm_str){ row->p + i, row->len - i };
	return true;
}

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

static bool number_of(const struct fm_buf *field, uint64_t *ret)
{
	uint64_t v = 0;
	for (size_t i = 0; i < field->len; i++) {
		if (field->data[i] < '0' || field->data[i] > '9' || v > MAX_BYTES)
			return false;
		v = v * 10 + (uint64_t)(field->data[i] - '0');
	}
	*ret = v;
	return field->len > 0;
}

static uint8_t domain_of(struct fm_str allocator)
{
	if (fm_str_starts_with(allocator, "PYMALLOC"))
		return FM_ALLOC_OBJ;
	return fm_str_starts_with(allocator, "MMAP") ? FM_ALLOC_MMAP : FM_ALLOC_MALLOC;
}

// "func;file;line": of the two last ; as names may have some.
static uint32_t frame_of(struct memray *m, struct fm_str text)
{
	bool is_new;
	uint32_t id = fm_intern_id(&m->frame_texts, text, &is_new), line = 0;
	if (!is_new)
		return m->frames.items[id];
	struct fm_str file = FM_STR_LIT("");
	bool has_line = fm_text_take_number(&text, ';', &line);
	const char *semicolon = text.len ? memrchr(text.p, ';', text.len) : NULL;
	if (semicolon) {
		file = (struct fm_str){ semicolon + 1, (uint32_t)(text.p + text.len - semicolon - 1) };
		text.len = (uint32_t)(semicolon - text.p);
	}
	uint32_t frame = file.len ? fm_frame_of_parts(m->in, text, file, has_line ? line : 0)
				  : fm_import_native_frame(m->in, FM_STR_LIT(""), text, FM_STR_LIT(""), 0);
	fm_vec_push(&m->frames, frame);
	return frame;
}

static uint32_t stack_of(struct memray *m, struct fm_str text)
{
	uint32_t stack_id = FM_ROOT_STACK;
	while (text.len) {
		const char *bar = memrchr(text.p, '|', text.len);
		struct fm_str frame = bar ? (struct fm_str){ bar + 1, (uint32_t)(text.p + text.len - bar - 1) } : text;
		stack_id = fm_writer_stack(m->in->w, stack_id, frame_of(m, frame));
		text.len = bar ? (uint32_t)(bar - text.p) : 0;
	}
	return stack_id;
}

static bool take_row(struct memray *m, struct fm_str row, bool is_live)
{
	uint64_t n, bytes;
	bool is_new;
	for (int i = 0; i < N_FIELDS; i++)
		if (!take_field(&row, &m->fields[i]))
			return false;
	if (row.len || !number_of(&m->fields[1], &n) || !number_of(&m->fields[2], &bytes) || bytes > MAX_BYTES ||
	    n > MAX_BYTES)
		return false;
	uint8_t domain = domain_of(str_of(&m->fields[0]));
	uint32_t stack_id = stack_of(m, str_of(&m->fields[5]));
	uint64_t *idx = fm_map_at(&m->index, (uint64_t)domain << 32 | stack_id, &is_new);
	if (is_new) {
		*idx = m->places.n;
		fm_vec_push(&m->places, (struct place){ .stack_id = stack_id, .domain = domain });
	}
	struct place *place = &m->places.items[*idx];
	*(is_live ? &place->live_bytes : &place->peak_bytes) += bytes;
	*(is_live ? &place->n_live : &place->n_peak) += n;
	return place->live_bytes <= MAX_BYTES && place->peak_bytes <= MAX_BYTES && place->n_live <= MAX_BYTES &&
	       place->n_peak <= MAX_BYTES;
}

static enum fm_err take_rows(struct memray *m, bool is_live)
{
	struct fm_str line;
	enum fm_err err = FM_OK;
	if (!fm_input_line(m->in->input, &line) || !fm_str_eq(line, FM_STR_LIT(HEADER)))
		return fm_import_bad_line(m->in, "this is not the header of memray's CSV");
	while (!err && fm_input_line(m->in->input, &line))
		if (line.len && !take_row(m, line, is_live))
			err = fm_import_bad_line(m->in, "this is not a row of memray's CSV");
	return err ? err : fm_import_end(m->in);
}

// A block may have been live at the peak and at the end: the larger number is what surely was.
static void put_places(struct memray *m)
{
	for (size_t i = 0; i < m->places.n; i++) {
		const struct place *p = &m->places.items[i];
		fm_import_add_site(m->in, &(struct fm_import_site){ .process_id = fm_import_process(m->in, 0),
								    .stack_id = p->stack_id,
								    .domain = p->domain,
								    .alloc_bytes = FM_MAX(p->peak_bytes, p->live_bytes),
								    .n_allocs = FM_MAX(p->n_peak, p->n_live),
								    .live_bytes = p->live_bytes,
								    .n_live = p->n_live,
								    .peak_bytes = p->peak_bytes });
	}
}

static void deinit(struct memray *m)
{
	fm_intern_deinit(&m->frame_texts);
	fm_vec_deinit(&m->frames);
	fm_map_deinit(&m->index);
	fm_vec_deinit(&m->places);
	for (int i = 0; i < N_FIELDS; i++)
		fm_buf_deinit(&m->fields[i]);
}

bool fm_memray_csv_recognise(const uint8_t *head, size_t n)
{
	return n >= strlen(HEADER) && !memcmp(head, HEADER, strlen(HEADER));
}

enum fm_err fm_memray_csv_import(struct fm_import *in)
{
	struct memray m = { .in = in };
	enum fm_err err = take_rows(&m, false);
	put_places(&m);
	fm_import_missing(in, "all other allocations",
			  "memray's CSV has only what was live at the peak, or what was never freed");
	deinit(&m);
	return err;
}

// ---- by memray itself ----

// "memray" and a NUL begin its files, if need be inside of LZ4's first block.
bool fm_memray_recognise(const uint8_t *head, size_t n)
{
	static const uint8_t lz4[] = { 0x04, 0x22, 0x4d, 0x18 };
	static const char magic[] = "memray";
	if (n >= sizeof(magic) && !memcmp(head, magic, sizeof(magic)))
		return true;
	return n >= 32 && !memcmp(head, lz4, sizeof(lz4)) && memmem(head, 32, magic, sizeof(magic));
}

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION

// In an empty folder: Python would take modules of the current one for its own.
static void run_child(const char *folder, const char *const argv[])
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), log = -1;
	prctl(PR_SET_PDEATHSIG, SIGKILL); // nobody waits for it then
	if (chdir(folder) == 0)
		log = open("log", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (null >= 0 && log >= 0 && dup2(null, 0) == 0 && dup2(log, 1) == 1 && dup2(log, 2) == 2)
		execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

// How it ended, as wait() has it; -1: it did not begin.
static int run(const char *folder, const char *const argv[])
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		run_child(folder, argv);
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static bool export_csv(const char *folder, const char *path, const char *out, bool is_live, bool is_program)
{
	const char *argv[12];
	int n = 0;
	if (is_program) {
		argv[n++] = "memray";
	} else {
		argv[n++] = "python3";
		argv[n++] = "-m";
		argv[n++] = "memray";
	}
	argv[n++] = "transform";
	argv[n++] = "csv";
	if (is_live)
		argv[n++] = "--leaks";
	argv[n++] = "-f";
	argv[n++] = "-o";
	argv[n++] = out;
	argv[n++] = path;
	argv[n] = NULL;
	return run(folder, argv) == 0 && access(out, R_OK) == 0;
}

// What it said last, which is why it failed.
static void last_line(const char *path, char *ret, size_t cap)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[512];
	ret[0] = 0;
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0])
			snprintf(ret, cap, "%.200s", line);
	}
}

static enum fm_err read_csv(struct memray *m, const char *path, bool is_live)
{
	struct fm_input *own = m->in->input;
	enum fm_err err = fm_input_open(path, &m->in->input, m->in->diag);
	if (!err) {
		err = take_rows(m, is_live);
		fm_input_close(m->in->input);
	}
	m->in->input = own;
	return err;
}

static enum fm_err import_by(struct memray *m, const char *folder, const char *path)
{
	char peak[PATH_MAX], live[PATH_MAX], log[PATH_MAX], why[256];
	snprintf(peak, sizeof(peak), "%s/peak.csv", folder);
	snprintf(live, sizeof(live), "%s/live.csv", folder);
	snprintf(log, sizeof(log), "%s/log", folder);
	bool is_program = false, is_there = export_csv(folder, path, peak, false, false);
	last_line(log, why, sizeof(why));
	if (!is_there && (!why[0] || strstr(why, "No module named memray"))) // "": there is no python3
		is_there = export_csv(folder, path, peak, false, is_program = true);
	enum fm_err err = FM_OK;
	if (!is_there && is_program) {
		last_line(log, why, sizeof(why));
		if (!why[0])
			err = fm_diag_set(m->in->diag, FM_E_UNSUPPORTED,
					  "%s is a recording of memray, which only memray can read, and memray is not "
					  "installed for python3; run 'pip install memray'",
					  m->in->path);
	}
	if (!err && !is_there)
		err = fm_diag_set(m->in->diag, FM_E_UNSUPPORTED, "memray could not read %s: %s", m->in->path, why);
	if (!err)
		fm_say("memray reads %s: '%s transform csv'", m->in->path, is_program ? "memray" : "python3 -m memray");
	if (!err)
		err = read_csv(m, peak, false);
	if (!err && export_csv(folder, path, live, true, is_program))
		err = read_csv(m, live, true);
	unlink(peak);
	unlink(live);
	unlink(log);
	return err;
}

enum fm_err fm_memray_import(struct fm_import *in)
{
	struct memray m = { .in = in };
	const char *tmp = getenv("TMPDIR");
	char folder[PATH_MAX - 16];
	_cleanup_free_ char *path = realpath(in->path, NULL);
	snprintf(folder, sizeof(folder), "%s/fathom-memray-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
	if (!path || !mkdtemp(folder))
		return fm_diag_set(in->diag, FM_E_IO, "cannot make a temporary folder: %s", strerror(errno));
	enum fm_err err = import_by(&m, folder, path);
	rmdir(folder);
	put_places(&m);
	fm_import_missing(
		in, "allocations that were freed before or after the peak",
		"memray's exporters give stacks only for what was live at the peak, and what was never freed");
	fm_import_missing(in, "the history of memory over time", "memray's exporters do not give it by stack");
	deinit(&m);
	return err;
}

#else

// What memray makes of the bytes is memray's.
enum fm_err fm_memray_import(struct fm_import *in)
{
	return fm_diag_set(in->diag, FM_E_UNSUPPORTED, "%s is a recording of memray", in->path);
}

#endif
