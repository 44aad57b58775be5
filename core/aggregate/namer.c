#include "aggregate/namer.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "symbolize/names.h"

#define REST 10u // times what naming took
#define LEAST_REST_NS 1000000000u

// In which table a key's number counts.
enum { FROM_PYTHON = 0, FROM_NATIVE = 1, FROM_LIBRARY = 2 };

struct fm_namer {
	const struct fm_profile *profile;
	struct fm_symbolizer *python, *native; // each for the frames of its kind only
	size_t n_frames, n_codes;              // that `python` knows
	size_t n_native_frames;                // that `native` knows
	uint64_t native_due_ns, native_took_ns;
	FM_VEC(struct fm_function) libraries; // by image id, as far as asked for
};

struct fm_namer *fm_namer_create(const struct fm_profile *profile)
{
	struct fm_namer *n = fm_alloc(sizeof(*n));
	n->profile = profile;
	return n;
}

void fm_namer_destroy(struct fm_namer *n)
{
	if (!n)
		return;
	fm_symbolizer_destroy(n->python);
	fm_symbolizer_destroy(n->native);
	fm_vec_deinit(&n->libraries);
	free(n);
}

void fm_namer_refresh(struct fm_namer *n, uint64_t now_ns)
{
	const struct fm_profile *p = n->profile;
	fm_vec_grow_to(&n->libraries, p->images.n); // now: what points into it must not move later
	if (!n->python || p->frames.n != n->n_frames || p->codes.n != n->n_codes) {
		fm_symbolizer_destroy(n->python);
		n->python = fm_symbolizer_create(p, true);
		n->n_frames = p->frames.n;
		n->n_codes = p->codes.n;
	}
	if (n->native && n->native_took_ns) {
		n->native_due_ns = now_ns + FM_MAX(REST * n->native_took_ns, (uint64_t)LEAST_REST_NS);
		n->native_took_ns = 0;
	}
	if (!n->native || (p->frames.n != n->n_native_frames && now_ns >= n->native_due_ns)) {
		fm_symbolizer_destroy(n->native);
		n->native = fm_symbolizer_create(p, true);
		n->n_native_frames = p->frames.n;
	}
}

static struct fm_named library_of(struct fm_namer *n, uint32_t image_id)
{
	struct fm_function *f = &n->libraries.items[image_id];
	if (!f->name.p) {
		struct fm_str path = n->profile->images.items[image_id].path;
		*f = (struct fm_function){ .kind = FM_FRAME_NATIVE, .path = path, .file_id = FM_NO_ID };
		f->name = f->full_name = f->module = fm_name_base(path);
		f->file = FM_STR_LIT("");
	}
	return (struct fm_named){ (uint64_t)FROM_LIBRARY << 32 | image_id, *f, 0 };
}

struct fm_named fm_namer_frame(struct fm_namer *n, uint32_t frame_id)
{
	const struct fm_profile *p = n->profile;
	const struct fm_frame *frame = frame_id < p->frames.n ? &p->frames.items[frame_id] : NULL;
	bool is_native = frame && frame->kind == FM_FRAME_NATIVE;
	if (is_native && frame_id >= n->n_native_frames && frame->ref < n->libraries.n)
		return library_of(n, frame->ref);
	uint32_t n_places;
	uint64_t from_ns = is_native ? fm_now_ns() : 0;
	struct fm_symbolizer *s = is_native ? n->native : n->python;
	const struct fm_place *place = fm_symbolizer_places(s, frame_id, &n_places);
	if (is_native)
		n->native_took_ns += fm_now_ns() - from_ns;
	return (struct fm_named){ (uint64_t)(is_native ? FROM_NATIVE : FROM_PYTHON) << 32 | place->function_id,
				  *fm_symbolizer_function(s, place->function_id), place->line };
}

struct fm_named fm_namer_code(struct fm_namer *n, uint32_t code_id)
{
	uint32_t id = fm_symbolizer_code(n->python, code_id);
	const struct fm_function *f = fm_symbolizer_function(n->python, id);
	return (struct fm_named){ (uint64_t)FROM_PYTHON << 32 | id, *f, f->line };
}
