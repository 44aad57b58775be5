// SPDX-License-Identifier: Apache-2.0
// What agents define before they use it: code objects with their source, images (recorder_parts.h).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collect/process/machine.h"
#include "collect/ingest/recorder_parts.h"
#include "pyabi/lines.h"

// Larger source files are left out of the profile; the report then reads them from disk.
#define MAX_SOURCE_BYTES (1 << 20)
// Agents number code objects from 1 on; no program has so many. They are told in about that order:
// one far ahead is damage, and would take room for all between.
#define MAX_CODES (1u << 24)
#define MAX_CODES_AHEAD (1u << 20)

static void keep_source(struct fm_recorder *r, struct recorded_process *p, struct fm_str filename)
{
	bool is_new;
	fm_intern_id(&r->sources, filename, &is_new);
	if (!is_new || filename.len == 0 || filename.p[0] == '<' || filename.len > 4000)
		return;
	char path[4096 + 256];
	snprintf(path, sizeof(path), "%.*s", (int)filename.len, filename.p);
	fm_rights_read(p->proc_pid, &p->rights);
	_cleanup_close_ int fd = fm_process_open_as(&p->rights, p->proc_pid, path);
	if (fd < 0 && r->sources_dir && !memchr(filename.p, '/', filename.len)) {
		snprintf(path, sizeof(path), "%s/%.*s", r->sources_dir, (int)filename.len, filename.p);
		fd = fm_process_open_as(&p->rights, p->proc_pid, path);
	}
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size > MAX_SOURCE_BYTES)
		return;
	_cleanup_free_ char *text = fm_alloc((size_t)st.st_size + 1);
	ssize_t n = pread(fd, text, (size_t)st.st_size, 0);
	if (n > 0)
		fm_writer_source(r->writer, filename, (struct fm_str){ text, (uint32_t)n });
}

static struct fm_code_info info_of(const struct fm_wire_code *rec)
{
	const char *at = (const char *)rec->bytes;
	struct fm_code_info code = { .first_line = rec->first_line, .line_table_kind = rec->line_table_kind };
	code.name = (struct fm_str){ at, rec->name_len };
	code.qualname = (struct fm_str){ at + rec->name_len, rec->qualname_len };
	code.filename = (struct fm_str){ at + rec->name_len + rec->qualname_len, rec->filename_len };
	code.line_table = (struct fm_str){ code.filename.p + rec->filename_len, rec->line_table_len };
	if (code.qualname.len == 0)
		code.qualname = code.name; // up to 3.10 the interpreter has no better one
	return code;
}

// Line tables stay here: they say what every instruction's columns are, and are half of a short
// profile.
static uint32_t write_code(struct fm_recorder *r, struct recorded_process *p, const struct fm_code_info *code,
			   bool is_source_kept)
{
	struct fm_code_info written = *code;
	written.line_table_kind = FM_PY_LINES_DIRECT;
	written.line_table = FM_STR_LIT("");
	if (is_source_kept)
		keep_source(r, p, code->filename);
	return fm_writer_code(r->writer, &written);
}

// 0 stands for "at its beginning", as in rings.
static uint32_t line_of(const struct fm_code_info *code, uint32_t place)
{
	return place ? fm_pyabi_line(code->line_table_kind, (const uint8_t *)code->line_table.p, code->line_table.len,
				     code->first_line, place - 1)
		     : 0;
}

static bool has(struct fm_str s, const char *part)
{
	return memmem(s.p, s.len, part, strlen(part)) != NULL;
}

// ".../lib/python3.13/...": the standard library.
static bool is_below_lib(struct fm_str path)
{
	const char *at = memmem(path.p, path.len, "/python3.", 9), *end = path.p + path.len;
	if (!at || at - path.p < 5 || (memcmp(at - 4, "/lib", 4) && memcmp(at - 5, "lib64", 5)))
		return false;
	for (at += 9; at < end && ((*at >= '0' && *at <= '9') || *at == 't'); at++)
		;
	return at < end && *at == '/';
}

