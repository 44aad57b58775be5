// SPDX-License-Identifier: Apache-2.0
#include "render/json/now_json.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "render/shared/label.h"

static const char *const class_keys[FM_N_CLASSES] = {
	"python_s", "native_s", "system_s", "gc_s", "gil_wait_s", "wait_s"
};
// By class, for the letters of a thread's activity.
static const char class_letters[FM_N_CLASSES + 1] = "pnsglw";

static void seconds(struct fm_json *j, const char *key, uint64_t ns)
{
	fm_json_real(j, key, round((double)ns / 1e3) / 1e6); // microseconds are enough
}

static void classes(struct fm_json *j, const uint64_t *class_ns)
{
	for (unsigned c = 0; c < FM_N_CLASSES; c++)
		seconds(j, class_keys[c], class_ns[c]);
}

static uint64_t since_start(const struct fm_now *now, uint64_t ns)
{
	return ns > now->start_ns ? ns - now->start_ns : 0;
}

// Words joined by NUL bytes.
static void words(struct fm_json *j, const char *key, struct fm_str joined)
{
	fm_json_array(j, key);
	for (uint32_t from = 0, i = 0; joined.len && i <= joined.len; i++)
		if (i == joined.len || !joined.p[i]) {
			fm_json_str(j, NULL, (struct fm_str){ joined.p + from, i - from });
			from = i + 1;
		}
	fm_json_end(j);
}

static void number_or_null(struct fm_json *j, const char *key, struct fm_str text)
{
	int64_t number = 0;
	for (uint32_t i = 0; i < text.len && i < 9 && text.p[i] >= '0' && text.p[i] <= '9'; i++)
		number = number * 10 + (text.p[i] - '0');
	if (text.len)
		fm_json_i64(j, key, number);
	else
		fm_json_null(j, key);
}

// Of each process the latest, if it is among the last ones that were written.
#define MAX_LEVELS 4096u
static uint64_t resident_bytes(const struct fm_profile *p)
{
	uint64_t sum = 0;
	bool *is_seen = fm_alloc(p->processes.n + 1);
	for (size_t i = p->memory_levels.n, n = 0; i-- > 0 && n < MAX_LEVELS; n++) {
		const struct fm_memory_level *l = &p->memory_levels.items[i];
		if (l->process_id >= p->processes.n || is_seen[l->process_id])
			continue;
		is_seen[l->process_id] = true;
		sum += p->processes.items[l->process_id].end_ns ? 0 : l->rss_bytes;
	}
	free(is_seen);
	return sum;
}

static void head(struct fm_json *j, const struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p)
{
	const struct fm_str none = FM_STR_LIT("");
	words(j, "command", fm_profile_meta(p, "command", none));
	const struct fm_process *first = p->processes.n ? &p->processes.items[0] : NULL;
	fm_json_str(j, "python", first ? first->info.python_version : none);
	fm_json_u64(j, "pid", first ? first->info.pid : 0);
	fm_json_object(j, "exit");
	number_or_null(j, "code", fm_profile_meta(p, "exit_code", none));
	number_or_null(j, "signal", fm_profile_meta(p, "exit_signal", none));
	fm_json_end(j);
	seconds(j, "elapsed_s", since_start(now, now->now_ns));
	seconds(j, "window_s", now->window_ns);
	fm_json_u64(j, "samples", r->n_samples);
	fm_json_u64(j, "wait_samples", r->n_waits);
	fm_json_u64(j, "trace_events", r->n_events);
	fm_json_bool(j, "is_traced", now->is_traced);
	fm_json_u64(j, "rss_bytes", resident_bytes(p));
	fm_json_object(j, "time");
	classes(j, now->class_ns);
	fm_json_end(j);
}

static void function_name(struct fm_json *j, const struct fm_function *f, uint32_t line)
{
	fm_json_str(j, "name", f->name);
	fm_json_str(j, "module", f->module.p ? f->module : FM_STR_LIT(""));
	fm_json_str(j, "file", f->file.p ? f->file : FM_STR_LIT(""));
	fm_json_u64(j, "line", line);
	fm_json_str(j, "kind", fm_label_kind(f));
}

