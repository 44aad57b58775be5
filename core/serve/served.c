// SPDX-License-Identifier: Apache-2.0
#include "serve/served.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "aggregate/analysis/timeline.h"
#include "base/hash.h"
#include "render/bundle/bundle.h"
#include "render/render.h"
#include "render/shared/packed.h"

#define LEVEL 1        // over loopback: time counts, not bytes
#define LIVE_SECONDS 5 // a file that has no end and changed within these is still being written

struct fm_served {
	char *path, *base_path; // base_path: NULL without a second one
	struct fm_view_options options;
	pthread_mutex_t lock; // guards everything below; the answers need the symbolizer, which works lazily
	struct fm_analysis *a, *base;
	uint64_t version;
	bool is_live;
	bool is_growing;             // whatever the file's age says
	struct fm_timeline timeline; // of a file just read, until the bundle takes it
	bool has_timeline;
	struct fm_zones zones;  // of a trace; asked for part by part
	struct fm_answer whole; // the bundle of everything, which every page begins with; not packed
};

static uint64_t file_version(const char *path, time_t *ret_changed)
{
	struct stat st;
	if (stat(path, &st))
		return 0;
	*ret_changed = st.st_mtime;
	return fm_hash_u64((uint64_t)st.st_size ^ (uint64_t)st.st_mtim.tv_nsec << 32 ^ (uint64_t)st.st_mtime << 8) | 1;
}

uint64_t fm_served_version(const struct fm_served *c)
{
	time_t changed;
	return file_version(c->path, &changed);
}

static void drop_timeline(struct fm_served *c)
{
	if (c->has_timeline)
		fm_timeline_deinit(&c->timeline);
	c->has_timeline = false;
}

static enum fm_err read_capture(struct fm_served *c, struct fm_timeline_builder *timeline, struct fm_analysis **ret,
				struct fm_diag *diag)
{
	struct fm_reader *reader;
	const struct fm_observer observer = fm_timeline_observer(timeline);
	enum fm_err err = fm_reader_open(c->path, &reader, diag);
	if (!err)
		err = fm_analysis_read(reader, &c->options, FM_ANALYSIS_STACKS, &observer, ret, diag);
	fm_timeline_finish(timeline);
	return err;
}

// Reads the file when it is not what was read last.
static enum fm_err refresh(struct fm_served *c, struct fm_diag *diag)
{
	time_t changed = 0;
	uint64_t version = file_version(c->path, &changed);
	if (c->a && version == c->version)
		return FM_OK;
	struct fm_analysis *fresh;
	struct fm_timeline timeline = { 0 };
	struct fm_zones zones = { 0 };
	struct fm_timeline_builder builder = { &timeline, &zones, fm_bundle_for_server.max_samples };
	enum fm_err err = read_capture(c, &builder, &fresh, diag);
	if (err) {
		fm_timeline_deinit(&timeline);
		fm_zones_deinit(&zones);
		return c->a && !version ? FM_OK : err; // a file that was removed meanwhile stays as it was read
	}
	drop_timeline(c);
	fm_zones_deinit(&c->zones);
	c->timeline = timeline;
	c->zones = zones;
	c->has_timeline = true;
	fm_analysis_close(c->a);
	c->a = fresh;
	c->version = version;
	c->is_live = fresh->profile->is_truncated && (c->is_growing || time(NULL) - changed < LIVE_SECONDS);
	free(c->whole.data);
	c->whole = (struct fm_answer){ 0 };
	return FM_OK;
}

static enum fm_err check(const char *path, struct fm_diag *diag)
{
	struct fm_reader *r;
	enum fm_err err = path ? fm_reader_open(path, &r, diag) : FM_OK;
	if (path && !err)
		fm_reader_close(r);
	return err;
}

enum fm_err fm_served_open(const char *path, const char *base_path, const struct fm_view_options *options,
			   struct fm_served **ret, struct fm_diag *diag)
{
	enum fm_err err = check(path, diag);
	if (!err)
		err = check(base_path, diag);
	if (err)
		return err;
	struct fm_served *c = fm_alloc(sizeof(*c));
	c->path = fm_strdup_n(path, strlen(path));
	c->base_path = base_path ? fm_strdup_n(base_path, strlen(base_path)) : NULL;
	c->options = *options;
	pthread_mutex_init(&c->lock, NULL);
	*ret = c;
	return FM_OK;
}

void fm_served_set_growing(struct fm_served *c, bool is_growing)
{
	pthread_mutex_lock(&c->lock);
	c->is_growing = is_growing;
	pthread_mutex_unlock(&c->lock);
}

