// SPDX-License-Identifier: Apache-2.0
// The files that perf.data says were mapped, as far as they still lie where they lay.
#include "import/perf_data.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/symbols.h"

void fm_perf_images_deinit(struct fm_perf_images *images)
{
	for (size_t i = 0; i < images->items.n; i++) {
		struct fm_perf_image *image = images->items.items[i];
		fm_unwind_file_close(image->file);
		fm_symbols_close(image->symbols);
		fm_map_deinit(&image->rule_ids);
		fm_vec_deinit(&image->rules);
		free(image->path);
		free(image);
	}
	fm_vec_deinit(&images->items);
	fm_intern_deinit(&images->keys);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// "//anon", "[heap]", "/memfd:jit (deleted)": memory that no file holds.
static bool is_file_path(struct fm_str path)
{
	static const char *const none[] = { "//anon", "/memfd:", "/anon_hugepage", "/SYSV", "/dev/", "/dmabuf" };
	for (size_t i = 0; i < FM_ARRAY_LEN(none); i++)
		if (fm_str_starts_with(path, none[i]))
			return false;
	return path.len && path.p[0] == '/' && !memchr(path.p, 0, path.len);
}

struct fm_perf_image *fm_perf_image_get(struct fm_perf_images *images, struct fm_str path, struct fm_str build_id)
{
	struct fm_buf key = { 0 };
	bool is_new;
	build_id.len = FM_MIN(build_id.len, (uint32_t)sizeof(((struct fm_perf_image *)0)->build_id));
	fm_buf_bytes(&key, path.p, path.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, build_id.p, build_id.len);
	uint32_t id = fm_intern_id(&images->keys, (struct fm_str){ (char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	if (!is_new)
		return images->items.items[id];
	struct fm_perf_image *image = fm_alloc(sizeof(*image));
	image->path = fm_strdup_n(path.p, path.len);
	image->build_id_len = build_id.len;
	memcpy(image->build_id, build_id.p, build_id.len);
	image->is_file = is_file_path(path);
	image->is_vdso = fm_str_eq(path, FM_STR_LIT("[vdso]"));
	fm_vec_push(&images->items, image);
	return image;
}

static struct fm_unwind_file *open_file(const char *path)
{
	struct stat st;
	struct fm_unwind_file *file;
	// Opening alone is an act where a device or a fifo lies there.
	int fd =
		stat(path, &st) || !S_ISREG(st.st_mode) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return NULL;
	}
	return fm_unwind_file_open(fd, &file) ? NULL : file;
}

// What lies there now may be another build than the one that ran.
static void check_build(struct fm_perf_images *images, struct fm_perf_image *image)
{
	struct fm_unwind_file_info info;
	fm_unwind_file_get(image->file, &info);
	uint32_t len = FM_MIN(info.build_id_len, (uint32_t)sizeof(image->build_id));
	if (!image->build_id_len && !image->is_vdso && !images->is_elsewhere) {
		images->has_unchecked = true;
		image->build_id_len = len;
		memcpy(image->build_id, info.build_id, len);
	} else if (!image->is_vdso && (len != image->build_id_len || memcmp(image->build_id, info.build_id, len))) {
		images->has_other = true;
		fm_unwind_file_close(image->file);
		image->file = NULL;
	}
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);
	return len > n && !strcmp(text + len - n, end);
}

static uint32_t flags_of(const struct fm_perf_image *image)
{
	const char *name = base_name(image->path);
	if (image->is_vdso)
		return FM_IMAGE_IS_VDSO;
	return !strncmp(name, "python", 6) || !strncmp(name, "libpython", 9) ? FM_IMAGE_IS_PYTHON : 0;
}

void fm_perf_image_open(struct fm_perf_images *images, struct fm_perf_image *image, struct fm_import *in)
{
	if (image->is_opened)
		return;
	image->is_opened = true;
	if (image->is_vdso && fm_unwind_file_open_vdso(&image->file))
		image->file = NULL;
	if (image->is_file)
		image->file = open_file(image->path);
	if (image->file)
		check_build(images, image);
	// Files whose names are all there is: fathom export -f perf makes one for all functions, and perf
	// inject one for each that a JIT compiler made.
	image->is_names_only = ends_with(image->path, ".names");
	bool has_names = image->is_names_only || !strncmp(base_name(image->path), "jitted-", 7);
	if (image->file && has_names && fm_symbols_open(image->path, &image->symbols, NULL))
		image->symbols = NULL;
	struct fm_str build_id = { (const char *)image->build_id, image->build_id_len };
	image->image_id = fm_writer_image(in->w, fm_str_of(image->path), build_id, flags_of(image));
}

uint64_t fm_perf_image_address(struct fm_perf_map *map, uint64_t pc)
{
	uint64_t first;
	if (!map->has_bias) {
		map->has_bias = true;
		// Without the file, addresses are offsets in it, as they are in most libraries.
		if (!map->image->file || fm_unwind_file_map(map->image->file, map->offset, &first))
			first = map->offset;
		map->bias = map->start - first;
	}
	return pc - map->bias;
}

const struct fm_unwind_rule *fm_perf_image_rule(struct fm_perf_image *image, uint64_t addr)
{
	bool is_new;
	uint64_t *id = fm_map_at(&image->rule_ids, addr, &is_new);
	if (is_new) {
		struct fm_unwind_rule rule;
		*id = image->rules.n;
		fm_unwind_file_rule(image->file, addr, &rule);
		fm_vec_push(&image->rules, rule);
	}
	return &image->rules.items[*id];
}
