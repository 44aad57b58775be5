// SPDX-License-Identifier: Apache-2.0
#include "import/perf_frames.h"

#include <string.h>

#include "import/frame_text.h"

bool fm_perf_python_frame(struct fm_import *in, struct fm_str symbol, uint32_t *ret)
{
	struct fm_str name, file;
	if (!fm_text_perf_name(symbol, &name, &file))
		return false;
	*ret = fm_import_python_frame(in, name, file, 0, 0);
	return true;
}

// Code of the interpreter itself.
static bool is_interpreter(const struct fm_import *in, uint32_t frame)
{
	uint8_t kind;
	uint32_t ref;
	uint64_t value;
	struct fm_written_image image;
	if (fm_writer_get_frame(in->w, frame, &kind, &ref, &value) || kind != FM_FRAME_NATIVE ||
	    fm_writer_get_image(in->w, ref, &image))
		return false;
	const char *slash = image.path.len ? memrchr(image.path.p, '/', image.path.len) : NULL;
	uint32_t skip = slash ? (uint32_t)(slash + 1 - image.path.p) : 0;
	struct fm_str name = { image.path.p + skip, image.path.len - skip };
	return fm_str_starts_with(name, "python") || fm_str_starts_with(name, "libpython");
}

uint8_t fm_perf_class_of(const struct fm_import *in, const uint32_t *frames, size_t n)
{
	// What a trampoline calls is the evaluator, and what that calls in the interpreter is mostly
	// what an instruction needs.
	for (size_t i = 0; i < n; i++) {
		uint8_t class = fm_import_class_of(in, frames[i]);
		if (class == FM_CLASS_PYTHON || i + 1 == n || !is_interpreter(in, frames[i]))
			return i && class != FM_CLASS_PYTHON ? FM_CLASS_NATIVE : class;
	}
	return FM_CLASS_NATIVE;
}
