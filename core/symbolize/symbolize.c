// SPDX-License-Identifier: Apache-2.0
#include "symbolize/symbolize.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pyabi/lines.h"
#include "symbolize/parts.h"
#include "symbolize/names.h"

// A frame's places: a run of fm_symbolizer.places.
struct run {
	uint32_t first, n; // n = 0: not looked up yet
};

struct pretty {
	struct fm_str symbol;
	struct fm_pretty pretty;
};

struct fm_symbolizer {
	const struct fm_profile *profile;
	struct fm_arena arena;
	struct fm_native *native;
	struct fm_qualnames *qualnames;
	bool fold_inlines;
	struct run *runs; // by frame id
	FM_VEC(struct fm_place) places;
	struct run no_frame;      // of a frame id out of range
	uint32_t *code_functions; // by code id: function id + 1
	struct fm_intern keys;    // what makes two functions the same
	struct fm_intern files;
	struct fm_intern libraries;
	struct fm_map pretty; // hash of a symbol -> index of pretties + 1
	FM_VEC(struct pretty) pretties;
	FM_VEC(struct fm_function) functions; // by key id
};

struct fm_symbolizer *fm_symbolizer_create(const struct fm_profile *profile, bool fold_inlines)
{
	struct fm_symbolizer *s = fm_alloc(sizeof(*s));
	s->profile = profile;
	fm_arena_init(&s->arena);
	s->fold_inlines = fold_inlines;
	s->native = fm_native_create(profile);
	s->qualnames = fm_qualnames_create(profile);
	s->runs = fm_alloc((profile->frames.n + 1) * sizeof(*s->runs));
	s->code_functions = fm_alloc((profile->codes.n + 1) * sizeof(*s->code_functions));
	return s;
}

