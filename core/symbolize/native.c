// SPDX-License-Identifier: Apache-2.0
#include "symbolize/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "image/lines.h"
#include "image/object.h"
#include "symbolize/resolve.h"

struct image {
	bool is_resolved;
	struct fm_chains chains;
};

struct fm_native {
	const struct fm_profile *profile;
	struct fm_arena arena;
	struct image *images;
	size_t n_images; // when it was made: a profile that is followed grows
	// Frames sorted by image, so that an image's addresses are one run.
	struct sampled {
		uint32_t image_id;
		uint64_t addr;
	} * sampled;
	size_t n_sampled;
	FM_VEC(struct fm_coverage) coverage;
};

static int compare(const void *pa, const void *pb)
{
	const struct sampled *a = pa, *b = pb;
	if (a->image_id != b->image_id)
		return (a->image_id > b->image_id) - (a->image_id < b->image_id);
	return (a->addr > b->addr) - (a->addr < b->addr);
}

struct fm_native *fm_native_create(const struct fm_profile *profile)
{
	struct fm_native *n = fm_alloc(sizeof(*n));
	n->profile = profile;
	fm_arena_init(&n->arena);
	n->n_images = profile->images.n;
	n->images = fm_alloc((n->n_images + 1) * sizeof(*n->images));
	n->sampled = fm_alloc((profile->frames.n + 1) * sizeof(*n->sampled));
	for (size_t i = 0; i < profile->frames.n; i++) {
		const struct fm_frame *f = &profile->frames.items[i];
		if (f->kind == FM_FRAME_NATIVE && f->ref < profile->images.n)
			n->sampled[n->n_sampled++] = (struct sampled){ f->ref, f->value };
	}
	if (n->n_sampled)
		qsort(n->sampled, n->n_sampled, sizeof(*n->sampled), compare);
	return n;
}

void fm_native_destroy(struct fm_native *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n_images; i++)
		if (n->images[i].is_resolved)
			fm_chains_deinit(&n->images[i].chains);
	free(n->images);
	free(n->sampled);
	fm_vec_deinit(&n->coverage);
	fm_arena_deinit(&n->arena);
	free(n);
}

static void cover(struct fm_native *n, struct fm_str path, const char *why)
{
	char what[512];
	snprintf(what, sizeof(what), "names of native functions in %.*s", (int)FM_MIN(path.len, 400u), path.p);
	struct fm_str kept = { fm_arena_strdup(&n->arena, what, strlen(what)), (uint32_t)strlen(what) };
	fm_vec_push(&n->coverage, (struct fm_coverage){ kept, fm_str_of(why) });
}

// What the capture itself noted of an image, for when its file is not there any more.
static size_t add_recorded(struct fm_native *n, uint32_t image_id, struct fm_chains *chains)
{
	const struct fm_profile *p = n->profile;
	struct fm_chains recorded;
	fm_chains_init(&recorded);
	for (size_t i = 0; i < p->symbols.n; i++) {
		const struct fm_symbol_info *s = &p->symbols.items[i];
		const struct fm_chain *known = s->image_id == image_id ? fm_chains_find(chains, s->addr) : NULL;
		if (s->image_id != image_id || !s->n_links || (known && known->n))
			continue;
		fm_chains_add(&recorded, s->addr, 0);
		for (uint32_t k = 0; k < s->n_links; k++) {
			const struct fm_symbol_link *l = &p->symbol_links.items[s->first_link + k];
			fm_chains_link(&recorded, l->name, l->file, l->first_line, l->line, l->is_inlined);
		}
	}
	size_t n_recorded = recorded.items.n, kept = 0;
	if (n_recorded) { // nameless ones make room
		for (size_t i = 0; i < chains->items.n; i++)
			if (chains->items.items[i].n)
				chains->items.items[kept++] = chains->items.items[i];
		chains->items.n = kept;
		fm_chains_merge(chains, &recorded);
	}
	fm_chains_deinit(&recorded);
	return n_recorded;
}

// What would help with debug information that was not read.
static const char *remedy_for_unread(enum fm_unread unread)
{
	return unread == FM_UNREAD_PACKED       ? "update elfutils to 0.191 or newer, or keep the .dwo files"
	       : unread == FM_UNREAD_COMPRESSED ? "update elfutils to 0.189 or newer, or compile with -gz=zlib"
						: "restore the .dwo files, or pack them with dwp while they are there";
}

static void tell_unread(struct fm_native *n, const struct fm_image *info, const struct fm_image_facts *facts)
{
	char why[1024];
	struct fm_str path = facts->unread == FM_UNREAD_PACKED ? facts->package_path : facts->unread_path;
	int len = (int)FM_MIN(path.len, 600u);
	const char *remedy = remedy_for_unread(facts->unread);
	if (facts->unread == FM_UNREAD_PACKED)
		snprintf(why, sizeof(why),
			 "its debug information is in %.*s, which libdw %s cannot read, so inlined calls are part of "
			 "their callers; %s",
			 len, path.p, fm_lines_libdw_version(), remedy);
	else if (facts->unread == FM_UNREAD_COMPRESSED)
		snprintf(why, sizeof(why),
			 "its debug information is compressed with zstd, which libdw %s cannot read, so its lines and "
			 "inlined calls are not known; %s",
			 fm_lines_libdw_version(), remedy);
	else
		snprintf(why, sizeof(why),
			 "its debug information was split off and %.*s is gone, so inlined calls are part of their "
			 "callers; %s",
			 len, path.p, remedy);
	cover(n, info->path, fm_arena_strdup(&n->arena, why, strlen(why)));
}