static struct fm_str thread_name(const struct fm_profile *p, const struct fm_thread *t)
{
	if (t->process_id < p->processes.n && p->processes.items[t->process_id].info.pid == t->tid)
		return FM_STR_LIT("main");
	return t->name;
}

// How busy the thread was in each bucket, and a letter for what it did most.
static void activity(struct fm_json *j, const struct fm_now_thread *t)
{
	char letters[FM_RECENT_SHOWN];
	fm_json_array(j, "busy");
	for (uint32_t i = 0; i < FM_RECENT_SHOWN; i++) {
		uint64_t cpu_ns = 0, most_ns = 0;
		letters[i] = '.';
		for (unsigned c = 0; c < FM_N_CLASSES; c++) {
			cpu_ns += c < FM_CLASS_GIL_WAIT ? t->bucket_ns[i][c] : 0;
			if (t->bucket_ns[i][c] > most_ns) {
				most_ns = t->bucket_ns[i][c];
				letters[i] = class_letters[c];
			}
		}
		fm_json_real(j, NULL, round(100.0 * (double)cpu_ns / FM_RECENT_BUCKET_NS) / 100);
	}
	fm_json_end(j);
	fm_json_str(j, "doing", (struct fm_str){ letters, FM_RECENT_SHOWN });
}

static void open_zones(struct fm_json *j, const struct fm_recent *r, const struct fm_profile *p, uint32_t thread_id)
{
	const struct fm_recent_thread *t = thread_id < r->threads.n ? &r->threads.items[thread_id] : NULL;
	fm_json_array(j, "zones");
	for (size_t i = 0; t && !t->is_lost && i < t->open.n; i++) {
		fm_zone_ref ref = t->open.items[i].ref;
		if (fm_zone_ref_is_name(ref) && fm_zone_ref_id(ref) < p->trace_names.n &&
		    p->trace_names.items[fm_zone_ref_id(ref)].kind == FM_NAME_ZONE)
			fm_json_str(j, NULL, fm_now_ref_name(p, ref));
	}
	fm_json_end(j);
}

