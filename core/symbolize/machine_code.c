// SPDX-License-Identifier: Apache-2.0
#include "symbolize/machine_code.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/clock.h"
#include "image/disassemble.h"
#include "image/lines.h"
#include "image/object.h"
#include "image/symbols.h"
#include "image/unwind_file.h"
#include "symbolize/child.h"
#include "symbolize/parts.h"

#define SECONDS 20               // for one image
#define SOURCE_BYTES (16u << 20) // of one file: nobody writes longer ones by hand
#define LINE_BYTES 300u          // of a source line that is shown
#define BEYOND_BYTES 128u        // behind the last sample of a function whose end is not known

struct request {
	const char *path;
	struct fm_str build_id;
	const uint64_t *addrs;
	size_t n;
};

struct row {
	uint64_t addr;
	char *text;
	char *inlined, *file, *source; // NULL = ""
	uint32_t line;
};

struct listed {
	uint64_t start, end;
	FM_VEC(struct row) rows;
};

static bool is_same_function(struct fm_symbols *symbols, uint64_t addr, uint64_t start)
{
	uint64_t own;
	struct fm_symbol symbol;
	return fm_symbols_find(symbols, addr, &symbol) && !fm_symbols_function_start(symbols, addr, &own) &&
	       own == start;
}

// Where the function that holds the first address lies. Without a symbol unwind tables tell its
// begin, and the next one's.
static bool find_function(struct fm_symbols *symbols, const uint64_t *addrs, size_t n, uint64_t *ret_start,
			  uint64_t *ret_end)
{
	struct fm_symbol symbol;
	if (!fm_symbols_find(symbols, addrs[0], &symbol) && symbol.size) {
		*ret_start = symbol.addr;
		*ret_end = symbol.addr + symbol.size;
	} else if (!fm_symbols_function_start(symbols, addrs[0], ret_start) && *ret_start <= addrs[0]) {
		uint64_t last = addrs[0];
		for (size_t i = 1; i < n && is_same_function(symbols, addrs[i], *ret_start); i++)
			last = addrs[i];
		*ret_end = last + 1;
		while (*ret_end < last + BEYOND_BYTES && is_same_function(symbols, *ret_end, *ret_start))
			(*ret_end)++;
	} else {
		return false;
	}
	return *ret_end > addrs[0] && *ret_end - *ret_start <= FM_LISTING_BYTES;
}

static void take_instruction(void *ctx, uint64_t addr, unsigned size, const char *mnemonic, const char *operands)
{
	struct listed *l = ctx;
	struct fm_buf text = { 0 };
	fm_buf_printf(&text, "%s%s%s", mnemonic, *operands ? " " : "", operands);
	fm_vec_push(&l->rows, (struct row){ .addr = addr, .text = fm_strdup_n((char *)text.data, text.len) });
	fm_buf_deinit(&text);
}

static void take_line(void *ctx, size_t i, const struct fm_line_frame *frames, size_t n)
{
	struct row *row = &((struct listed *)ctx)->rows.items[i];
	const struct fm_line_frame *inner = &frames[n - 1];
	row->line = inner->line;
	if (inner->file)
		row->file = fm_strdup_n(inner->file, strlen(inner->file));
	if (inner->is_inlined && inner->name)
		row->inlined = fm_strdup_n(inner->name, strlen(inner->name));
}

// What a library says that it was made of ends up in a page that people share. A library can name any file, so it has
// to be called as sources are, and be one that whoever owns the library could read.
static bool is_source(const char *path)
{
	static const char *const ends[] = { ".c",   ".h",   ".cc",  ".cpp", ".cxx", ".c++", ".C",  ".hh",  ".hpp",
					    ".hxx", ".inl", ".tcc", ".rs",  ".pyx", ".pxd", ".go", ".zig", ".f",
					    ".f90", ".s",   ".S",   ".asm", ".cu",  ".d",   ".m",  ".mm",  ".swift" };
	const char *end = strrchr(path, '.');
	for (size_t i = 0; path[0] == '/' && end && i < FM_ARRAY_LEN(ends); i++)
		if (!strcmp(end, ends[i]))
			return true;
	return false;
}

