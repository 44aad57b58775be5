// SPDX-License-Identifier: Apache-2.0
#include "render/export/dictionary.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "render/shared/label.h"

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

uint32_t fm_dict_string(struct fm_dict *d, struct fm_str text)
{
	d->text.len = 0;
	fm_utf8_clean(&d->text, text);
	return fm_intern_id(&d->strings, str_of(&d->text), NULL);
}

static uint32_t intern_bytes(struct fm_intern *in, const void *p, size_t n)
{
	return fm_intern_id(in, (struct fm_str){ p, (uint32_t)n }, NULL);
}

// Where the image lies in the first process that has it, from its first byte to its last.
static void find_range(const struct fm_profile *p, uint32_t image_id, struct fm_dict_image *ret)
{
	uint32_t process = FM_NO_ID;
	for (size_t i = 0; i < p->mappings.n; i++) {
		const struct fm_mapping *m = &p->mappings.items[i];
		if (m->image_id != image_id || (process != FM_NO_ID && m->process_id != process))
			continue;
		ret->start = process == FM_NO_ID ? m->start : FM_MIN(ret->start, m->start);
		ret->end = FM_MAX(ret->end, m->end);
		process = m->process_id;
	}
}

static uint32_t add_image(struct fm_dict *d, uint32_t image_id)
{
	const struct fm_image *image = &d->a->profile->images.items[image_id];
	struct fm_dict_image entry;
	memset(&entry, 0, sizeof(entry)); // its bytes are compared
	d->key.len = 0;
	fm_buf_hex(&d->key, image->build_id.p, image->build_id.len);
	entry.build_id1 = d->key.len ? fm_intern_id(&d->build_ids, str_of(&d->key), NULL) + 1 : 0;
	entry.path = fm_dict_string(d, image->path);
	find_range(d->a->profile, image_id, &entry);
	return intern_bytes(&d->images, &entry, sizeof(entry));
}

// + 1, or 0.
static uint32_t image_of(struct fm_dict *d, const struct fm_function *f)
{
	if (f->library_id == FM_NO_ID || !f->path.len)
		return 0;
	bool is_new;
	uint64_t *image1 = fm_map_at(&d->image_of_library, f->library_id, &is_new);
	const struct fm_profile *p = d->a->profile;
	for (uint32_t i = 0; is_new && i < p->images.n && !*image1; i++)
		if (fm_str_eq(p->images.items[i].path, f->path))
			*image1 = add_image(d, i) + 1;
	return (uint32_t)*image1;
}

static struct fm_dict_line line_of(struct fm_dict *d, const struct fm_node *node)
{
	const struct fm_function *f = fm_analysis_function(d->a, node->function_id);
	struct fm_dict_function entry = { .line = f->line };
	entry.name = fm_dict_string(d, fm_label_function(f));
	entry.full_name = f->full_name.len ? fm_dict_string(d, f->full_name) : 0;
	entry.full_name = entry.full_name != entry.name ? entry.full_name : 0;
	entry.file = fm_dict_string(d, f->file);
	return (struct fm_dict_line){ intern_bytes(&d->functions, &entry, sizeof(entry)), node->line };
}

// Also where the frame that it was inlined into is folded away, and another stands outside.
static bool is_part_of_parent(const struct fm_dict *d, const struct fm_node *node)
{
	const struct fm_node *parent = &d->a->view.nodes.items[node->parent];
	return node->is_inlined && node->parent &&
	       fm_analysis_function(d->a, parent->function_id)->kind == FM_FRAME_NATIVE;
}

static void meet_location(struct fm_dict *d, uint32_t innermost)
{
	const struct fm_node *nodes = d->a->view.nodes.items;
	const struct fm_function *f = fm_analysis_function(d->a, nodes[innermost].function_id);
	uint32_t head[2] = { image_of(d, f), f->kind }, node = innermost;
	struct fm_buf lines = { 0 };
	bool is_part;
	do {
		struct fm_dict_line line = line_of(d, &nodes[node]);
		fm_buf_bytes(&lines, &line, sizeof(line));
		is_part = is_part_of_parent(d, &nodes[node]);
		node = nodes[node].parent;
	} while (is_part);
	d->key.len = 0;
	fm_buf_bytes(&d->key, head, sizeof(head));
	fm_buf_bytes(&d->key, lines.data, lines.len);
	fm_buf_deinit(&lines);
	d->location_of_node[innermost] = intern_bytes(&d->locations, d->key.data, d->key.len) + 1;
	d->outside_of_node[innermost] = node;
}

void fm_dict_stack(struct fm_dict *d, uint32_t node, uint32_t add, struct fm_dict_ids *ret)
{
	while (node) {
		if (!d->location_of_node[node])
			meet_location(d, node);
		fm_vec_push(ret, d->location_of_node[node] - 1 + add);
		node = d->outside_of_node[node];
	}
}

struct fm_dict_function fm_dict_function(const struct fm_dict *d, uint32_t id)
{
	struct fm_dict_function ret;
	memcpy(&ret, d->functions.strings.items[id].p, sizeof(ret));
	return ret;
}

struct fm_dict_image fm_dict_image(const struct fm_dict *d, uint32_t id)
{
	struct fm_dict_image ret;
	memcpy(&ret, d->images.strings.items[id].p, sizeof(ret));
	return ret;
}

struct fm_dict_location fm_dict_location(const struct fm_dict *d, uint32_t id)
{
	struct fm_str bytes = d->locations.strings.items[id];
	uint32_t head[2];
	memcpy(head, bytes.p, sizeof(head));
	return (struct fm_dict_location){ head[0], head[1],
					  (uint32_t)((bytes.len - sizeof(head)) / sizeof(struct fm_dict_line)),
					  (const struct fm_dict_line *)(const void *)(bytes.p + sizeof(head)) };
}

void fm_dict_init(struct fm_dict *d, const struct fm_analysis *a)
{
	*d = (struct fm_dict){ .a = a };
	d->location_of_node = fm_alloc(a->view.nodes.n * sizeof(*d->location_of_node));
	d->outside_of_node = fm_alloc(a->view.nodes.n * sizeof(*d->outside_of_node));
	fm_dict_string(d, FM_STR_LIT(""));
}

void fm_dict_main_image(struct fm_dict *d)
{
	for (uint32_t i = 0; i < d->a->profile->images.n; i++)
		if (d->a->profile->images.items[i].flags & FM_IMAGE_IS_MAIN) {
			add_image(d, i);
			return;
		}
}

void fm_dict_deinit(struct fm_dict *d)
{
	fm_intern_deinit(&d->strings);
	fm_intern_deinit(&d->build_ids);
	fm_intern_deinit(&d->functions);
	fm_intern_deinit(&d->images);
	fm_intern_deinit(&d->locations);
	fm_map_deinit(&d->image_of_library);
	free(d->location_of_node);
	free(d->outside_of_node);
	fm_buf_deinit(&d->key);
	fm_buf_deinit(&d->text);
}