static void threads(struct fm_json *j, const struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p)
{
	fm_json_array(j, "threads");
	for (size_t i = 0; i < now->threads.n; i++) {
		const struct fm_now_thread *t = &now->threads.items[i];
		const struct fm_thread *known = &p->threads.items[t->thread_id];
		fm_json_object(j, NULL);
		fm_json_u64(j, "thread", t->thread_id);
		fm_json_u64(j, "pid",
			    known->process_id < p->processes.n ? p->processes.items[known->process_id].info.pid : 0);
		fm_json_u64(j, "tid", known->tid);
		fm_json_str(j, "name", thread_name(p, known));
		fm_json_str(j, "state", fm_str_of(t->state));
		seconds(j, "cpu_s", t->cpu_ns);
		classes(j, t->class_ns);
		if (t->has_place) {
			fm_json_object(j, "at");
			function_name(j, &t->place.function, t->place.line);
			fm_json_end(j);
		} else {
			fm_json_null(j, "at");
		}
		open_zones(j, r, p, t->thread_id);
		activity(j, t);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void functions(struct fm_json *j, const struct fm_now *now)
{
	fm_json_array(j, "functions");
	for (size_t i = 0; i < now->functions.n; i++) {
		const struct fm_now_function *f = &now->functions.items[i];
		fm_json_object(j, NULL);
		function_name(j, &f->function, f->function.line);
		seconds(j, "self_s", f->self_ns);
		seconds(j, "total_s", f->total_ns);
		seconds(j, "wait_s", f->wait_ns);
		fm_json_u64(j, "calls", f->n_calls);
		seconds(j, "own_s", f->own_ns);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void zones(struct fm_json *j, const struct fm_now *now, const struct fm_profile *p)
{
	fm_json_array(j, "zones");
	for (size_t i = 0; i < now->zones.n; i++) {
		const struct fm_now_zone *z = &now->zones.items[i];
		fm_json_object(j, NULL);
		fm_json_str(j, "name", p->trace_names.items[z->name].name);
		fm_json_str(j, "file", p->trace_names.items[z->name].file);
		fm_json_u64(j, "line", p->trace_names.items[z->name].line);
		fm_json_u64(j, "n", z->n);
		seconds(j, "total_s", z->total_ns);
		seconds(j, "mean_s", z->n ? z->total_ns / z->n : 0);
		seconds(j, "max_s", z->max_ns);
		fm_json_u64(j, "open", z->n_open);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void counters(struct fm_json *j, const struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p)
{
	fm_json_array(j, "counters");
	for (size_t i = 0; i < r->counters.n; i++) {
		const struct fm_recent_counter *c = &r->counters.items[i];
		fm_json_object(j, NULL);
		fm_json_str(j, "name",
			    c->name < p->trace_names.n ? p->trace_names.items[c->name].name : FM_STR_LIT("[lost]"));
		fm_json_real(j, "value", c->value);
		fm_json_array(j, "values"); // null: not set in that bucket
		for (uint64_t at = now->first_bucket; at < now->first_bucket + FM_RECENT_SHOWN; at++)
			if (c->index[at % FM_RECENT_KEPT] == at)
				fm_json_real(j, NULL, c->values[at % FM_RECENT_KEPT]);
			else
				fm_json_null(j, NULL);
		fm_json_end(j);
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void marks(struct fm_json *j, const struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p)
{
	fm_json_array(j, "marks"); // oldest first
	for (uint64_t i = r->n_marks - FM_MIN(r->n_marks, FM_RECENT_MARKS); i < r->n_marks; i++) {
		const struct fm_trace_mark *m = &r->marks[i % FM_RECENT_MARKS];
		fm_json_object(j, NULL);
		seconds(j, "t_s", since_start(now, m->time_ns));
		fm_json_u64(j, "thread", m->thread_id);
		fm_json_str(j, "text",
			    m->name < p->trace_names.n ? p->trace_names.items[m->name].name : FM_STR_LIT("[lost]"));
		fm_json_end(j);
	}
	fm_json_end(j);
}

static void spans(struct fm_json *j, const struct fm_now *now, const struct fm_profile *p)
{
	fm_json_array(j, "spans"); // [thread, depth, begin, duration or -1 while it lasts, name]
	for (size_t i = 0; i < now->spans.n; i++) {
		const struct fm_recent_span *s = &now->spans.items[i];
		fm_json_array(j, NULL);
		fm_json_u64(j, NULL, s->thread_id);
		fm_json_u64(j, NULL, s->depth);
		seconds(j, NULL, since_start(now, s->begin_ns));
		if (s->end_ns)
			seconds(j, NULL, s->end_ns - s->begin_ns);
		else
			fm_json_i64(j, NULL, -1);
		fm_json_str(j, NULL, fm_now_ref_name(p, s->ref));
		fm_json_end(j);
	}
	fm_json_end(j);
}

void fm_now_json(FILE *out, const struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p,
		 const struct fm_now_facts *facts)
{
	struct fm_json j;
	fm_json_init(&j, out);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.live/1"));
	fm_json_str(&j, "state",
		    facts->has_ended ? FM_STR_LIT("ended")
		    : now            ? FM_STR_LIT("running")
				     : FM_STR_LIT("starting"));
	fm_json_u64(&j, "file_bytes", facts->file_bytes);
	seconds(&j, "viewer_cpu_s", facts->cost_ns);
	if (now) {
		head(&j, now, r, p);
		seconds(&j, "bucket_s", FM_RECENT_BUCKET_NS);
		fm_json_u64(&j, "first_bucket", now->first_bucket);
		// In seconds since the start; the first buckets may lie before it.
		fm_json_real(&j, "first_bucket_s",
			     ((double)now->first_bucket * FM_RECENT_BUCKET_NS - (double)now->start_ns) / 1e9);
		fm_json_u64(&j, "threads_alive", now->n_threads);
		threads(&j, now, r, p);
		functions(&j, now);
		zones(&j, now, p);
		counters(&j, now, r, p);
		marks(&j, now, r, p);
		spans(&j, now, p);
	}
	fm_json_end(&j);
}
