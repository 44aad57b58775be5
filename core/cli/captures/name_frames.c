// SPDX-License-Identifier: Apache-2.0
#include "cli/captures/name_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "format/writer.h"
#include "symbolize/resolve.h"

struct sampled {
	uint32_t image_id;
	uint64_t addr;
};

static int compare(const void *pa, const void *pb)
{
	const struct sampled *a = pa, *b = pb;
	if (a->image_id != b->image_id)
		return (a->image_id > b->image_id) - (a->image_id < b->image_id);
	return (a->addr > b->addr) - (a->addr < b->addr);
}

static void write_chains(struct fm_writer *w, uint32_t image_id, const struct fm_chains *chains, const uint64_t *addrs,
			 size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct fm_chain *chain = fm_chains_find(chains, addrs[i]);
		struct fm_symbol_link links[FM_SYMBOL_MAX_LINKS];
		uint32_t n_links = chain ? FM_MIN(chain->n, (uint32_t)FM_SYMBOL_MAX_LINKS) : 0;
		for (uint32_t k = 0; k < n_links; k++) {
			const struct fm_link *l = &chains->links.items[chain->first_link + k];
			links[k] =
				(struct fm_symbol_link){ fm_chains_str(chains, l->name), fm_chains_str(chains, l->file),
							 l->first_line, l->line, l->is_inlined };
		}
		if (n_links)
			fm_writer_symbol(w, image_id, addrs[i], links, n_links);
	}
}

static void name_image(struct fm_writer *w, uint32_t image_id, const uint64_t *addrs, size_t n, uint64_t deadline_ns)
{
	struct fm_written_image image;
	if (fm_writer_get_image(w, image_id, &image) || (image.flags & (FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_NAMED)))
		return;
	char kept[32];
	snprintf(kept, sizeof(kept), "/proc/self/fd/%d", image.fd); // for the child that reads it, too
	char *path = image.fd >= 0 ? fm_strdup_n(kept, strlen(kept)) : fm_strdup_n(image.path.p, image.path.len);
	char *build_id = fm_strdup_n(image.build_id.p, image.build_id.len); // writing may move the writer's own
	struct fm_resolve_request request = { .path = path,
					      .build_id = { build_id, image.build_id.len },
					      .is_vdso = image.flags & FM_IMAGE_IS_VDSO,
					      .symbols_only = true,
					      .deadline_ns = deadline_ns };
	struct fm_chains chains;
	fm_resolve(&request, addrs, n, &chains);
	write_chains(w, image_id, &chains, addrs, n);
	fm_chains_deinit(&chains);
	free(build_id);
	free(path);
}

static bool is_kept(const struct fm_writer *w, uint32_t image_id)
{
	struct fm_written_image image;
	return !fm_writer_get_image(w, image_id, &image) && image.fd >= 0;
}

static void name_frames(struct fm_writer *w, bool only_kept)
{
	uint64_t deadline_ns = fm_now_ns() + (uint64_t)FM_NAME_FRAMES_SECONDS * 1000000000u;
	FM_VEC(struct sampled) all = { 0 };
	FM_VEC(uint64_t) addrs = { 0 };
	uint8_t kind;
	struct sampled s;
	for (uint32_t id = 0; !fm_writer_get_frame(w, id, &kind, &s.image_id, &s.addr); id++)
		if (kind == FM_FRAME_NATIVE && s.image_id != FM_NO_ID && (!only_kept || is_kept(w, s.image_id)))
			fm_vec_push(&all, s);
	if (all.n)
		qsort(all.items, all.n, sizeof(*all.items), compare);
	for (size_t i = 0; i < all.n && fm_now_ns() < deadline_ns;) {
		uint32_t image_id = all.items[i].image_id;
		addrs.n = 0;
		for (; i < all.n && all.items[i].image_id == image_id; i++)
			fm_vec_push(&addrs, all.items[i].addr);
		name_image(w, image_id, addrs.items, addrs.n, deadline_ns);
	}
	fm_vec_deinit(&all);
	fm_vec_deinit(&addrs);
}

void fm_name_frames(struct fm_writer *w, void *unused)
{
	(void)unused;
	name_frames(w, false);
}

void fm_name_frames_elsewhere(struct fm_writer *w, void *unused)
{
	(void)unused;
	name_frames(w, true);
}
