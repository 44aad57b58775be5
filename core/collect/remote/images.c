// SPDX-License-Identifier: Apache-2.0
#include "collect/remote/images.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/hash.h"
#include "collect/process/core_file.h"
#include "collect/process/file.h"
#include "collect/process/memory.h"
#include "collect/remote/parts.h"

// Maps are read again this often while stacks are read: libraries come and go. Much sooner when a
// pc lies in nothing known.
#define REFRESH_NS 1000000000u
#define REFRESH_SOON_NS 5000000u

struct opened {
	uint64_t device, inode;
	struct fm_unwind_file *file;
};

struct fm_remote_files {
	FM_VEC(struct opened) items;
	struct fm_core *core; // NULL: of processes that run
	struct fm_remote_memory *memory;
};

struct fm_remote_images {
	uint32_t pid;
	struct fm_remote_files *files;
	FM_VEC(struct fm_remote_image) items, before; // sorted by address
	struct fm_map rule_ids;                       // pc -> index of rules
	FM_VEC(struct fm_unwind_rule) rules;
	uint64_t read_ns;
	bool is_missing; // a pc was in nothing known
};

struct fm_remote_files *fm_remote_files_create(void)
{
	struct fm_remote_files *files = fm_alloc(sizeof(*files));
	files->memory = fm_remote_memory_create(NULL);
	return files;
}

struct fm_remote_files *fm_remote_files_create_for_core(struct fm_core *core)
{
	struct fm_remote_files *files = fm_alloc(sizeof(*files));
	files->core = core;
	files->memory = fm_remote_memory_create(core);
	return files;
}

struct fm_remote_memory *fm_remote_files_memory(struct fm_remote_files *files)
{
	return files->memory;
}

void fm_remote_files_destroy(struct fm_remote_files *files)
{
	for (size_t i = 0; i < files->items.n; i++)
		fm_unwind_file_close(files->items.items[i].file);
	fm_vec_deinit(&files->items);
	fm_remote_memory_destroy(files->memory);
	free(files);
}

static struct fm_unwind_file *open_file(struct fm_remote_files *files, uint32_t pid, const char *path)
{
	int fd = files->core ? fm_core_open_file(files->core, path) : fm_process_open(pid, path);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	for (size_t i = 0; i < files->items.n; i++)
		if (files->items.items[i].inode == st.st_ino && files->items.items[i].device == st.st_dev) {
			close(fd);
			return files->items.items[i].file;
		}
	struct opened o = { st.st_dev, st.st_ino, NULL };
	if (fm_unwind_file_open(fd, &o.file))
		o.file = NULL;
	fm_vec_push(&files->items, o); // also when it is none: it is not tried again
	return o.file;
}

struct fm_remote_images *fm_remote_images_create(uint32_t pid, struct fm_remote_files *files)
{
	struct fm_remote_images *images = fm_alloc(sizeof(*images));
	images->pid = pid;
	images->files = files;
	return images;
}

static void forget_rules(struct fm_remote_images *images)
{
	fm_map_deinit(&images->rule_ids);
	images->rules.n = 0;
}

void fm_remote_images_destroy(struct fm_remote_images *images)
{
	if (!images)
		return;
	forget_rules(images);
	for (size_t i = 0; i < images->items.n; i++)
		free(images->items.items[i].path);
	fm_vec_deinit(&images->items);
	fm_vec_deinit(&images->before);
	fm_vec_deinit(&images->rules);
	free(images);
}

static void add_map(void *ctx, const struct fm_process_map *map)
{
	struct fm_remote_images *images = ctx;
	if (!map->is_executable)
		return;
	struct fm_remote_image image = {
		.map_start = map->start,
		.map_end = map->end,
		.map_off = map->off,
		.path = fm_strdup_n(map->path, strlen(map->path)),
	};
	fm_vec_push(&images->items, image);
}

