// SPDX-License-Identifier: Apache-2.0
#include "aggregate/live/now.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "symbolize/names.h"

#define REST 10u // times what looking took
#define LEAST_REST_NS 1000000000u

// In which table a key's number counts.
enum { FROM_SYMBOLIZER = 0, FROM_CODES = 1, FROM_LIBRARIES = 2 };

struct fm_namer {
	const struct fm_profile *profile;
	struct fm_symbolizer *symbolizer;
	size_t n_frames; // that it knows
	uint64_t due_ns, took_ns;
	struct fm_arena arena;
	struct fm_qualnames *qualnames;
	FM_VEC(struct fm_function) codes, libraries; // by code and by image id, as far as asked for
};

struct fm_namer *fm_namer_create(const struct fm_profile *profile)
{
	struct fm_namer *n = fm_alloc(sizeof(*n));
	n->profile = profile;
	fm_arena_init(&n->arena);
	n->qualnames = fm_qualnames_create(profile);
	return n;
}

void fm_namer_destroy(struct fm_namer *n)
{
	if (!n)
		return;
	fm_symbolizer_destroy(n->symbolizer);
	fm_qualnames_destroy(n->qualnames);
	fm_vec_deinit(&n->codes);
	fm_vec_deinit(&n->libraries);
	fm_arena_deinit(&n->arena);
	free(n);
}

void fm_namer_refresh(struct fm_namer *n, uint64_t now_ns)
{
	const struct fm_profile *p = n->profile;
	fm_vec_grow_to(&n->codes, p->codes.n);
	fm_vec_grow_to(&n->libraries, p->images.n);
	if (n->took_ns)
		n->due_ns = now_ns + FM_MAX(REST * n->took_ns, (uint64_t)LEAST_REST_NS);
	n->took_ns = 0;
	if (n->symbolizer && (p->frames.n == n->n_frames || now_ns < n->due_ns))
		return;
	fm_symbolizer_destroy(n->symbolizer);
	n->symbolizer = fm_symbolizer_create(p, true);
	n->n_frames = p->frames.n;
	n->took_ns = fm_now_ns() - now_ns;
}

static struct fm_named library_of(struct fm_namer *n, uint32_t image_id)
{
	struct fm_function *f = &n->libraries.items[image_id];
	if (!f->name.p) {
		struct fm_str path = n->profile->images.items[image_id].path;
		*f = (struct fm_function){ .kind = FM_FRAME_NATIVE, .path = path, .file = FM_STR_LIT("") };
		f->name = f->full_name = f->module = fm_name_base(path);
	}
	return (struct fm_named){ (uint64_t)FROM_LIBRARIES << 32 | image_id, *f, 0 };
}

struct fm_named fm_namer_code(struct fm_namer *n, uint32_t code_id)
{
	struct fm_function *f = &n->codes.items[code_id];
	if (!f->name.p) {
		const struct fm_code_info *code = &n->profile->codes.items[code_id];
		*f = (struct fm_function){ .kind = FM_FRAME_PYTHON,
					   .is_known = true,
					   .is_library = fm_name_is_library(code->filename),
					   .is_ours = fm_name_is_ours(code->filename),
					   .name = fm_qualnames_of(n->qualnames, code),
					   .file = code->filename,
					   .module = fm_name_module(&n->arena, code->filename),
					   .line = code->first_line };
	}
	return (struct fm_named){ (uint64_t)FROM_CODES << 32 | code_id, *f, f->line };
}

struct fm_named fm_namer_frame(struct fm_namer *n, uint32_t frame_id)
{
	const struct fm_profile *p = n->profile;
	const struct fm_frame *frame = frame_id < p->frames.n ? &p->frames.items[frame_id] : NULL;
	bool is_python = frame && frame->kind == FM_FRAME_PYTHON && frame->ref < p->codes.n;
	struct fm_named named = { 0 };
	if (is_python)
		named = fm_namer_code(n, frame->ref);
	if (frame_id >= n->n_frames) {
		if (is_python)
			return named;
		if (frame && frame->kind == FM_FRAME_NATIVE && frame->ref < p->images.n)
			return library_of(n, frame->ref);
		frame_id = UINT32_MAX; // of which the symbolizer says that it is lost
	}
	uint32_t n_places;
	uint64_t from_ns = fm_now_ns();
	const struct fm_place *place = fm_symbolizer_places(n->symbolizer, frame_id, &n_places);
	n->took_ns += fm_now_ns() - from_ns;
	if (!is_python) {
		named.key = (uint64_t)FROM_SYMBOLIZER << 32 | place->function_id;
		named.function = *fm_symbolizer_function(n->symbolizer, place->function_id);
	}
	named.line = place->line;
	return named;
}
