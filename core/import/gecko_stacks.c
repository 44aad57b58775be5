// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "import/frame_text.h"
#include "import/gecko.h"

static uint32_t line_at(const struct gecko *g, enum gecko_column c, int64_t i)
{
	int64_t line = gecko_index(g, c, i);
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

static struct fm_str file_of(const struct gecko *g, int64_t func)
{
	struct fm_str file = gecko_str(g, gecko_index(g, FUNC_FILE, func));
	return file.len ? file : gecko_str(g, gecko_index(g, SOURCE_FILENAME, gecko_index(g, FUNC_SOURCE, func)));
}

static const struct gecko_lib *lib_of(const struct gecko *g, int64_t frame, int64_t func)
{
	int64_t lib = gecko_index(g, FRAME_LIB, frame);
	if (lib < 0)
		lib = gecko_index(g, RESOURCE_LIB, gecko_index(g, FUNC_RESOURCE, func));
	return lib >= 0 && (uint64_t)lib < g->libs.n ? &g->libs.items[lib] : NULL;
}

static uint32_t make_frame(struct gecko *g, int64_t frame)
{
	struct fm_str location = gecko_str(g, gecko_index(g, FRAME_LOCATION, frame));
	if (location.len) // the raw format
		return fm_frame_of_text(g->in, location);
	int64_t func = gecko_index(g, FRAME_FUNC, frame), address = gecko_index(g, FRAME_ADDRESS, frame);
	struct fm_str name = gecko_str(g, gecko_index(g, FUNC_NAME, func)), file = file_of(g, func);
	uint32_t first_line = line_at(g, FUNC_LINE, func), line = line_at(g, FRAME_LINE, frame);
	const struct gecko_lib *lib = lib_of(g, frame, func);
	if (fm_str_starts_with(name, "0x") && address >= 0 && lib && lib->build_id.len)
		return fm_writer_frame(g->in->w, FM_FRAME_NATIVE,
				       fm_writer_image(g->in->w, lib->path, lib->build_id, 0), (uint64_t)address);
	if (fm_import_is_python_file(file))
		return fm_import_python_frame(g->in, name, file, first_line, line);
	if (!file.len && !lib)
		return fm_frame_of_text(g->in, name);
	struct fm_symbol_link link = { name, file, first_line, line, gecko_index(g, FRAME_INLINE_DEPTH, frame) > 0 };
	return fm_import_native_frames(g->in, lib ? lib->path : (struct fm_str){ "", 0 }, &link, 1);
}

static uint32_t class_of(const struct gecko *g, int64_t category)
{
	uint8_t class =
		category >= 0 && (uint64_t)category < g->categories.n ? g->categories.items[category] : UINT8_MAX;
	return class == UINT8_MAX ? GECKO_NO_CLASS : class;
}

// The caller's stack; -1 = outermost, i = the file is wrong.
static int64_t caller_of(const struct gecko *g, int64_t i)
{
	if (!gecko_column(g, STACK_PREFIX_OFFSET)->n)
		return gecko_index(g, STACK_PREFIX, i);
	int64_t offset = gecko_index(g, STACK_PREFIX_OFFSET, i);
	return offset <= 0 ? -1 : offset <= i ? i - offset : i;
}

// frames: those that were made already. Of many threads each may use few of many that they share.
static bool make_stack(struct gecko *g, struct gecko_tables *t, struct fm_map *frames, size_t n_frames, int64_t i)
{
	int64_t caller = caller_of(g, i), frame = gecko_index(g, STACK_FRAME, i);
	if (caller >= i)
		fm_json_in_fail(&g->j, "a stack is its own caller, or comes before it");
	else if (frame < 0 || (uint64_t)frame >= n_frames)
		fm_json_in_fail(&g->j, "a stack has a frame that the file does not define");
	else if (fm_input_error(g->in->input))
		fm_json_in_fail(&g->j, fm_input_error(g->in->input));
	if (g->j.error)
		return false;
	bool is_new;
	uint64_t *known = fm_map_at(frames, (uint64_t)frame, &is_new);
	if (is_new)
		*known = make_frame(g, frame);
	uint32_t frame_id = (uint32_t)*known;
	uint32_t class = class_of(g, gecko_index(g, FRAME_CATEGORY, frame));
	if (class == GECKO_NO_CLASS)
		class = class_of(g, gecko_index(g, STACK_CATEGORY, i));
	fm_vec_push(&t->leaves, frame_id);
	fm_vec_push(&t->classes, class);
	fm_vec_push(&t->stacks,
		    fm_writer_stack(g->in->w, caller < 0 ? FM_ROOT_STACK : t->stacks.items[caller], frame_id));
	return true;
}

const struct gecko_tables *gecko_stacks(struct gecko *g)
{
	struct gecko_tables *t = g->thread.of[STACK_FRAME].n ? &g->thread : &g->shared;
	struct fm_map frames = { 0 };
	size_t n_stacks = gecko_column(g, STACK_FRAME)->n,
	       n_frames = FM_MAX(gecko_column(g, FRAME_FUNC)->n, gecko_column(g, FRAME_LOCATION)->n);
	if (t->stacks.n == n_stacks)
		return t;
	for (size_t i = 0; i < n_stacks && make_stack(g, t, &frames, n_frames, (int64_t)i); i++)
		continue;
	fm_map_deinit(&frames);
	return g->j.error ? NULL : t;
}