void fm_served_close(struct fm_served *c)
{
	if (!c)
		return;
	fm_analysis_close(c->a);
	fm_analysis_close(c->base);
	drop_timeline(c);
	fm_zones_deinit(&c->zones);
	pthread_mutex_destroy(&c->lock);
	free(c->whole.data);
	free(c->path);
	free(c->base_path);
	free(c);
}

// What the writer writes, as one piece of memory.
struct memory {
	struct fm_answer answer;
	FILE *file;
};

static FILE *memory_open(struct memory *m)
{
	*m = (struct memory){ 0 };
	return m->file = open_memstream(&m->answer.data, &m->answer.len);
}

static enum fm_err memory_close(struct memory *m, enum fm_err err, struct fm_answer *ret, struct fm_diag *diag)
{
	bool is_bad = !m->file || fclose(m->file) != 0;
	if (!err && is_bad)
		err = fm_diag_set(diag, FM_E_IO, "out of memory; free some and load the page again");
	if (err)
		free(m->answer.data);
	else
		*ret = m->answer;
	return err;
}

static struct fm_answer zstd(const struct fm_answer *plain)
{
	struct fm_answer packed = { 0 };
	packed.data = fm_packed_zstd(plain->data, plain->len, LEVEL, &packed.len);
	return packed;
}

static struct fm_answer gzip(const struct fm_answer *plain)
{
	struct fm_answer packed = { 0 };
	FILE *memory = open_memstream(&packed.data, &packed.len), *file = memory ? fm_packed_gzip(memory, LEVEL) : NULL;
	bool is_good = file && fwrite(plain->data, 1, plain->len, file) == plain->len;
	if (file)
		is_good &= fclose(file) == 0;
	if (memory)
		is_good &= fclose(memory) == 0;
	packed.len = is_good ? packed.len : 0;
	return packed;
}

// The answer as it is sent; `plain` stays.
static enum fm_err pack(const struct fm_answer *plain, enum fm_packing packing, struct fm_answer *ret,
			struct fm_diag *diag)
{
	*ret = packing == FM_ZSTD   ? zstd(plain)
	       : packing == FM_GZIP ? gzip(plain)
				    : (struct fm_answer){ fm_strdup_n(plain->data, plain->len), plain->len };
	if (ret->len || !plain->len)
		return FM_OK;
	free(ret->data);
	return fm_diag_set(diag, FM_E_IO, "out of memory; free some and load the page again");
}

// The same of an answer that nobody else needs.
static enum fm_err pack_own(struct fm_answer *plain, enum fm_packing packing, struct fm_answer *ret,
			    struct fm_diag *diag)
{
	if (packing == FM_PLAIN) {
		*ret = *plain;
		return FM_OK;
	}
	enum fm_err err = pack(plain, packing, ret, diag);
	free(plain->data);
	return err;
}

static void to_filter(const struct fm_served *c, const struct fm_question *q, struct fm_filter *ret)
{
	uint64_t start_ns = fm_bundle_start_ns(c->a);
	*ret = (struct fm_filter){ .has_threads = q->has_threads };
	// Beyond this many seconds a double has no nanoseconds left, and no capture is that long.
	if (q->from_s > 0)
		ret->from_ns = start_ns + (uint64_t)(FM_MIN(q->from_s, 1e9) * 1e9);
	if (q->to_s > 0)
		ret->to_ns = start_ns + (uint64_t)(FM_MIN(q->to_s, 1e9) * 1e9);
	for (size_t i = 0; i < q->threads.n; i++)
		if (q->threads.items[i] < FM_MAX(c->a->tally.threads.n, c->a->profile->threads.n))
			fm_filter_mark(ret, q->threads.items[i]);
}

static enum fm_err make_bundle(struct fm_served *c, const struct fm_question *q, struct fm_answer *ret,
			       struct fm_diag *diag)
{
	struct fm_filter filter;
	to_filter(c, q, &filter);
	bool takes_timeline = c->has_timeline && fm_filter_is_empty(&filter);
	const struct fm_bundle_options options = { .timeline = takes_timeline ? &c->timeline : NULL,
						   .zones = &c->zones,
						   .limits = &fm_bundle_for_server,
						   .filter = &filter,
						   .is_live = c->is_live,
						   .can_diff = c->base_path != NULL };
	struct memory m;
	FILE *out = memory_open(&m);
	enum fm_err err = out ? fm_bundle_write(out, c->a, &options, diag) : FM_OK;
	if (takes_timeline) // emptied, or what is left of it of no use
		drop_timeline(c);
	fm_filter_deinit(&filter);
	return memory_close(&m, err, ret, diag);
}

