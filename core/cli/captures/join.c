// SPDX-License-Identifier: Apache-2.0
#include "cli/captures/captures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "format/writer.h"
#include "format/zones.h"
#include "read/reader.h"

// What stays the same from run to run is known by its id in the one file; ids of a run's own are
// looked up here.
struct join {
	struct fm_writer *w;
	const struct fm_profile *p; // of the run that is added; whole
	uint64_t shift_ns;          // what its times have to be moved by; wraps around
	uint64_t end_ns;            // of what is there so far, 0 = nothing
	uint32_t *processes, *threads, *images, *codes, *frames, *stacks, *names;
	struct fm_zone_encoder *encoders; // by thread of the run
	struct fm_intern sources, coverages;
};

static uint64_t moved(const struct join *j, uint64_t time_ns)
{
	return time_ns ? time_ns + j->shift_ns : 0;
}

static uint32_t at(const uint32_t *ids, size_t n, uint32_t id)
{
	return id < n ? ids[id] : FM_NO_ID;
}

// Runs follow each other: the time between them is nobody's.
static void place_in_time(struct join *j)
{
	const struct fm_profile *p = j->p;
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;
	for (size_t i = 0; i < p->processes.n; i++) {
		uint64_t start_ns = p->processes.items[i].info.start_ns;
		begin_ns = start_ns ? FM_MIN(begin_ns, start_ns) : begin_ns;
		end_ns = FM_MAX(end_ns, FM_MAX(p->processes.items[i].end_ns, start_ns));
	}
	for (size_t i = 0; i < p->threads.n; i++)
		end_ns = FM_MAX(end_ns, p->threads.items[i].end_ns);
	for (size_t i = 0; i < p->memory_levels.n; i++)
		end_ns = FM_MAX(end_ns, p->memory_levels.items[i].time_ns);
	if (begin_ns == UINT64_MAX)
		begin_ns = end_ns;
	j->shift_ns = j->end_ns ? j->end_ns - begin_ns : 0;
	j->end_ns = end_ns + j->shift_ns;
}

static uint64_t number(struct fm_str s)
{
	uint64_t v = 0;
	for (uint32_t i = 0; i < s.len && s.p[i] >= '0' && s.p[i] <= '9' && v < UINT64_MAX / 10 - 9; i++)
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	return v;
}

static bool ends_with(struct fm_str s, const char *end)
{
	size_t len = strlen(end);
	return s.len >= len && !memcmp(s.p + s.len - len, end, len);
}

// Times and counts of the whole capture; others are the same in every run, or the first one's.
static bool is_sum(struct fm_str key)
{
	return (key.len > 2 && !memcmp(key.p, "n_", 2)) || fm_str_eq(key, FM_STR_LIT("trace_events")) ||
	       (ends_with(key, "_ns") && !fm_str_eq(key, FM_STR_LIT("memory_log_end_ns")));
}

struct metas {
	struct fm_intern keys;
	FM_VEC(struct fm_buf) values;
	FM_VEC(uint64_t) numbers;
};

static void gather_metas(struct metas *m, const struct fm_profile *p)
{
	for (size_t i = 0; i < p->metas.n; i++) {
		struct fm_str key = p->metas.items[i].key, value = p->metas.items[i].value;
		bool is_new;
		uint32_t id = fm_intern_id(&m->keys, key, &is_new);
		fm_vec_grow_to(&m->values, (size_t)id + 1);
		fm_vec_grow_to(&m->numbers, (size_t)id + 1);
		if (is_new)
			fm_buf_bytes(&m->values.items[id], value.p, value.len);
		if (is_sum(key))
			m->numbers.items[id] += number(value);
		else if (fm_str_eq(key, FM_STR_LIT("max_rss_bytes")))
			m->numbers.items[id] = FM_MAX(m->numbers.items[id], number(value));
	}
}