// Never true of what a report takes for the user's own code.
static bool is_library(struct fm_str file)
{
	return (file.len > 8 && !memcmp(file.p, "<frozen ", 8)) || has(file, "/site-packages/") ||
	       has(file, "/dist-packages/") || is_below_lib(file);
}

// The text of a library's files is megabytes, and exact mode sees all of them; where a line of one
// is shown, the report reads the file.
static bool keeps_source(const struct fm_recorder *r, bool is_of_library)
{
	return r->shared->header->memory != FM_WIRE_MEMORY_EXACT || !is_of_library;
}

// The writer's id of a code object that was told; it is written when it is first asked for.
static uint32_t recorded_code(struct fm_recorder *r, struct recorded_process *p, uint32_t code)
{
	const struct known_code *known = &p->codes.items[code];
	if (!p->code_ids.items[code]) {
		struct fm_code_info info = info_of(known->rec);
		p->code_ids.items[code] = write_code(r, p, &info, keeps_source(r, known->is_library)) + 1;
	}
	return p->code_ids.items[code] - 1;
}

static void take_code(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_code *rec)
{
	uint64_t room = rec->rec.size < sizeof(*rec) ? 0 : rec->rec.size - sizeof(*rec);
	if (rec->rec.size < sizeof(*rec) ||
	    (uint64_t)rec->name_len + rec->qualname_len + rec->filename_len + rec->line_table_len > room ||
	    rec->id >= MAX_CODES || rec->id >= p->code_ids.n + MAX_CODES_AHEAD) {
		r->totals.n_bad_records++;
		return;
	}
	fm_vec_grow_to(&p->code_ids, (size_t)rec->id + 1);
	struct fm_str file = { (const char *)rec->bytes + rec->name_len + rec->qualname_len, rec->filename_len };
	fm_vec_grow_to(&p->codes, (size_t)rec->id + 1);
	struct known_code *known = &p->codes.items[rec->id];
	free(known->rec);
	known->rec = fm_alloc(rec->rec.size);
	memcpy(known->rec, rec, rec->rec.size);
	known->is_library = is_library(file);
	p->code_ids.items[rec->id] = 0;
	// Exact mode tells every function that ever asked for memory, so all that a program
	// imports: most of it is never shown.
	if (r->shared->header->memory != FM_WIRE_MEMORY_EXACT || p->is_traced)
		recorded_code(r, p, rec->id);
}

void fm_recorded_process_is_traced(struct fm_recorder *r, struct recorded_process *p)
{
	p->is_traced = true;
	for (uint32_t i = 0; i < p->codes.n; i++)
		if (p->codes.items[i].rec)
			recorded_code(r, p, i);
}

uint32_t fm_recorded_python_frame(struct fm_recorder *r, struct recorded_process *p, uint32_t code, uint32_t place)
{
	if (code >= p->codes.n || !p->codes.items[code].rec)
		return 0;
	uint32_t id = recorded_code(r, p, code);
	struct fm_code_info info = info_of(p->codes.items[code].rec);
	return fm_writer_frame(r->writer, FM_FRAME_PYTHON, id, line_of(&info, place));
}

uint32_t fm_recorder_python_frame(struct fm_recorder *r, uint32_t process_idx, const struct fm_code_info *code,
				  uint32_t place)
{
	uint32_t id = write_code(r, &r->processes[process_idx], code, keeps_source(r, is_library(code->filename)));
	return fm_writer_frame(r->writer, FM_FRAME_PYTHON, id, line_of(code, place));
}

// True when the range has the same content: the same path, or the same build by another name of its
// folder.
static bool is_same_image(const struct fm_recorder *r, const struct image_range *have, uint32_t id,
			  struct fm_str build_id)
{
	struct fm_written_image image;
	return have->image_id == id ||
	       (build_id.len && !fm_writer_get_image(r->writer, have->image_id, &image) &&
		image.build_id.len == build_id.len && !memcmp(image.build_id.p, build_id.p, build_id.len));
}