enum fm_err fm_served_bundle(struct fm_served *c, const struct fm_question *q, enum fm_packing packing,
			     struct fm_answer *ret, struct fm_diag *diag)
{
	bool is_whole = !(q->from_s > 0) && !(q->to_s > 0) && !q->has_threads && !q->threads.n;
	struct fm_answer part = { 0 };
	pthread_mutex_lock(&c->lock);
	enum fm_err err = refresh(c, diag);
	if (!err && (!is_whole || !c->whole.data))
		err = make_bundle(c, q, is_whole ? &c->whole : &part, diag);
	if (!err)
		err = is_whole ? pack(&c->whole, packing, ret, diag) : pack_own(&part, packing, ret, diag);
	pthread_mutex_unlock(&c->lock);
	return err;
}

enum fm_err fm_served_zones(struct fm_served *c, const struct fm_question *q, uint32_t pixels, enum fm_packing packing,
			    struct fm_answer *ret, struct fm_diag *diag)
{
	pthread_mutex_lock(&c->lock);
	enum fm_err err = c->a ? FM_OK : refresh(c, diag); // of the file as the page's bundle knows it
	if (!err && !c->zones.n)
		err = fm_diag_set(diag, FM_E_NOT_FOUND, "the capture has no trace; make one with python -m fathom");
	if (!err) {
		struct fm_filter filter;
		to_filter(c, q, &filter);
		const struct fm_zone_range range = { .from_ns = filter.from_ns,
						     .to_ns = filter.to_ns ? filter.to_ns : UINT64_MAX,
						     .pixels = pixels,
						     .max_depth = FM_BUNDLE_ZONE_DEPTH,
						     .threads = &filter };
		struct memory m;
		struct fm_answer plain;
		FILE *out = memory_open(&m);
		if (out)
			fm_bundle_write_zones(out, c->a, &c->zones, &range);
		fm_filter_deinit(&filter);
		err = memory_close(&m, FM_OK, &plain, diag);
		if (!err)
			err = pack_own(&plain, packing, ret, diag);
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

void fm_served_prepare(struct fm_served *c)
{
	struct fm_diag diag;
	pthread_mutex_lock(&c->lock);
	if (!refresh(c, &diag) && !c->whole.data)
		(void)!make_bundle(c, &(struct fm_question){ 0 }, &c->whole, &diag);
	pthread_mutex_unlock(&c->lock);
}

enum fm_err fm_served_diff(struct fm_served *c, enum fm_packing packing, struct fm_answer *ret, struct fm_diag *diag)
{
	if (!c->base_path)
		return fm_diag_set(diag, FM_E_NOT_FOUND,
				   "there is no second capture to compare; name two captures: fathom view BASE NEW");
	pthread_mutex_lock(&c->lock);
	enum fm_err err = refresh(c, diag);
	if (!err && !c->base)
		err = fm_render_open(c->base_path, &c->options, FM_ANALYSIS_STACKS, &c->base, diag);
	if (!err) {
		struct memory m;
		struct fm_answer plain;
		FILE *out = memory_open(&m);
		err = out ? fm_bundle_write_diff(out, c->base, c->a, &fm_bundle_for_server, diag) : FM_OK;
		err = memory_close(&m, err, &plain, diag);
		if (!err)
			err = pack_own(&plain, packing, ret, diag);
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

enum fm_err fm_served_source(struct fm_served *c, const char *name, struct fm_answer *ret, struct fm_diag *diag)
{
	pthread_mutex_lock(&c->lock);
	enum fm_err err = c->a ? FM_OK : refresh(c, diag);
	const struct fm_profile *p = err ? NULL : c->a->profile;
	bool is_found = false;
	for (size_t i = 0; !err && i < p->sources.n && !is_found; i++)
		if (fm_str_eq(p->sources.items[i].filename, fm_str_of(name))) {
			*ret = (struct fm_answer){ fm_strdup_n(p->sources.items[i].text.p,
							       p->sources.items[i].text.len),
						   p->sources.items[i].text.len };
			is_found = true;
		}
	pthread_mutex_unlock(&c->lock);
	if (!err && !is_found)
		err = fm_diag_set(diag, FM_E_NOT_FOUND, "the capture has no text of that file");
	return err;
}
