// SPDX-License-Identifier: Apache-2.0
#include "collect/ingest/recorder.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/compiler.h"
#include "image/symbols.h"

#define MAX_NAMED 4 // in one line of coverage

static const char *const copying[] = { "memcpy",       "memmove",       "mempcpy",       "bcopy",
				       "__memcpy_chk", "__memmove_chk", "__mempcpy_chk", NULL };

// What comes with Python copies by libc, or has nothing to copy (_random).
static bool is_of_python(const char *path)
{
	return strstr(path, "/lib-dynload/");
}

// libc has the copying functions, and what belongs to it has nothing to copy.
static bool is_of_libc(const char *base)
{
	static const char *const starts[] = { "libc.so", "libc-",      "ld-linux", "libm.so", "libm-",
					      "libdl",   "libpthread", "libgcc_s", "_agent." };
	for (unsigned i = 0; i < FM_ARRAY_LEN(starts); i++)
		if (!strncmp(base, starts[i], strlen(starts[i])))
			return true;
	return false;
}

// The interpreter is a library: then the executable is a stub that calls it.
static bool has_python_library(const struct fm_writer *w)
{
	struct fm_written_image image;
	for (uint32_t id = 0; !fm_writer_get_image(w, id, &image); id++)
		if ((image.flags & (FM_IMAGE_IS_PYTHON | FM_IMAGE_IS_MAIN)) == FM_IMAGE_IS_PYTHON)
			return true;
	return false;
}

void fm_copies_unseen_tell(struct fm_writer *w)
{
	struct fm_written_image image;
	struct fm_buf text = { 0 };
	unsigned n = 0,
		 skipped = FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_VDSO | (has_python_library(w) ? FM_IMAGE_IS_MAIN : 0);
	fm_buf_str(&text, "copies inside ");
	for (uint32_t id = 0; !fm_writer_get_image(w, id, &image); id++) {
		char path[4096];
		bool is_calling;
		if (image.flags & skipped || image.path.len >= sizeof(path))
			continue;
		memcpy(path, image.path.p, image.path.len);
		path[image.path.len] = 0;
		const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
		if (is_of_libc(base) || is_of_python(path) || fm_imports_any(path, copying, &is_calling) || is_calling)
			continue;
		if (n < MAX_NAMED) {
			fm_buf_str(&text, n ? ", " : "");
			fm_buf_str(&text, base);
		}
		n++;
	}
	if (n > MAX_NAMED) {
		char more[32];
		snprintf(more, sizeof(more), " and %u more", n - MAX_NAMED);
		fm_buf_str(&text, more);
	}
	if (n)
		fm_writer_coverage(w, (struct fm_str){ (const char *)text.data, (uint32_t)text.len },
				   FM_STR_LIT("it calls none of libc's copying functions: it copies with its own code, "
					      "which no hook sees"));
	fm_buf_deinit(&text);
}