static void write_metas(struct metas *m, struct fm_writer *w)
{
	for (uint32_t id = 0; id < m->values.n; id++) {
		struct fm_str key = fm_intern_get(&m->keys, id);
		_cleanup_free_ char *name = fm_strdup_n(key.p, key.len);
		char text[32];
		struct fm_str value = { (const char *)m->values.items[id].data, (uint32_t)m->values.items[id].len };
		if (is_sum(key) || fm_str_eq(key, FM_STR_LIT("max_rss_bytes"))) {
			snprintf(text, sizeof(text), "%" PRIu64, m->numbers.items[id]);
			value = fm_str_of(text);
		}
		fm_writer_meta(w, name, value);
		fm_buf_deinit(&m->values.items[id]);
	}
	fm_vec_deinit(&m->values);
	fm_vec_deinit(&m->numbers);
	fm_intern_deinit(&m->keys);
}

static void add_processes(struct join *j)
{
	const struct fm_profile *p = j->p;
	for (size_t i = 0; i < p->processes.n; i++) {
		const struct fm_process *process = &p->processes.items[i];
		struct fm_process_info info = process->info;
		info.start_ns = moved(j, info.start_ns);
		j->processes[i] = fm_writer_process(j->w, &info);
		if (process->end_ns)
			fm_writer_process_end(j->w, j->processes[i], moved(j, process->end_ns), process->exit_code,
					      process->exit_signal);
	}
	for (size_t i = 0; i < p->threads.n; i++) {
		const struct fm_thread *t = &p->threads.items[i];
		j->threads[i] = fm_writer_thread(j->w, at(j->processes, p->processes.n, t->process_id), t->tid,
						 moved(j, t->start_ns));
		if (t->name.len)
			fm_writer_thread_name(j->w, j->threads[i], t->name);
		if (t->end_ns || t->cpu_ns || t->n_dropped)
			fm_writer_thread_end(j->w, j->threads[i],
					     &(struct fm_thread_totals){ moved(j, t->end_ns), t->cpu_ns, t->n_dropped,
									 t->ready_ns1 });
	}
}

static void add_places(struct join *j)
{
	const struct fm_profile *p = j->p;
	for (size_t i = 0; i < p->images.n; i++)
		j->images[i] = fm_writer_image(j->w, p->images.items[i].path, p->images.items[i].build_id,
					       p->images.items[i].flags);
	for (size_t i = 0; i < p->mappings.n; i++) {
		const struct fm_mapping *m = &p->mappings.items[i];
		fm_writer_mapping(j->w, at(j->processes, p->processes.n, m->process_id),
				  at(j->images, p->images.n, m->image_id), m->start, m->end, m->bias);
	}
	for (size_t i = 0; i < p->codes.n; i++)
		j->codes[i] = fm_writer_code(j->w, &p->codes.items[i]);
	for (size_t i = 0; i < p->frames.n; i++) {
		const struct fm_frame *f = &p->frames.items[i];
		uint32_t ref = f->kind == FM_FRAME_NATIVE   ? at(j->images, p->images.n, f->ref)
			       : f->kind == FM_FRAME_PYTHON ? at(j->codes, p->codes.n, f->ref)
							    : f->ref;
		j->frames[i] = fm_writer_frame(j->w, (enum fm_frame_kind)f->kind, ref, f->value);
	}
	for (size_t i = 1; i < p->stacks.n; i++) // [0] is the empty stack, here as there
		j->stacks[i] = fm_writer_stack(j->w, j->stacks[p->stacks.items[i].parent],
					       j->frames[p->stacks.items[i].frame_id]);
	for (size_t i = 0; i < p->trace_names.n; i++)
		j->names[i] = fm_writer_trace_place(j->w, (enum fm_trace_name_kind)p->trace_names.items[i].kind,
						    p->trace_names.items[i].name, p->trace_names.items[i].file,
						    p->trace_names.items[i].line);
	for (size_t i = 0; i < p->symbols.n; i++) {
		const struct fm_symbol_info *s = &p->symbols.items[i];
		fm_writer_symbol(j->w, at(j->images, p->images.n, s->image_id), s->addr,
				 &p->symbol_links.items[s->first_link], s->n_links);
	}
}

static fm_zone_ref sum_ref(const struct join *j, fm_zone_ref ref)
{
	uint32_t id = fm_zone_ref_id(ref);
	if (fm_zone_ref_is_name(ref))
		return fm_zone_ref_of(FM_ZONE_BEGIN, at(j->names, j->p->trace_names.n, id));
	return fm_zone_ref_of(FM_ZONE_ENTER, at(j->codes, j->p->codes.n, id));
}