static bool is_same(const struct fm_remote_image *a, const struct fm_remote_image *b)
{
	return a->map_start == b->map_start && a->map_end == b->map_end && a->map_off == b->map_off &&
	       !strcmp(a->path, b->path);
}

bool fm_remote_images_refresh(struct fm_remote_images *images, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - images->read_ns;
	if (images->read_ns && age_ns < (images->is_missing ? REFRESH_SOON_NS : REFRESH_NS))
		return false;
	images->read_ns = now_ns;
	images->is_missing = false;
	for (size_t i = 0; i < images->before.n; i++)
		free(images->before.items[i].path);
	images->before.n = 0;
	for (size_t i = 0; i < images->items.n; i++)
		fm_vec_push(&images->before, images->items.items[i]);
	images->items.n = 0;
	if (images->files->core)
		fm_core_maps(images->files->core, add_map, images);
	else
		fm_process_maps(images->pid, add_map, images);
	bool is_changed = images->items.n != images->before.n;
	for (size_t i = 0, k = 0; i < images->items.n; i++) {
		struct fm_remote_image *image = &images->items.items[i];
		while (k < images->before.n && images->before.items[k].map_start < image->map_start)
			k++;
		if (k == images->before.n || !is_same(image, &images->before.items[k])) {
			is_changed = true;
			continue;
		}
		const struct fm_remote_image *old = &images->before.items[k];
		image->is_looked_at = old->is_looked_at;
		image->file = old->file;
		image->start = old->start;
		image->end = old->end;
		image->bias = old->bias;
	}
	for (size_t i = 0; i < images->before.n; i++)
		free(images->before.items[i].path);
	images->before.n = 0;
	if (is_changed)
		forget_rules(images);
	return is_changed;
}

static struct fm_remote_image *find_map(const struct fm_remote_images *images, uint64_t pc)
{
	size_t at = fm_bisect(images->items.n, i, images->items.items[i].map_end <= pc);
	return at < images->items.n && images->items.items[at].map_start <= pc ? &images->items.items[at] : NULL;
}

static void look_at(struct fm_remote_images *images, struct fm_remote_image *image)
{
	image->is_looked_at = true;
	if (image->path[0] != '/')
		return;
	struct fm_unwind_file_info info;
	uint64_t vaddr;
	image->file = open_file(images->files, images->pid, image->path);
	if (!image->file || fm_unwind_file_map(image->file, image->map_off, &vaddr)) {
		image->file = NULL;
		return;
	}
	fm_unwind_file_get(image->file, &info);
	image->bias = image->map_start - vaddr;
	image->start = image->bias + info.start;
	image->end = image->bias + info.end;
}

const struct fm_remote_image *fm_remote_images_find(struct fm_remote_images *images, uint64_t pc)
{
	struct fm_remote_image *image = find_map(images, pc);
	if (!image) {
		images->is_missing = true;
		return NULL;
	}
	if (!image->is_looked_at)
		look_at(images, image);
	return image;
}

bool fm_remote_images_is_code(const struct fm_remote_images *images, uint64_t pc)
{
	return find_map(images, pc) != NULL;
}

const struct fm_unwind_rule *fm_remote_images_rule(struct fm_remote_images *images, uint64_t pc)
{
	bool is_new;
	uint64_t *id = fm_map_at(&images->rule_ids, pc, &is_new);
	if (!is_new)
		return &images->rules.items[*id];
	*id = images->rules.n;
	struct fm_unwind_rule rule = { .kind = FM_RULE_NONE };
	const struct fm_remote_image *image = fm_remote_images_find(images, pc);
	if (image && image->file)
		fm_unwind_file_rule(image->file, pc - image->bias, &rule);
	fm_vec_push(&images->rules, rule);
	return &images->rules.items[images->rules.n - 1];
}

const struct fm_remote_image *fm_remote_images_at(const struct fm_remote_images *images, size_t i)
{
	return i < images->items.n ? &images->items.items[i] : NULL;
}
