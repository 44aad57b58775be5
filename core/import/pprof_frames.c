// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "image/unwind_file.h"
#include "import/pprof.h"

#define MAX_LINE 0x7fffffffu

static uint32_t line_number(uint64_t line)
{
	return line <= MAX_LINE ? (uint32_t)line : 0;
}

static const struct pprof_function *function_of(const struct pprof *p, const struct pprof_line *line)
{
	static const struct pprof_function none = { 0 };
	const uint64_t *at = fm_map_find(&p->function_ids, line->function);
	return at ? &p->functions.items[*at] : &none;
}

static struct fm_str name_of(const struct pprof *p, const struct pprof_function *f)
{
	struct fm_str name = pprof_str(p, f->name);
	name = name.len ? name : pprof_str(p, f->system_name);
	return name.len ? name : FM_STR_LIT("?");
}

static struct pprof_mapping *mapping_of(struct pprof *p, const struct pprof_location *location)
{
	const uint64_t *at = fm_map_find(&p->mapping_ids, location->mapping);
	return at && location->mapping ? &p->mappings.items[*at] : NULL;
}

// ---- Addresses without names ----

// Where the file puts what was mapped. Only the file of the same build can tell.
static void look_at_file(struct pprof_mapping *m, const char *path, struct fm_str build_id)
{
	struct fm_unwind_file *file;
	struct fm_unwind_file_info info;
	struct stat st;
	int fd =
		stat(path, &st) || !S_ISREG(st.st_mode) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fm_unwind_file_open(fd, &file)) // which takes the descriptor, whatever comes of it
		return;
	fm_unwind_file_get(file, &info);
	struct fm_str there = { (const char *)info.build_id, info.build_id_len };
	if (build_id.len && fm_str_eq(there, build_id))
		m->has_vaddr = !fm_unwind_file_map(file, m->offset, &m->vaddr);
	fm_unwind_file_close(file);
}

static void look_at(struct pprof *p, struct pprof_mapping *m)
{
	uint8_t bytes[FM_IMPORT_MAX_BUILD_ID];
	struct fm_str path = fm_import_name(p->in, pprof_str(p, m->filename));
	struct fm_str build_id = { (const char *)bytes, fm_import_hex(pprof_str(p, m->build_id), bytes) };
	m->is_looked_at = true;
	if (path.len && path.p[0] == '/' && build_id.len)
		look_at_file(m, path.p, build_id); // the arena ends each string with NUL
	// Without a build id nothing would tell another file from it.
	m->image_id = fm_writer_image(p->in->w, path.len ? path : FM_STR_LIT("[unknown]"), build_id,
				      build_id.len ? 0 : FM_IMAGE_IS_ELSEWHERE);
}

static uint32_t address_frame(struct pprof *p, const struct pprof_location *location)
{
	struct pprof_mapping *m = mapping_of(p, location);
	fm_import_missing(p->in, "names of some native functions", "the file has addresses instead");
	if (!m)
		return fm_writer_frame(p->in->w, FM_FRAME_NATIVE, FM_NO_ID, location->address);
	if (!m->is_looked_at)
		look_at(p, m);
	uint64_t in_file = location->address >= m->start ? location->address - m->start : location->address;
	return fm_writer_frame(p->in->w, FM_FRAME_NATIVE, m->image_id, in_file + (m->has_vaddr ? m->vaddr : m->offset));
}

// ---- Names ----

static void make_python_frames(struct pprof *p, const struct pprof_location *location)
{
	for (uint32_t i = location->n_lines; i-- > 0;) {
		const struct pprof_line *line = &p->lines.items[location->first_line + i];
		const struct pprof_function *f = function_of(p, line);
		fm_vec_push(&p->frames, fm_import_python_frame(p->in, name_of(p, f), pprof_str(p, f->filename),
							       line_number(f->start_line), line_number(line->line)));
	}
}

static void make_native_frame(struct pprof *p, const struct pprof_location *location)
{
	struct fm_symbol_link links[FM_SYMBOL_MAX_LINKS];
	uint32_t n = FM_MIN(location->n_lines, (uint32_t)FM_SYMBOL_MAX_LINKS);
	for (uint32_t i = 0; i < n; i++) { // the outermost is the last
		const struct pprof_line *line = &p->lines.items[location->first_line + location->n_lines - 1 - i];
		const struct pprof_function *f = function_of(p, line);
		links[i] = (struct fm_symbol_link){ name_of(p, f), pprof_str(p, f->filename),
						    line_number(f->start_line), line_number(line->line), i > 0 };
	}
	const struct pprof_mapping *m = mapping_of(p, location);
	fm_vec_push(&p->frames,
		    fm_import_native_frames(p->in, m ? pprof_str(p, m->filename) : FM_STR_LIT(""), links, n));
}

static void make_frames(struct pprof *p, struct pprof_location *location)
{
	location->first_frame = (uint32_t)p->frames.n;
	if (!location->n_lines) {
		fm_vec_push(&p->frames, address_frame(p, location));
	} else {
		const struct pprof_function *f = function_of(p, &p->lines.items[location->first_line]);
		if (fm_import_is_python_file(pprof_str(p, f->filename)))
			make_python_frames(p, location);
		else
			make_native_frame(p, location);
	}
	location->n_frames = (uint32_t)p->frames.n - location->first_frame;
}

const uint32_t *pprof_frames(struct pprof *p, uint64_t location_id, uint32_t *ret_n)
{
	const uint64_t *at = fm_map_find(&p->location_ids, location_id);
	if (!at)
		return NULL;
	struct pprof_location *location = &p->locations.items[*at];
	if (!location->n_frames)
		make_frames(p, location);
	*ret_n = location->n_frames;
	return &p->frames.items[location->first_frame];
}