static void add_call_sums(struct join *j)
{
	for (size_t i = 0; i < j->p->call_sums.n; i++) {
		struct fm_call_sum sum = j->p->call_sums.items[i];
		sum.caller = sum_ref(j, sum.caller);
		sum.callee = sum_ref(j, sum.callee);
		fm_writer_call_sum(j->w, &sum);
	}
}

static void add_texts(struct join *j)
{
	const struct fm_profile *p = j->p;
	for (size_t i = 0; i < p->sources.n; i++) {
		bool is_new;
		fm_intern_id(&j->sources, p->sources.items[i].filename, &is_new);
		if (is_new)
			fm_writer_source(j->w, p->sources.items[i].filename, p->sources.items[i].text);
	}
	for (size_t i = 0; i < p->coverages.n; i++) {
		struct fm_str what = p->coverages.items[i].what, why = p->coverages.items[i].why;
		struct fm_buf both = { 0 };
		bool is_new;
		fm_buf_bytes(&both, what.p, what.len);
		fm_buf_u8(&both, 0);
		fm_buf_bytes(&both, why.p, why.len);
		fm_intern_id(&j->coverages, (struct fm_str){ (char *)both.data, (uint32_t)both.len }, &is_new);
		fm_buf_deinit(&both);
		if (is_new)
			fm_writer_coverage(j->w, what, why);
	}
}

static void add_memory(struct join *j)
{
	const struct fm_profile *p = j->p;
	for (size_t i = 0; i < p->sites.n; i++) {
		struct fm_site site = p->sites.items[i];
		site.process_id = at(j->processes, p->processes.n, site.process_id);
		site.stack_id = at(j->stacks, p->stacks.n, site.stack_id);
		fm_writer_site(j->w, &site);
	}
	for (size_t i = 0; i < p->histories.n; i++) {
		const struct fm_site_history *c = &p->histories.items[i];
		struct fm_site site = { .process_id = at(j->processes, p->processes.n, c->process_id),
					.stack_id = at(j->stacks, p->stacks.n, c->stack_id),
					.domain = c->domain };
		struct fm_history_point *points = fm_alloc((c->n + 1) * sizeof(*points));
		for (uint32_t k = 0; k < c->n; k++) {
			points[k] = p->history_points.items[c->first + k];
			points[k].time_ns = moved(j, points[k].time_ns);
		}
		fm_writer_site_history(j->w, &site, points, c->n);
		free(points);
	}
	for (size_t i = 0; i < p->memory_levels.n; i++) {
		struct fm_memory_level level = p->memory_levels.items[i];
		level.process_id = at(j->processes, p->processes.n, level.process_id);
		level.time_ns = moved(j, level.time_ns);
		fm_writer_memory_level(j->w, &level);
	}
	for (size_t i = 0; i < p->alloc_types.n; i++)
		fm_writer_alloc_type(j->w, at(j->processes, p->processes.n, p->alloc_types.items[i].process_id),
				     p->alloc_types.items[i].alloc_id, p->alloc_types.items[i].name);
	for (size_t i = 0; i < p->alloc_touches.n; i++)
		fm_writer_alloc_touched(j->w, at(j->processes, p->processes.n, p->alloc_touches.items[i].process_id),
					p->alloc_touches.items[i].alloc_id, p->alloc_touches.items[i].bytes);
}

static uint32_t zone_ref(const struct join *j, uint8_t op, uint32_t ref)
{
	if (op == FM_ZONE_ENTER || op == FM_ZONE_RESUME)
		return at(j->codes, j->p->codes.n, ref);
	if (op == FM_ZONE_BEGIN || op == FM_ZONE_MARK || op == FM_ZONE_COUNTER)
		return at(j->names, j->p->trace_names.n, ref);
	return ref;
}