static bool is_readable_by(const struct stat *st, uid_t owner)
{
	return st->st_mode & S_IROTH || (st->st_uid == owner && st->st_mode & S_IRUSR);
}

// A whole source file; empty when it is not there, no plain file, not to be shown, or absurdly long.
static void read_file(const char *path, uid_t owner, struct fm_buf *ret)
{
	int fd = is_source(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY) : -1;
	struct stat st;
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && is_readable_by(&st, owner) && st.st_size > 0 &&
	    st.st_size <= SOURCE_BYTES) {
		fm_buf_reserve(ret, (size_t)st.st_size);
		ssize_t n;
		while (ret->len < (size_t)st.st_size &&
		       (n = read(fd, ret->data + ret->len, (size_t)st.st_size - ret->len)) > 0)
			ret->len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
}

// Without what it is indented by; tabs inside are blanks.
static char *one_line(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	char *text = fm_strdup_n(p, FM_MIN((size_t)(end - p), (size_t)LINE_BYTES));
	for (char *c = text; *c; c++)
		if (*c == '\t' || *c == '\r')
			*c = ' ';
	return text;
}

static char *line_of(const struct fm_buf *text, uint32_t line)
{
	const char *p = (const char *)text->data, *end = p + text->len;
	for (uint32_t at = 1; p < end; at++) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		if (at == line)
			return one_line(p, newline ? newline : end);
		if (!newline)
			break;
		p = newline + 1;
	}
	return NULL;
}

// Instructions of one line come in several runs: a file is read once for each run of it.
static void add_source(struct listed *l, uid_t owner)
{
	struct fm_buf text = { 0 };
	const char *file = "";
	for (size_t i = 0; i < l->rows.n; i++) {
		struct row *row = &l->rows.items[i];
		if (!row->file || !row->line)
			continue;
		if (strcmp(file, row->file) != 0) {
			text.len = 0;
			read_file(row->file, owner, &text);
			file = row->file;
		}
		const struct row *before = i ? row - 1 : NULL;
		if (before && before->file && before->line == row->line && !strcmp(before->file, row->file))
			row->source = before->source ? fm_strdup_n(before->source, strlen(before->source)) : NULL;
		else
			row->source = line_of(&text, row->line);
	}
	fm_buf_deinit(&text);
}

static void pack_str(struct fm_buf *out, const char *s)
{
	size_t n = s ? strlen(s) : 0;
	fm_buf_varint(out, n);
	fm_buf_bytes(out, s ? s : "", n);
}

static void pack(struct fm_buf *out, struct listed *l)
{
	fm_buf_varint(out, l->start);
	fm_buf_varint(out, l->end);
	fm_buf_varint(out, l->rows.n);
	for (size_t i = 0; i < l->rows.n; i++) {
		struct row *row = &l->rows.items[i];
		fm_buf_varint(out, row->addr);
		fm_buf_varint(out, row->line);
		char *const texts[] = { row->text, row->inlined, row->file, row->source };
		for (size_t k = 0; k < FM_ARRAY_LEN(texts); k++) {
			pack_str(out, texts[k]);
			free(texts[k]);
		}
	}
	fm_vec_deinit(&l->rows);
}

static void list_function(const struct fm_unwind_file *file, struct fm_lines *lines, uid_t owner, uint64_t start,
			  uint64_t end, struct fm_buf *out)
{
	struct listed l = { .start = start, .end = end };
	uint8_t *code = fm_alloc(end - start);
	if (fm_unwind_file_read(file, start, code, end - start) &&
	    !fm_disassemble(code, end - start, start, take_instruction, &l)) {
		uint64_t *addrs = fm_alloc((l.rows.n + 1) * sizeof(*addrs));
		for (size_t i = 0; i < l.rows.n; i++)
			addrs[i] = l.rows.items[i].addr;
		if (lines)
			fm_lines_resolve(lines, addrs, l.rows.n, take_line, &l);
		free(addrs);
		add_source(&l, owner);
		pack(out, &l);
	}
	free(code);
}