// A file of a container, kept open until its functions are named. -1: it is ours by the same path,
// or cannot be had.
static int open_elsewhere(const struct recorded_process *p, struct fm_str path)
{
	char *text = fm_strdup_n(path.p, path.len);
	int fd = fm_process_open_elsewhere(p->proc_pid, text);
	free(text);
	if (fd < 0 || fm_descriptors_may_keep(fd))
		return fd;
	close(fd);
	return -1;
}

void fm_recorder_image(struct fm_recorder *r, uint32_t process_idx, const struct fm_wire_image *rec, struct fm_str path,
		       struct fm_str build_id)
{
	struct recorded_process *p = &r->processes[process_idx];
	bool has_file = !(rec->flags & (FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_VDSO)) && path.len && path.p[0] == '/';
	int elsewhere_fd = p->is_elsewhere && has_file ? open_elsewhere(p, path) : -1;
	uint32_t id = fm_writer_image(r->writer, path, build_id,
				      rec->flags | (elsewhere_fd >= 0 ? FM_IMAGE_IS_ELSEWHERE : 0));
	if (elsewhere_fd >= 0)
		fm_writer_keep_file(r->writer, id, elsewhere_fd);
	bool is_replacing = false;
	for (size_t i = p->images.n; i-- > 0 && !is_replacing;) {
		const struct image_range *have = &p->images.items[i];
		if (have->start >= rec->end || rec->start >= have->end)
			continue;
		if (have->start == rec->start && have->end == rec->end && is_same_image(r, have, id, build_id))
			return; // told by two threads at once, or again after a dlclose
		is_replacing = true;
	}
	if (is_replacing)
		fm_vec_push(&p->replaced_ns, rec->time_ns);
	fm_vec_push(&p->images, (struct image_range){ rec->start, rec->end, rec->bias, rec->time_ns, id });
	fm_recorded_process_forget_frames(p);
	p->frames_from_ns = p->frames_until_ns = 0;
	fm_writer_mapping(r->writer, p->process_id, id, rec->start, rec->end, rec->bias);
}

static void take_image(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_image *rec)
{
	if (rec->rec.size < sizeof(*rec) ||
	    (uint64_t)rec->path_len + rec->build_id_len > rec->rec.size - sizeof(*rec)) {
		r->totals.n_bad_records++;
		return;
	}
	struct fm_str path = { (const char *)rec->bytes, rec->path_len };
	struct fm_str build_id = { (const char *)rec->bytes + rec->path_len, rec->build_id_len };
	if (rec->flags & FM_IMAGE_IS_VDSO)
		path = FM_STR_LIT("[vdso]");
	fm_recorder_image(r, (uint32_t)(p - r->processes), rec, path, build_id);
	if (!(rec->flags & FM_IMAGE_IS_VDSO))
		fm_rows_publish(r->rows, (uint32_t)(p - r->processes), p->proc_pid, rec, path);
}

static void take_exec_name(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_exec_name *rec)
{
	if (rec->rec.size < sizeof(*rec) || (uint64_t)rec->exe_len + rec->command_len > rec->rec.size - sizeof(*rec)) {
		r->totals.n_bad_records++;
		return;
	}
	p->exe.len = p->command.len = 0;
	uint32_t command_len = rec->command_len;
	while (command_len && rec->bytes[rec->exe_len + command_len - 1] == 0)
		command_len--;
	fm_buf_bytes(&p->exe, rec->bytes, rec->exe_len);
	fm_buf_bytes(&p->command, rec->bytes + rec->exe_len, command_len);
	p->is_named = true;
	(void)r;
}

void fm_ingest_definition(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_record *rec)
{
	if (rec->type == FM_WIRE_CODE)
		take_code(r, p, (const void *)rec);
	else if (rec->type == FM_WIRE_IMAGE)
		take_image(r, p, (const void *)rec);
	else if (rec->type == FM_WIRE_EXEC_NAME)
		take_exec_name(r, p, (const void *)rec);
}