static void add_trace(struct join *j, struct fm_zone_batch *batch)
{
	struct fm_zone_event z;
	uint32_t thread = batch->thread_id;
	if (thread >= j->p->threads.n)
		return;
	struct fm_zone_encoder *e = &j->encoders[thread];
	while (fm_trace_next(j->p, batch, &z) == FM_OK) {
		uint32_t ref = zone_ref(j, z.op, z.ref);
		bool is_name = z.op == FM_ZONE_BEGIN || z.op == FM_ZONE_MARK || z.op == FM_ZONE_COUNTER;
		if (!is_name || ref != FM_NO_ID)
			fm_zone_encode(e, z.op, ref, moved(j, z.time_ns), z.value);
	}
	struct fm_buf body = { 0 };
	if (fm_zone_encoder_take(e, j->threads[thread], &body))
		fm_writer_trace(j->w, j->threads[thread], body.data, body.len);
	fm_buf_deinit(&body);
}

static void add_event(struct join *j, struct fm_event *ev)
{
	size_t n_threads = j->p->threads.n, n_stacks = j->p->stacks.n;
	switch (ev->type) {
	case FM_EVENT_SAMPLE:
		ev->sample.thread_id = at(j->threads, n_threads, ev->sample.thread_id);
		ev->sample.stack_id = at(j->stacks, n_stacks, ev->sample.stack_id);
		ev->sample.time_ns = moved(j, ev->sample.time_ns);
		fm_writer_sample(j->w, &ev->sample);
		break;
	case FM_EVENT_ALLOC:
		ev->alloc.thread_id = at(j->threads, n_threads, ev->alloc.thread_id);
		ev->alloc.stack_id = at(j->stacks, n_stacks, ev->alloc.stack_id);
		ev->alloc.time_ns = moved(j, ev->alloc.time_ns);
		fm_writer_alloc(j->w, &ev->alloc);
		break;
	case FM_EVENT_FREE:
		ev->free.thread_id = at(j->threads, n_threads, ev->free.thread_id);
		ev->free.time_ns = moved(j, ev->free.time_ns);
		fm_writer_free(j->w, &ev->free);
		break;
	case FM_EVENT_TRACE:
		add_trace(j, ev->trace);
		break;
	}
}

static void map_ids(struct join *j)
{
	const struct fm_profile *p = j->p;
	j->processes = fm_alloc((p->processes.n + 1) * sizeof(uint32_t));
	j->threads = fm_alloc((p->threads.n + 1) * sizeof(uint32_t));
	j->images = fm_alloc((p->images.n + 1) * sizeof(uint32_t));
	j->codes = fm_alloc((p->codes.n + 1) * sizeof(uint32_t));
	j->frames = fm_alloc((p->frames.n + 1) * sizeof(uint32_t));
	j->stacks = fm_alloc((p->stacks.n + 1) * sizeof(uint32_t));
	j->names = fm_alloc((p->trace_names.n + 1) * sizeof(uint32_t));
	j->encoders = fm_alloc((p->threads.n + 1) * sizeof(*j->encoders));
	add_processes(j);
	add_places(j);
	add_call_sums(j);
	add_texts(j);
	add_memory(j);
}

static void forget_ids(struct join *j)
{
	for (size_t i = 0; i < j->p->threads.n; i++)
		fm_zone_encoder_deinit(&j->encoders[i]);
	uint32_t *const tables[] = { j->processes, j->threads, j->images, j->codes, j->frames, j->stacks, j->names };
	for (size_t i = 0; i < FM_ARRAY_LEN(tables); i++)
		free(tables[i]);
	free(j->encoders);
}

// Twice through the file: what its events refer to is whole after the first time.
static enum fm_err add_run(struct join *j, const char *path, struct metas *metas, struct fm_diag *diag)
{
	struct fm_reader *whole = NULL, *events = NULL;
	struct fm_event ev;
	enum fm_err err = fm_reader_open(path, &whole, diag);
	if (!err)
		err = fm_reader_open(path, &events, diag);
	if (!err) {
		while (fm_reader_next(whole, &ev) == FM_OK)
			continue;
		j->p = fm_reader_profile(whole);
		place_in_time(j);
		gather_metas(metas, j->p);
		map_ids(j);
		while (fm_reader_next(events, &ev) == FM_OK)
			add_event(j, &ev);
		forget_ids(j);
	}
	fm_reader_close(whole);
	fm_reader_close(events);
	return err;
}