void fm_symbolizer_destroy(struct fm_symbolizer *s)
{
	if (!s)
		return;
	fm_native_destroy(s->native);
	fm_qualnames_destroy(s->qualnames);
	free(s->runs);
	fm_vec_deinit(&s->places);
	fm_map_deinit(&s->pretty);
	fm_vec_deinit(&s->pretties);
	fm_intern_deinit(&s->libraries);
	free(s->code_functions);
	fm_intern_deinit(&s->keys);
	fm_intern_deinit(&s->files);
	fm_vec_deinit(&s->functions);
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

// The function with these facts, made when new. Its identity is kind, module or file, whole name
// and first line.
static uint32_t function_id(struct fm_symbolizer *s, struct fm_function *f)
{
	if (!f->full_name.p)
		f->full_name = f->name;
	struct fm_buf key = { 0 };
	fm_buf_u8(&key, f->kind);
	fm_buf_u32(&key, f->line);
	fm_buf_bytes(&key, f->path.p, f->path.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, f->file.p, f->file.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, f->full_name.p, f->full_name.len);
	bool is_new;
	uint32_t id = fm_intern_id(&s->keys, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	if (is_new) {
		fm_vec_push(&s->functions, *f);
		s->functions.items[id].file_id = fm_intern_id(&s->files, f->file, NULL);
		s->functions.items[id].library_id = f->kind == FM_FRAME_NATIVE && !f->is_workers
							    ? fm_intern_id(&s->libraries, f->path, NULL)
							    : FM_NO_ID;
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
	return (struct fm_place){ .function_id = function_id(s, &f) };
}

static struct fm_place workers_place(struct fm_symbolizer *s)
{
	struct fm_function f = {
		.kind = FM_FRAME_NATIVE, .is_known = true, .is_workers = true, .name = FM_STR_LIT("[worker threads]")
	};
	return (struct fm_place){ .function_id = function_id(s, &f) };
}

uint32_t fm_symbolizer_code(struct fm_symbolizer *s, uint32_t code_id)
{
	const struct fm_code_info *code = &s->profile->codes.items[code_id];
	uint32_t *known = &s->code_functions[code_id];
	if (!*known) {
		struct fm_function f = {
			.kind = FM_FRAME_PYTHON,
			.is_known = true,
			.is_library = fm_name_is_library(code->filename),
			.is_ours = fm_name_is_ours(code->filename),
			.name = fm_qualnames_of(s->qualnames, code),
			.file = code->filename,
			.module = fm_name_module(&s->arena, code->filename),
			.line = code->first_line,
		};
		*known = function_id(s, &f) + 1;
	}
	return *known - 1;
}

uint32_t fm_symbolizer_ours(struct fm_symbolizer *s)
{
	struct fm_function f = { .kind = FM_FRAME_PYTHON,
				 .is_known = true,
				 .is_library = true,
				 .is_ours = true,
				 .name = FM_STR_LIT("[fathom]"),
				 .file = FM_STR_LIT(""),
				 .module = FM_STR_LIT("fathom") };
	return function_id(s, &f);
}

static struct fm_place python_place(struct fm_symbolizer *s, const struct fm_frame *frame)
{
	if (frame->ref >= s->profile->codes.n) {
		struct fm_function f = { .kind = FM_FRAME_PYTHON, .name = FM_STR_LIT("[unknown Python function]") };
		return (struct fm_place){ .function_id = function_id(s, &f) };
	}
	const struct fm_code_info *code = &s->profile->codes.items[frame->ref];
	uint32_t line = code->first_line; // not started yet: it stands at its def
	if (frame->value) {
		uint64_t off = FM_MIN(frame->value - 1, (uint64_t)UINT32_MAX);
		line = fm_pyabi_line(code->line_table_kind, (const uint8_t *)code->line_table.p, code->line_table.len,
				     code->first_line, (uint32_t)off);
	}
	return (struct fm_place){ .function_id = fm_symbolizer_code(s, frame->ref),
				  .line = line ? line : code->first_line };
}

// Thousands of addresses share a few hundred symbols, and demangling a template may cost a
// millisecond.
static struct fm_pretty pretty_name(struct fm_symbolizer *s, struct fm_str symbol)
{
	bool is_new;
	uint64_t hash = fm_hash_bytes(symbol.p, symbol.len), *idx;
	for (;; hash++) {
		idx = fm_map_at(&s->pretty, hash, &is_new);
		if (is_new || fm_str_eq(s->pretties.items[*idx].symbol, symbol))
			break;
	}
	if (is_new) {
		*idx = s->pretties.n;
		fm_vec_push(&s->pretties, (struct pretty){ symbol, fm_demangle(&s->arena, symbol) });
	}
	return s->pretties.items[*idx].pretty;
}

// A system call, by the number that the capture took down.
static struct fm_place kernel_place(struct fm_symbolizer *s, const struct fm_image *image, uint64_t number)
{
	const char *name = fm_x86_syscall_name(number);
	struct fm_function f = {
		.kind = FM_FRAME_NATIVE,
		.is_known = name != NULL,
		.name = name ? fm_str_of(name) : format(s, "system call %" PRIu64, number),
		.module = image->path,
		.path = image->path,
	};
	f.full_name = f.name;
	return (struct fm_place){ .function_id = function_id(s, &f) };
}

// "libz.so.1+0x4970 (near deflate?)": one for each function, as far as unwind tables tell where it
// begins.
static struct fm_str address_name(struct fm_symbolizer *s, struct fm_str module, uint64_t start, struct fm_str guess)
{
	if (!guess.len)
		return format(s, "0x%" PRIx64, start);
	struct fm_str name = pretty_name(s, guess).name;
	return format(s, "%.*s+0x%" PRIx64 " (near %.*s?)", (int)FM_MIN(module.len, 200u), module.p, start,
		      (int)FM_MIN(name.len, 200u), name.p);
}

static void add_native(struct fm_symbolizer *s, const struct fm_frame *frame)
{
	struct fm_function library = { .kind = FM_FRAME_NATIVE };
	const struct fm_chains *chains = NULL;
	const struct fm_chain *chain = NULL;
	const struct fm_str none = FM_STR_LIT("");
	bool is_jit = false;
	if (frame->ref < s->profile->images.n && (s->profile->images.items[frame->ref].flags & FM_IMAGE_IS_KERNEL)) {
		fm_vec_push(&s->places, kernel_place(s, &s->profile->images.items[frame->ref], frame->value));
		return;
	}
	if (frame->ref < s->profile->images.n) {
		const struct fm_image *image = &s->profile->images.items[frame->ref];
		is_jit = image->flags & FM_IMAGE_IS_JIT;
		library.path =
			is_jit ? FM_STR_LIT("[jit]") : image->path; // equal functions of several processes are one
		library.module = fm_name_base(library.path);
		library.is_plumbing = image->flags & FM_IMAGE_IS_PYTHON;
		chains = fm_native_chains(s->native, frame->ref);
		chain = fm_chains_find(chains, frame->value);
	}
	// A function without a name stands for itself by its start; where not even that is known,
	// the address does.
	uint64_t start = chain && chain->start ? chain->start : frame->value;
	uint32_t n = chain ? chain->n : 0;
	for (uint32_t k = 0; k < FM_MAX(s->fold_inlines ? FM_MIN(n, 1u) : n, 1u); k++) {
		struct fm_function f = library;
		struct fm_place place = { 0 };
		struct fm_str symbol = FM_STR_LIT("");
		if (k < n) {
			const struct fm_link *link = &chains->links.items[chain->first_link + k];
			symbol = fm_chains_str(chains, link->name);
			f.file = fm_chains_str(chains, link->file);
			f.line = link->first_line;
			place.line = link->line;
			place.is_inlined = link->is_inlined;
		}
		// CPython's perf trampolines (-X perf) carry the name of the Python function, whose
		// own frame is there already.
		if (is_jit && symbol.len > 4 && !memcmp(symbol.p, "py::", 4))
			f.is_plumbing = true;
		if (symbol.len) {
			struct fm_pretty pretty = pretty_name(s, symbol);
			f.name = is_jit ? fm_name_without_tags(&s->arena, pretty.name) : pretty.name;
			f.full_name = pretty.full;
			f.is_known = true;
		} else {
			f.name = address_name(s, library.module, start,
					      chain ? fm_chains_str(chains, chain->guess) : none);
		}
		place.function_id = function_id(s, &f);
		fm_vec_push(&s->places, place);
	}
}

const struct fm_place *fm_symbolizer_places(struct fm_symbolizer *s, uint32_t frame_id, uint32_t *ret_n)
{
	struct run *run = frame_id < s->profile->frames.n ? &s->runs[frame_id] : &s->no_frame;
	if (!run->n) {
		const struct fm_frame lost = { FM_FRAME_ERROR, 0, FM_STACK_LOST };
		const struct fm_frame *frame =
			frame_id < s->profile->frames.n ? &s->profile->frames.items[frame_id] : &lost;
		run->first = (uint32_t)s->places.n;
		if (frame->kind == FM_FRAME_NATIVE)
			add_native(s, frame);
		else
			fm_vec_push(&s->places, frame->kind == FM_FRAME_PYTHON    ? python_place(s, frame)
						: frame->kind == FM_FRAME_WORKERS ? workers_place(s)
										  : error_place(s, frame->value));
		run->n = (uint32_t)(s->places.n - run->first);
	}
	*ret_n = run->n;
	return &s->places.items[run->first];
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
	return fm_native_coverage(s->native, ret_n);
}

uint32_t fm_symbolizer_n_libraries(const struct fm_symbolizer *s)
{
	return (uint32_t)s->libraries.strings.n;
}

struct fm_str fm_symbolizer_library(const struct fm_symbolizer *s, uint32_t library_id)
{
	return fm_intern_get(&s->libraries, library_id);
}

struct fm_str fm_symbolizer_remedy(const struct fm_symbolizer *s, uint32_t library_id, struct fm_arena *arena)
{
	struct fm_str path = fm_symbolizer_library(s, library_id);
	const char *known = fm_native_remedy(s->native, path);
	return known ? fm_str_of(known) : fm_remedy(arena, path);
}