// 1, or 0 when there is no disassembler; then each function.
static void list_all(const void *ctx, struct fm_buf *out)
{
	const struct request *r = ctx;
	struct fm_object_request wanted = { r->path, r->build_id, false, true, false };
	struct fm_object *object;
	bool has_library = fm_disassembler_is_there();
	fm_buf_u8(out, has_library);
	if (!has_library || fm_object_open(&wanted, &object, NULL))
		return;
	struct fm_symbols *symbols = fm_symbols_create(object);
	struct fm_lines *lines = NULL;
	struct fm_unwind_file *file = NULL;
	int fd = object->state == FM_OBJECT_PRESENT ? open(r->path, O_RDONLY | O_CLOEXEC) : -1;
	if (fm_lines_open(object, &lines))
		lines = NULL;
	struct stat st;
	if (fd >= 0 && !fstat(fd, &st) && !fm_unwind_file_open(fd, &file)) {
		uint64_t start, end = 0;
		for (size_t i = 0; i < r->n; i++)
			if (r->addrs[i] >= end && find_function(symbols, r->addrs + i, r->n - i, &start, &end))
				list_function(file, lines, st.st_uid, start, end, out);
	}
	fm_unwind_file_close(file);
	fm_lines_close(lines);
	fm_symbols_close(symbols);
	fm_object_close(object);
}

static struct fm_str unpack_str(struct fm_machine_code *m, struct fm_cursor *in)
{
	struct fm_str s = fm_cursor_str(in);
	return (struct fm_str){ fm_arena_strdup(&m->arena, s.p, s.len), s.len };
}

static void unpack(struct fm_machine_code *m, uint32_t image_id, struct fm_cursor *in)
{
	m->lacks_library = !fm_cursor_u8(in) && !in->err;
	while (!in->err && fm_cursor_left(in)) {
		struct fm_listing l = { .image_id = image_id, .first = m->items.n };
		l.start = fm_cursor_varint(in);
		l.end = fm_cursor_varint(in);
		uint64_t n = fm_cursor_varint(in);
		for (uint64_t i = 0; i < n && !in->err; i++) {
			struct fm_instruction row = { .addr = fm_cursor_varint(in) };
			row.line = (uint32_t)fm_cursor_varint(in);
			row.text = unpack_str(m, in);
			struct fm_str inlined = unpack_str(m, in);
			row.inlined = inlined.len ? fm_demangle(&m->arena, inlined).name : inlined;
			row.file = unpack_str(m, in);
			row.source = unpack_str(m, in);
			fm_vec_push(&m->items, row);
		}
		l.n = m->items.n - l.first;
		if (in->err) // the child died over this one
			m->items.n = l.first;
		else
			fm_vec_push(&m->listings, l);
	}
}

void fm_machine_code_add(struct fm_machine_code *m, const struct fm_profile *profile, uint32_t image_id,
			 const uint64_t *addrs, size_t n)
{
	const struct fm_image *image = &profile->images.items[image_id];
	if (image->flags & (FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_NAMED | FM_IMAGE_IS_VDSO) ||
	    (image->flags & FM_IMAGE_IS_ELSEWHERE && !image->build_id.len))
		return;
	struct request request = { fm_arena_strdup(&m->arena, image->path.p, image->path.len), image->build_id, addrs,
				   n };
	struct fm_buf packed = { 0 };
	fm_child_run(list_all, &request, fm_now_ns() + (uint64_t)SECONDS * 1000000000u, &packed);
	struct fm_cursor in = fm_cursor_over(packed.data ? packed.data : (uint8_t *)"", packed.len);
	if (packed.len)
		unpack(m, image_id, &in);
	fm_buf_deinit(&packed);
}

void fm_machine_code_deinit(struct fm_machine_code *m)
{
	fm_vec_deinit(&m->listings);
	fm_vec_deinit(&m->items);
	fm_arena_deinit(&m->arena);
}
