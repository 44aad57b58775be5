#include "symbolize/symbolize.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "image/symbols.h"
#include "pyabi/lines.h"
#include "symbolize/names.h"
#include "symbolize/syscalls.h"

struct image {
	bool is_opened;
	struct fm_symbols *symbols; // NULL: its file is gone, changed or unreadable
};

struct place {
	uint32_t function_id_plus_1, line; // 0 = not looked up yet
};

struct fm_symbolizer {
	const struct fm_profile *profile;
	struct fm_arena arena;
	struct image *images;
	struct place *places;     // by frame id
	uint32_t *code_functions; // by code id: function id + 1
	struct fm_intern keys;    // what makes two functions the same
	struct fm_intern files;
	FM_VEC(struct fm_function) functions; // by key id
	FM_VEC(struct fm_coverage) coverage;
};

struct fm_symbolizer *fm_symbolizer_create(const struct fm_profile *profile)
{
	struct fm_symbolizer *s = fm_alloc(sizeof(*s));
	s->profile = profile;
	fm_arena_init(&s->arena);
	s->images = fm_alloc((profile->images.n + 1) * sizeof(*s->images));
	s->places = fm_alloc((profile->frames.n + 1) * sizeof(*s->places));
	s->code_functions = fm_alloc((profile->codes.n + 1) * sizeof(*s->code_functions));
	return s;
}

void fm_symbolizer_destroy(struct fm_symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->profile->images.n; i++)
		fm_symbols_close(s->images[i].symbols);
	free(s->images);
	free(s->places);
	free(s->code_functions);
	fm_intern_deinit(&s->keys);
	fm_intern_deinit(&s->files);
	fm_vec_deinit(&s->functions);
	fm_vec_deinit(&s->coverage);
	fm_arena_deinit(&s->arena);
	free(s);
}

static struct fm_str format(struct fm_symbolizer *s, const char *fmt, ...) FM_PRINTF(2, 3);
static struct fm_str format(struct fm_symbolizer *s, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return fm_str_of(fm_arena_strdup(&s->arena, text, strlen(text)));
}