static void tell_spread(struct fm_writer *w, const struct fm_runs *runs)
{
	struct fm_mean cpu = fm_figure_mean(&runs->cpu_s, runs->n), wall = fm_figure_mean(&runs->wall_s, runs->n),
		       rss = fm_figure_mean(&runs->max_rss_bytes, runs->n);
	char what[64], why[256], text[96];
	snprintf(what, sizeof(what), "single runs: this is the sum of %u of them", runs->n);
	snprintf(why, sizeof(why),
		 "a run took %.3f s of CPU time (spread %.3f) and %.3f s in all (spread %.3f), with %.1f MB (spread "
		 "%.1f)",
		 cpu.mean, cpu.spread, wall.mean, wall.spread, rss.mean / 1e6, rss.spread / 1e6);
	fm_writer_coverage(w, fm_str_of(what), fm_str_of(why));
	snprintf(text, sizeof(text), "%u", runs->n);
	fm_writer_meta(w, "runs", fm_str_of(text));
	const struct {
		const char *key;
		const struct fm_mean *mean;
	} means[] = { { "runs_cpu_s", &cpu }, { "runs_wall_s", &wall }, { "runs_max_rss_bytes", &rss } };
	for (size_t i = 0; i < FM_ARRAY_LEN(means); i++) {
		snprintf(text, sizeof(text), "%.6f %.6f %.6f", means[i].mean->mean, means[i].mean->spread,
			 means[i].mean->plus_minus);
		fm_writer_meta(w, means[i].key, fm_str_of(text));
	}
}

static enum fm_err write_runs(const struct fm_captures *captures, const char *path, struct fm_diag *diag)
{
	struct fm_view_options view = FM_VIEW_OPTIONS_DEFAULT;
	struct fm_runs runs = { 0 };
	struct join j = { 0 };
	struct metas metas = { 0 };
	enum fm_err err = fm_load_runs(&runs, captures, &view, diag);
	if (err)
		return err;
	err = fm_writer_open(path, &j.w, diag);
	if (!err)
		tell_spread(j.w, &runs); // first of all that is to be said
	for (size_t i = 0; !err && i < captures->paths.n; i++)
		err = add_run(&j, captures->paths.items[i], &metas, diag);
	if (j.w) {
		write_metas(&metas, j.w);
		enum fm_err closed = fm_writer_close(j.w, diag);
		err = err ? err : closed;
	}
	fm_intern_deinit(&j.sources);
	fm_intern_deinit(&j.coverages);
	fm_runs_deinit(&runs);
	return err;
}

static bool is_fresh(const char *path, const struct fm_captures *captures)
{
	struct stat all, one;
	if (stat(path, &all) != 0)
		return false;
	for (size_t i = 0; i < captures->paths.n; i++)
		if (stat(captures->paths.items[i], &one) != 0 || one.st_mtime > all.st_mtime)
			return false;
	return true;
}

enum fm_err fm_join_runs(const struct fm_captures *captures, char **ret, struct fm_diag *diag)
{
	const char *first = captures->paths.items[0], *slash = strrchr(first, '/');
	if (captures->paths.n == 1) {
		*ret = fm_strdup_n(first, strlen(first));
		return FM_OK;
	}
	char kept[4300], fresh[4400];
	snprintf(kept, sizeof(kept), "%.*sruns.fathom", slash ? (int)(slash + 1 - first) : 0, first);
	snprintf(fresh, sizeof(fresh), "%s.%d", kept, (int)getpid());
	if (is_fresh(kept, captures)) {
		*ret = fm_strdup_n(kept, strlen(kept));
		return FM_OK;
	}
	enum fm_err err = write_runs(captures, fresh, diag);
	if (!err && rename(fresh, kept) == 0) {
		*ret = fm_strdup_n(kept, strlen(kept));
		return FM_OK;
	}
	unlink(fresh);
	if (err != FM_E_IO && err != FM_E_REFUSED && err != FM_E_NOT_FOUND)
		return err;
	const char *passing = fm_passing_file();
	if (!passing)
		return err;
	err = write_runs(captures, passing, diag);
	if (!err)
		*ret = fm_strdup_n(passing, strlen(passing));
	return err;
}