// Debug information that is there, or was: another build would help with none of these.
const char *fm_native_remedy(const struct fm_native *n, struct fm_str path)
{
	for (size_t i = 0; i < n->n_images; i++) {
		const struct fm_image *info = &n->profile->images.items[i];
		const struct fm_image_facts *facts = &n->images[i].chains.facts;
		if (!n->images[i].is_resolved ||
		    info->flags & (FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_NAMED | FM_IMAGE_IS_VDSO) ||
		    !fm_str_eq(info->path, path))
			continue;
		if (info->flags & FM_IMAGE_IS_ELSEWHERE)
			return "the file is in a container; to get its lines, make the report there";
		if (facts->state == FM_OBJECT_GONE)
			return "the file is gone or unreadable; report on the machine that was profiled";
		if (facts->state == FM_OBJECT_CHANGED)
			return "the file was replaced since the capture; restore that build and report again";
		if (facts->state == FM_OBJECT_DAMAGED || facts->is_damaged)
			return "the file is damaged; restore it and report again";
		if (facts->unread != FM_UNREAD_NOTHING)
			return remedy_for_unread(facts->unread);
	}
	return NULL;
}

static void tell(struct fm_native *n, const struct fm_image *info, enum fm_resolve_failure failure,
		 const struct fm_chains *chains, size_t n_recorded, size_t n_unnamed)
{
	bool is_vdso = info->flags & FM_IMAGE_IS_VDSO;
	bool is_elsewhere = info->flags & FM_IMAGE_IS_ELSEWHERE && chains->facts.state != FM_OBJECT_PRESENT;
	if (is_elsewhere && n_recorded)
		cover(n, info->path,
		      "the file is in a container; the report shows the names recorded with the capture, without "
		      "lines");
	else if (is_elsewhere && n_unnamed)
		cover(n, info->path, "the file is in a container; to get the names, make the report there");
	else if (failure == FM_RESOLVE_LATE)
		cover(n, info->path, "reading its symbols took too long; the file or a debug server is slow");
	else if (failure == FM_RESOLVE_CRASHED || chains->facts.is_damaged)
		cover(n, info->path, "its debug information is damaged; restore the file and report again");
	else if (chains->facts.is_server_silent)
		cover(n, info->path,
		      "the server of DEBUGINFOD_URLS did not answer; Fathom used only what is on this machine");
	else if (chains->facts.state == FM_OBJECT_DAMAGED && (n_unnamed || n_recorded))
		cover(n, info->path, "the file is damaged or not an ELF file; restore it and report again");
	else if (chains->facts.state == FM_OBJECT_GONE && n_recorded)
		cover(n, info->path,
		      "the file is gone or unreadable; the report shows the names recorded with the capture, without "
		      "lines");
	else if (chains->facts.state == FM_OBJECT_GONE && n_unnamed)
		cover(n, info->path, "the file is gone or unreadable; report on the machine that was profiled");
	else if (chains->facts.state == FM_OBJECT_CHANGED && n_recorded)
		cover(n, info->path,
		      "the file was replaced since the capture (its build id differs); the report shows the names "
		      "recorded with the capture, without lines");
	else if (chains->facts.state == FM_OBJECT_CHANGED && n_unnamed)
		cover(n, info->path,
		      is_vdso ? "another kernel runs now; report under the kernel that was profiled"
			      : "the file was replaced since the capture (its build id differs); restore that build "
				"and report again");
	else if (chains->facts.unread != FM_UNREAD_NOTHING)
		tell_unread(n, info, &chains->facts);
}

static void resolve(struct fm_native *n, uint32_t image_id)
{
	const struct fm_image *info = &n->profile->images.items[image_id];
	struct image *image = &n->images[image_id];
	if (info->flags & (FM_IMAGE_HAS_NO_FILE | FM_IMAGE_IS_NAMED)) {
		fm_chains_init(&image->chains);
		image->is_resolved = true;
		add_recorded(n, image_id, &image->chains);
		return;
	}
	size_t low = fm_bisect(n->n_sampled, i, n->sampled[i].image_id < image_id);
	FM_VEC(uint64_t) addrs = { 0 };
	for (; low < n->n_sampled && n->sampled[low].image_id == image_id; low++)
		if (!addrs.n || addrs.items[addrs.n - 1] != n->sampled[low].addr)
			fm_vec_push(&addrs, n->sampled[low].addr);
	char *path = fm_arena_strdup(&n->arena, info->path.p, info->path.len);
	struct fm_resolve_request request = { .path = path,
					      .build_id = info->build_id,
					      .is_vdso = info->flags & FM_IMAGE_IS_VDSO };
	enum fm_resolve_failure failure = FM_RESOLVE_OK;
	if (info->flags & FM_IMAGE_IS_ELSEWHERE && !info->build_id.len) { // nothing would tell another file from it
		fm_chains_init(&image->chains);
		image->chains.facts.state = FM_OBJECT_GONE;
	} else {
		failure = fm_resolve(&request, addrs.items, addrs.n, &image->chains);
	}
	image->is_resolved = true;
	size_t n_recorded = add_recorded(n, image_id, &image->chains), n_unnamed = 0;
	for (size_t i = 0; i < addrs.n; i++) {
		const struct fm_chain *chain = fm_chains_find(&image->chains, addrs.items[i]);
		n_unnamed += !chain || !chain->n;
	}
	tell(n, info, failure, &image->chains, n_recorded, n_unnamed);
	fm_vec_deinit(&addrs);
}

const struct fm_chains *fm_native_chains(struct fm_native *n, uint32_t image_id)
{
	if (!n->images[image_id].is_resolved)
		resolve(n, image_id);
	return &n->images[image_id].chains;
}

const struct fm_coverage *fm_native_coverage(const struct fm_native *n, size_t *ret_n)
{
	*ret_n = n->coverage.n;
	return n->coverage.items;
}