// The function with these facts, made when new. Its identity is kind, module or file, name and first line.
static uint32_t function_id(struct fm_symbolizer *s, const struct fm_function *f)
{
	struct fm_buf key = { 0 };
	fm_buf_u8(&key, f->kind);
	fm_buf_u32(&key, f->line);
	fm_buf_bytes(&key, f->path.p, f->path.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, f->file.p, f->file.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, f->name.p, f->name.len);
	bool is_new;
	uint32_t id = fm_intern_id(&s->keys, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	if (is_new) {
		fm_vec_push(&s->functions, *f);
		s->functions.items[id].file_id = fm_intern_id(&s->files, f->file, NULL);
	}
	fm_buf_deinit(&key);
	return id;
}

static struct fm_place error_place(struct fm_symbolizer *s, uint64_t code)
{
	static const struct {
		uint64_t number;
		const char *text;
	} errors[] = {
#define X(name, number, text) { number, "[" text "]" },
		FM_STACK_ERRORS(X)
#undef X
	};
	struct fm_function f = { .kind = FM_FRAME_ERROR, .is_known = true };
	for (size_t i = 0; i < FM_ARRAY_LEN(errors); i++)
		if (errors[i].number == code)
			f.name = fm_str_of(errors[i].text);
	if (!f.name.p)
		f.name = format(s, "[unwind error %" PRIu64 "]", code);
	return (struct fm_place){ function_id(s, &f), 0 };
}

static struct fm_place python_place(struct fm_symbolizer *s, const struct fm_frame *frame)
{
	if (frame->ref >= s->profile->codes.n) {
		struct fm_function f = { .kind = FM_FRAME_PYTHON, .name = FM_STR_LIT("[unknown Python function]") };
		return (struct fm_place){ function_id(s, &f), 0 };
	}
	const struct fm_code_info *code = &s->profile->codes.items[frame->ref];
	uint32_t *known = &s->code_functions[frame->ref];
	if (!*known) {
		struct fm_function f = {
			.kind = FM_FRAME_PYTHON,
			.is_known = true,
			.is_library = fm_name_is_library(code->filename),
			.name = code->qualname.len ? code->qualname : code->name,
			.file = code->filename,
			.module = fm_name_module(&s->arena, code->filename),
			.line = code->first_line,
		};
		if (!f.name.len)
			f.name = FM_STR_LIT("[unnamed]");
		*known = function_id(s, &f) + 1;
	}
	uint32_t line = code->first_line; // not started yet: it stands at its def
	if (frame->value) {
		uint64_t off = FM_MIN(frame->value - 1, (uint64_t)UINT32_MAX);
		line = fm_pyabi_line(code->line_table_kind, (const uint8_t *)code->line_table.p, code->line_table.len,
				     code->first_line, (uint32_t)off);
	}
	return (struct fm_place){ *known - 1, line ? line : code->first_line };
}

static void cover(struct fm_symbolizer *s, struct fm_str path, const char *why)
{
	struct fm_str what = format(s, "names of native functions in %.*s", (int)FM_MIN(path.len, 400u), path.p);
	fm_vec_push(&s->coverage, (struct fm_coverage){ what, fm_str_of(why) });
}

static struct fm_symbols *open_image(struct fm_symbolizer *s, uint32_t image_id)
{
	struct image *image = &s->images[image_id];
	if (image->is_opened)
		return image->symbols;
	image->is_opened = true;
	const struct fm_image *info = &s->profile->images.items[image_id];
	enum fm_err err;
	if (info->flags & FM_IMAGE_IS_VDSO) {
		err = fm_symbols_open_vdso(&image->symbols, NULL);
	} else {
		char *path = fm_arena_strdup(&s->arena, info->path.p, info->path.len);
		err = fm_symbols_open(path, &image->symbols, NULL);
	}
	if (err) {
		cover(s, info->path,
		      err == FM_E_NOT_FOUND ? "the file is gone or unreadable; report on the machine that was profiled"
					    : "the file is damaged or no ELF file; restore it and report again");
		return NULL;
	}
	if (info->build_id.len && !fm_str_eq(info->build_id, fm_symbols_build_id(image->symbols))) {
		fm_symbols_close(image->symbols);
		image->symbols = NULL;
		cover(s, info->path,
		      info->flags & FM_IMAGE_IS_VDSO
			      ? "another kernel runs now; report under the kernel that was profiled"
			      : "the file was replaced since the capture (its build id differs); restore that build "
				"and report again");
		return NULL;
	}
	if (!fm_symbols_count(image->symbols))
		cover(s, info->path,
		      "the file holds no function symbols; install its debug symbols or an unstripped build");
	return image->symbols;
}

// A system call, by the number that the capture took down.
static struct fm_place kernel_place(struct fm_symbolizer *s, const struct fm_image *image, uint64_t number)
{
	const char *name = fm_syscall_name(number);
	struct fm_function f = {
		.kind = FM_FRAME_NATIVE,
		.is_known = name != NULL,
		.name = name ? fm_str_of(name) : format(s, "system call %" PRIu64, number),
		.module = image->path,
		.path = image->path,
	};
	return (struct fm_place){ function_id(s, &f), 0 };
}

static struct fm_place native_place(struct fm_symbolizer *s, const struct fm_frame *frame)
{
	struct fm_function f = { .kind = FM_FRAME_NATIVE };
	uint64_t addr = frame->value;
	if (frame->ref < s->profile->images.n && (s->profile->images.items[frame->ref].flags & FM_IMAGE_IS_KERNEL))
		return kernel_place(s, &s->profile->images.items[frame->ref], addr);
	if (frame->ref < s->profile->images.n) {
		const struct fm_image *image = &s->profile->images.items[frame->ref];
		f.path = image->path;
		f.module = fm_name_base(image->path);
		f.is_plumbing = image->flags & FM_IMAGE_IS_PYTHON;
		struct fm_symbols *symbols = open_image(s, frame->ref);
		struct fm_symbol symbol;
		if (symbols && !fm_symbols_find(symbols, addr, &symbol)) {
			f.name = fm_name_demangle(&s->arena, symbol.name);
			f.is_known = true;
		} else if (symbols && fm_symbols_function_start(symbols, addr, &addr)) {
			addr = frame->value; // not even its borders are known: it stands for itself
		}
	}
	if (!f.is_known)
		f.name = format(s, "0x%" PRIx64, addr);
	return (struct fm_place){ function_id(s, &f), 0 };
}

struct fm_place fm_symbolizer_place(struct fm_symbolizer *s, uint32_t frame_id)
{
	if (frame_id >= s->profile->frames.n)
		return error_place(s, 0);
	struct place *cached = &s->places[frame_id];
	if (cached->function_id_plus_1)
		return (struct fm_place){ cached->function_id_plus_1 - 1, cached->line };
	const struct fm_frame *frame = &s->profile->frames.items[frame_id];
	struct fm_place place;
	if (frame->kind == FM_FRAME_PYTHON)
		place = python_place(s, frame);
	else if (frame->kind == FM_FRAME_NATIVE)
		place = native_place(s, frame);
	else
		place = error_place(s, frame->value);
	*cached = (struct place){ place.function_id + 1, place.line };
	return place;
}

const struct fm_function *fm_symbolizer_function(const struct fm_symbolizer *s, uint32_t id)
{
	return &s->functions.items[id];
}

uint32_t fm_symbolizer_n_functions(const struct fm_symbolizer *s)
{
	return (uint32_t)s->functions.n;
}

const struct fm_coverage *fm_symbolizer_coverage(const struct fm_symbolizer *s, size_t *ret_n)
{
	*ret_n = s->coverage.n;
	return s->coverage.items;
}
