// Chrome trace events from consecutive samples of each thread: a frame begins with the first sample that shows it and
// ends with the first that does not. A sample covers the time of its weight before it; a hole longer than that closes
// all frames.
#include <stdlib.h>

#include "aggregate/path.h"
#include "base/json.h"
#include "render/chrometrace_zones.h"
#include "render/formats.h"
#include "render/label.h"

// Where a thread has calls as well, its samples get a row of their own: frames of two kinds cannot nest in one.
#define SAMPLES_TID_BIT (1u << 30)

struct timeline {
	struct fm_path path;
	uint64_t end_ns; // of the latest sample
	struct fm_zone_track track;
};

struct writer {
	struct fm_json j;
	struct fm_analysis *a;
	uint64_t origin_ns;
	bool has_calls;
	FM_VEC(struct timeline) threads;
};

static void write_event(struct writer *w, char phase, uint32_t thread_id, uint64_t time_ns, uint32_t node_id)
{
	const struct fm_profile *p = w->a->profile;
	const struct fm_node *node = &w->a->view.nodes.items[node_id];
	uint32_t process = fm_label_process_of(w->a, thread_id);
	fm_json_newline(&w->j);
	fm_json_object(&w->j, NULL);
	fm_json_str(&w->j, "ph", (struct fm_str){ &phase, 1 });
	fm_json_u64(&w->j, "pid", process != FM_NO_ID ? p->processes.items[process].info.pid : 0);
	uint64_t tid = thread_id < p->threads.n ? p->threads.items[thread_id].tid : 0;
	fm_json_u64(&w->j, "tid", w->has_calls ? tid | SAMPLES_TID_BIT : tid);
	fm_json_real(&w->j, "ts", (double)(time_ns - w->origin_ns) / 1e3);
	if (phase == 'B') { // an end closes the innermost open frame, whatever its name
		fm_json_str(&w->j, "cat", FM_STR_LIT("fathom"));
		struct fm_buf name = { 0 };
		fm_label_name(&name, w->a, node);
		fm_json_str(&w->j, "name", (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
		fm_buf_deinit(&name);
		struct fm_buf loc = { 0 }; // for Tracy's importer
		struct fm_str file = fm_label_file(w->a, node->function_id);
		fm_buf_bytes(&loc, file.p, file.len);
		fm_buf_printf(&loc, ":%u", node->line);
		if (file.len && node->line)
			fm_json_str(&w->j, "loc", (struct fm_str){ (const char *)loc.data, (uint32_t)loc.len });
		fm_buf_deinit(&loc);
		fm_json_object(&w->j, "args");
		fm_json_str(&w->j, "filename", fm_label_file(w->a, node->function_id));
		if (node->line)
			fm_json_u64(&w->j, "line", node->line);
		fm_json_end(&w->j);
	}
	fm_json_end(&w->j);
}

// Closes and opens frames so that the thread stands in node from time_ns on.
static void move_to(struct writer *w, uint32_t thread_id, uint64_t time_ns, uint32_t node)
{
	struct fm_path *path = &w->threads.items[thread_id].path;
	const struct fm_view *view = &w->a->view;
	// What ends must be said before the path forgets it.
	uint32_t common = node, depth = (uint32_t)path->nodes.n;
	while (view->nodes.items[common].depth > depth)
		common = view->nodes.items[common].parent;
	while (depth > view->nodes.items[common].depth || (depth && path->nodes.items[depth - 1] != common)) {
		if (depth == view->nodes.items[common].depth)
			common = view->nodes.items[common].parent;
		write_event(w, 'E', thread_id, time_ns, path->nodes.items[--depth]);
	}
	uint32_t kept = fm_path_move(path, view, node);
	for (uint32_t d = kept; d < path->nodes.n; d++)
		write_event(w, 'B', thread_id, time_ns, path->nodes.items[d]);
}

static void add_sample(struct writer *w, const struct fm_sample *s)
{
	struct timeline *t = &w->threads.items[s->thread_id];
	uint64_t start = s->time_ns > s->weight_ns ? s->time_ns - s->weight_ns : 0;
	start = FM_MAX(start, w->origin_ns);
	// Timers jitter: only a hole of half a sample's weight or more is one.
	bool is_hole = start > t->end_ns && start - t->end_ns > s->weight_ns / 2;
	if (is_hole && t->path.nodes.n)
		move_to(w, s->thread_id, t->end_ns, 0);
	if (!is_hole || start < t->end_ns)
		start = t->end_ns;
	move_to(w, s->thread_id, start, fm_view_node(&w->a->view, s->stack_id));
	t->end_ns = FM_MAX(s->time_ns, start);
}

static void add_calls(struct writer *w, const struct fm_profile *p, struct fm_zone_batch *batch)
{
	fm_vec_grow_to(&w->threads, (size_t)batch->thread_id + 1);
	struct fm_zone_track *track = &w->threads.items[batch->thread_id].track;
	uint32_t process = fm_label_process_of(w->a, batch->thread_id);
	track->j = &w->j;
	track->origin_ns = w->origin_ns;
	track->pid = process != FM_NO_ID ? w->a->profile->processes.items[process].info.pid : 0;
	track->tid = batch->thread_id < p->threads.n ? p->threads.items[batch->thread_id].tid : 0;
	fm_zone_track_add(track, p, batch);
}

static void write_name(struct writer *w, const char *what, uint64_t pid, const uint64_t *tid, struct fm_str name)
{
	fm_json_newline(&w->j);
	fm_json_object(&w->j, NULL);
	fm_json_str(&w->j, "ph", FM_STR_LIT("M"));
	fm_json_str(&w->j, "name", fm_str_of(what));
	fm_json_u64(&w->j, "pid", pid);
	if (tid)
		fm_json_u64(&w->j, "tid", *tid);
	fm_json_object(&w->j, "args");
	fm_json_str(&w->j, "name", name);
	fm_json_end(&w->j);
	fm_json_end(&w->j);
}

static void write_names(struct writer *w)
{
	const struct fm_profile *p = w->a->profile;
	for (uint32_t i = 0; i < p->processes.n; i++) {
		struct fm_buf name = { 0 };
		fm_label_command(&name, p->processes.items[i].info.command);
		write_name(w, "process_name", p->processes.items[i].info.pid, NULL,
			   (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
		fm_buf_deinit(&name);
	}
	for (uint32_t i = 0; i < p->threads.n; i++) {
		uint32_t process = fm_label_process_of(w->a, i);
		uint64_t tid = p->threads.items[i].tid;
		if (p->threads.items[i].name.len && process != FM_NO_ID)
			write_name(w, "thread_name", p->processes.items[process].info.pid, &tid,
				   p->threads.items[i].name);
		if (w->has_calls && process != FM_NO_ID) {
			tid |= SAMPLES_TID_BIT;
			struct fm_buf name = { 0 };
			fm_buf_bytes(&name, p->threads.items[i].name.p, p->threads.items[i].name.len);
			fm_buf_str(&name, " (samples)");
			write_name(w, "thread_name", p->processes.items[process].info.pid, &tid,
				   (struct fm_str){ (const char *)name.data, (uint32_t)name.len });
			fm_buf_deinit(&name);
		}
	}
}

enum fm_err fm_write_chrometrace(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct writer w = { .a = a, .origin_ns = UINT64_MAX };
	w.has_calls = fm_profile_meta(a->profile, "trace_events", (struct fm_str){ "", 0 }).len > 0;
	for (size_t i = 0; i < a->tally.threads.n; i++)
		if (a->tally.threads.items[i].n)
			w.origin_ns = FM_MIN(w.origin_ns, a->tally.threads.items[i].first_ns);
	if (a->profile->processes.n && a->profile->processes.items[0].info.start_ns)
		w.origin_ns = FM_MIN(w.origin_ns, a->profile->processes.items[0].info.start_ns);
	fm_vec_grow_to(&w.threads, a->tally.threads.n);
	struct fm_reader *r;
	enum fm_err err = fm_reader_open(a->path, &r, diag);
	if (err)
		return err;
	fm_json_init(&w.j, out);
	fm_json_array(&w.j, NULL);
	write_names(&w);
	struct fm_event event;
	while (!fm_reader_next(r, &event) && !ferror(out)) {
		const struct fm_sample *s = &event.sample;
		if (event.type == FM_EVENT_SAMPLE && s->thread_id < w.threads.n && s->class < FM_N_CLASSES &&
		    fm_view_shows_class(&a->options, s->class))
			add_sample(&w, s);
		else if (event.type == FM_EVENT_TRACE)
			add_calls(&w, fm_reader_profile(r), event.trace);
	}
	fm_reader_close(r);
	for (uint32_t i = 0; i < w.threads.n; i++) {
		move_to(&w, i, FM_MAX(w.threads.items[i].end_ns, w.origin_ns), 0);
		fm_zone_track_end(&w.threads.items[i].track);
		fm_path_deinit(&w.threads.items[i].path);
	}
	fm_json_end(&w.j);
	fm_json_newline(&w.j);
	fm_vec_deinit(&w.threads);
	return FM_OK;
}
