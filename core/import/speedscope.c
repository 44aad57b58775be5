// SPDX-License-Identifier: Apache-2.0
// The file format of speedscope.app: each profile is a thread, sampled or evented.
//
// Members stand in any order, so the file is read twice: first what its frames are and what each
// profile counts, then what happened. Bound: the frames, and of one profile at a time 8 bytes for
// each sample whose weight comes later.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/formats.h"
#include "import/frame_text.h"
#include "import/json_in.h"

#define SCHEMA "speedscope.app/file-format-schema"
#define MAX_DEPTH 100000u
#define MAX_NS 4e18

struct profile {
	double ns_per_unit; // 0 = counts bytes
	bool is_count;      // of samples
	double start;
	uint32_t thread_id;
};

struct step {
	uint32_t frame_id, stack_id;
};

struct speedscope {
	struct fm_import *in;
	struct fm_json_in j;
	FM_VEC(uint32_t) frames;
	FM_VEC(struct profile) profiles;
	FM_VEC(struct step) path;    // the stack as it is
	FM_VEC(struct step) samples; // of this profile whose weights have not come
	FM_VEC(double) weights;      // or the other way round
	double first;                // of all starts, in ns
	double last_at;              // of the events of this profile
	size_t n_samples, n_weights; // of this profile so far
	bool has_events;
};

// The schema may stand at the end of a long file: then the words of a profile have to do.
bool fm_speedscope_recognise(const uint8_t *head, size_t n)
{
	bool is_profile = fm_json_in_has(head, n, "\"profiles\"") && fm_json_in_has(head, n, "\"startValue\"") &&
			  (fm_json_in_has(head, n, "\"sampled\"") || fm_json_in_has(head, n, "\"evented\""));
	return fm_json_in_is_object(head, n) && (is_profile || fm_json_in_has(head, n, SCHEMA));
}

// ---- First: frames, and what profiles count ----

static void read_frame(struct speedscope *s)
{
	struct fm_buf name = { 0 }, file = { 0 };
	struct fm_str key, text;
	int64_t line = 0;
	if (!fm_json_in_object(&s->j)) {
		fm_vec_push(&s->frames, fm_frame_of_text(s->in, FM_STR_LIT("?")));
		return;
	}
	while (fm_json_in_key(&s->j, &key)) {
		bool is_name = fm_str_eq(key, FM_STR_LIT("name")), is_file = fm_str_eq(key, FM_STR_LIT("file"));
		if (is_name || is_file) {
			text = fm_json_in_str(&s->j);
			fm_buf_bytes(is_name ? &name : &file, text.p, text.len);
		} else if (fm_str_eq(key, FM_STR_LIT("line"))) {
			line = fm_json_in_int(&s->j);
		} else {
			fm_json_in_skip(&s->j);
		}
	}
	struct fm_str names = { name.data ? (char *)name.data : "", (uint32_t)name.len },
		      files = { file.data ? (char *)file.data : "", (uint32_t)file.len };
	uint32_t known_line = line > 0 && line < INT32_MAX ? (uint32_t)line : 0;
	fm_vec_push(&s->frames,
		    files.len ? fm_frame_of_parts(s->in, names, files, known_line) : fm_frame_of_text(s->in, names));
	fm_buf_deinit(&name);
	fm_buf_deinit(&file);
}

static void read_shared(struct speedscope *s)
{
	struct fm_str key;
	if (!fm_json_in_object(&s->j))
		return;
	while (fm_json_in_key(&s->j, &key)) {
		if (!fm_str_eq(key, FM_STR_LIT("frames"))) {
			fm_json_in_skip(&s->j);
			continue;
		}
		if (fm_json_in_array(&s->j))
			while (fm_json_in_item(&s->j))
				read_frame(s);
	}
}

static void set_unit(struct profile *p, struct fm_str unit)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "nanoseconds", 1 },
		      { "microseconds", 1e3 },
		      { "milliseconds", 1e6 },
		      { "seconds", 1e9 },
		      { "bytes", 0 } };
	for (size_t i = 0; i < FM_ARRAY_LEN(units); i++)
		if (fm_str_eq(unit, fm_str_of(units[i].name))) {
			p->ns_per_unit = units[i].ns;
			p->is_count = false;
		}
}

// "process 12 thread (34): name", as fathom export calls them, "Process 12 Thread 34 "name"", as
// py-spy does; others by their place in the file.
static uint32_t thread_of(struct speedscope *s, struct fm_str name)
{
	static const char begin[] = "process ";
	uint32_t thread_id, process_id, pid = 0;
	const char *space = NULL;
	if (fm_str_starts_with(name, begin) || fm_str_starts_with(name, "Process ")) {
		uint32_t from = sizeof(begin) - 1;
		space = memchr(name.p + from, ' ', name.len - from);
	}
	if (space) {
		struct fm_str head = { name.p, (uint32_t)(space - name.p) },
			      rest = { space + 1, name.len - head.len - 1 };
		bool has_thread = fm_str_starts_with(rest, "thread (") || fm_str_starts_with(rest, "Thread ");
		if (has_thread && fm_text_take_number(&head, ' ', &pid))
			name = rest;
	}
	process_id = fm_import_process(s->in, pid);
	if (fm_thread_of_text(s->in, process_id, name, &thread_id))
		return thread_id;
	return fm_import_thread(s->in, process_id, (uint32_t)s->profiles.n + 1, name);
}

static void read_head(struct speedscope *s)
{
	struct profile p = { .ns_per_unit = (double)FM_IMPORT_SAMPLE_NS, .is_count = true };
	struct fm_buf name = { 0 };
	struct fm_str key, text;
	if (!fm_json_in_object(&s->j))
		return;
	while (fm_json_in_key(&s->j, &key)) {
		if (fm_str_eq(key, FM_STR_LIT("unit"))) {
			set_unit(&p, fm_json_in_str(&s->j));
		} else if (fm_str_eq(key, FM_STR_LIT("startValue"))) {
			p.start = fm_json_in_real(&s->j);
		} else if (fm_str_eq(key, FM_STR_LIT("name"))) {
			text = fm_json_in_str(&s->j);
			name.len = 0;
			fm_buf_bytes(&name, text.p, text.len);
		} else {
			fm_json_in_skip(&s->j);
		}
	}
	p.thread_id = thread_of(s, (struct fm_str){ name.data ? (char *)name.data : "", (uint32_t)name.len });
	fm_buf_deinit(&name);
	s->first = s->profiles.n ? fmin(s->first, p.start * p.ns_per_unit) : p.start * p.ns_per_unit;
	fm_vec_push(&s->profiles, p);
	if (p.is_count)
		fm_import_missing(s->in, "how much time a sample stands for",
				  "the file counts samples; each is shown as 1 ms");
}

// ---- Then: what happened ----

static uint64_t to_ns(double value)
{
	return value > 0 ? value < MAX_NS ? (uint64_t)llround(value) : (uint64_t)MAX_NS : 0;
}

static void add(struct speedscope *s, const struct profile *p, struct step at, double weight)
{
	uint8_t class = at.stack_id ? fm_import_class_of(s->in, at.frame_id) : FM_CLASS_NATIVE;
	uint64_t n = to_ns(weight);
	if (p->is_count)
		fm_import_sample(s->in, p->thread_id, at.stack_id, class, FM_MAX(n, 1u),
				 to_ns(weight * p->ns_per_unit));
	else if (p->ns_per_unit)
		fm_import_sample(s->in, p->thread_id, at.stack_id, class, 1, to_ns(weight * p->ns_per_unit));
	else
		fm_import_add_site(
			s->in, &(struct fm_import_site){ .process_id = s->in->threads.items[p->thread_id].process_id,
							 .stack_id = at.stack_id,
							 .domain = FM_ALLOC_MALLOC,
							 .alloc_bytes = n });
}

static struct step top(const struct speedscope *s)
{
	return s->path.n ? s->path.items[s->path.n - 1] : (struct step){ 0 };
}

static void push(struct speedscope *s, int64_t frame)
{
	if (frame < 0 || (uint64_t)frame >= s->frames.n) {
		fm_json_in_fail(&s->j, "the file does not define a frame of this number");
		return;
	}
	if (s->path.n >= MAX_DEPTH) {
		fm_json_in_fail(&s->j, "a stack is deeper than any program's");
		return;
	}
	uint32_t frame_id = s->frames.items[frame];
	struct step step = { frame_id, fm_writer_stack(s->in->w, top(s).stack_id, frame_id) };
	fm_vec_push(&s->path, step);
}

// A sample's frames, outermost first. Neighbours share most of theirs.
static struct step read_stack(struct speedscope *s)
{
	size_t depth = 0;
	if (!fm_json_in_array(&s->j))
		return (struct step){ 0 };
	while (fm_json_in_item(&s->j)) {
		int64_t frame = fm_json_in_int_or(&s->j, -1);
		bool is_same = depth < s->path.n && frame >= 0 && (uint64_t)frame < s->frames.n &&
			       s->frames.items[frame] == s->path.items[depth].frame_id;
		if (!is_same) {
			s->path.n = FM_MIN(s->path.n, depth);
			push(s, frame);
		}
		depth++;
	}
	s->path.n = FM_MIN(s->path.n, depth);
	return top(s);
}

static void read_samples(struct speedscope *s, const struct profile *p)
{
	size_t *i = &s->n_samples;
	if (!fm_json_in_array(&s->j))
		return;
	for (; fm_json_in_item(&s->j); ++*i) {
		struct step at = read_stack(s);
		if (*i < s->weights.n)
			add(s, p, at, s->weights.items[*i]);
		else
			fm_vec_push(&s->samples, at);
	}
}

static void read_weights(struct speedscope *s, const struct profile *p)
{
	size_t *i = &s->n_weights;
	if (!fm_json_in_array(&s->j))
		return;
	for (; fm_json_in_item(&s->j); ++*i) {
		double weight = fm_json_in_real(&s->j);
		if (*i < s->samples.n)
			add(s, p, s->samples.items[*i], weight);
		else
			fm_vec_push(&s->weights, weight);
	}
}

static void take_event(struct speedscope *s, const struct profile *p, bool is_open, int64_t frame, double at)
{
	if (at > s->last_at && s->path.n)
		add(s, p, top(s), at - s->last_at);
	else if (at > s->last_at && p->ns_per_unit)
		fm_import_pass_time(s->in, p->thread_id, to_ns((at - s->last_at) * p->ns_per_unit));
	if (at < s->last_at)
		fm_json_in_fail(&s->j, "an event is earlier than the one before it");
	s->last_at = at;
	if (is_open) {
		push(s, frame);
	} else if (!s->path.n || frame < 0 || (uint64_t)frame >= s->frames.n ||
		   top(s).frame_id != s->frames.items[frame]) {
		fm_json_in_fail(&s->j, "an event closes a frame that is not the innermost open one");
	} else {
		s->path.n--;
	}
}

static void read_events(struct speedscope *s, const struct profile *p)
{
	struct fm_str key;
	if (!fm_json_in_array(&s->j))
		return;
	s->last_at = p->start;
	s->has_events = true;
	while (fm_json_in_item(&s->j)) {
		bool is_open = false, is_known = false;
		int64_t frame = -1;
		double at = s->last_at;
		if (!fm_json_in_object(&s->j))
			continue;
		while (fm_json_in_key(&s->j, &key)) {
			if (fm_str_eq(key, FM_STR_LIT("type"))) {
				struct fm_str type = fm_json_in_str(&s->j);
				is_open = fm_str_eq(type, FM_STR_LIT("O"));
				is_known = is_open || fm_str_eq(type, FM_STR_LIT("C"));
			} else if (fm_str_eq(key, FM_STR_LIT("frame"))) {
				frame = fm_json_in_int_or(&s->j, -1);
			} else if (fm_str_eq(key, FM_STR_LIT("at"))) {
				at = fm_json_in_real(&s->j);
			} else {
				fm_json_in_skip(&s->j);
			}
		}
		if (is_known)
			take_event(s, p, is_open, frame, at);
	}
	fm_import_missing(s->in, "how often the program was sampled",
			  "the file has beginnings and ends of calls; each period between two is one sample");
}

static void read_profile(struct speedscope *s, const struct profile *p)
{
	struct fm_str key;
	if (!fm_json_in_object(&s->j))
		return;
	s->path.n = s->samples.n = s->weights.n = s->n_samples = s->n_weights = 0;
	s->has_events = false;
	fm_import_pass_time(s->in, p->thread_id, to_ns(p->start * p->ns_per_unit - s->first));
	while (fm_json_in_key(&s->j, &key)) {
		if (fm_str_eq(key, FM_STR_LIT("samples")))
			read_samples(s, p);
		else if (fm_str_eq(key, FM_STR_LIT("weights")))
			read_weights(s, p);
		else if (fm_str_eq(key, FM_STR_LIT("events")))
			read_events(s, p);
		else
			fm_json_in_skip(&s->j);
	}
	if (!s->j.error && s->has_events && s->path.n)
		fm_json_in_fail(&s->j, "a profile ends before the frames that it opened");
	if (!s->j.error && s->n_samples != s->n_weights)
		fm_json_in_fail(&s->j, "a profile has another number of weights than of samples");
}

static void read_file(struct speedscope *s, bool is_first)
{
	struct fm_str key;
	size_t i = 0;
	fm_json_in_init(&s->j, s->in->input);
	if (!fm_json_in_object(&s->j))
		return;
	while (fm_json_in_key(&s->j, &key)) {
		if (is_first && fm_str_eq(key, FM_STR_LIT("shared"))) {
			read_shared(s);
		} else if (!fm_str_eq(key, FM_STR_LIT("profiles"))) {
			fm_json_in_skip(&s->j);
		} else if (fm_json_in_array(&s->j)) {
			for (; fm_json_in_item(&s->j); i++) {
				if (is_first)
					read_head(s);
				else if (i < s->profiles.n)
					read_profile(s, &s->profiles.items[i]);
				else
					fm_json_in_skip(&s->j);
			}
		}
	}
}

static enum fm_err end_file(struct speedscope *s)
{
	enum fm_err err = fm_json_in_end(&s->j, s->in);
	fm_json_in_deinit(&s->j);
	return err;
}

enum fm_err fm_speedscope_import(struct fm_import *in)
{
	struct speedscope s = { .in = in };
	read_file(&s, true);
	// Of a file that is cut off, the frames may be there: the second time tells where it ends.
	bool is_worth_it = s.frames.n && s.profiles.n;
	enum fm_err err = end_file(&s);
	if (!err || is_worth_it) {
		fm_input_rewind(in->input);
		read_file(&s, false);
		err = end_file(&s);
	}
	fm_vec_deinit(&s.frames);
	fm_vec_deinit(&s.profiles);
	fm_vec_deinit(&s.path);
	fm_vec_deinit(&s.samples);
	fm_vec_deinit(&s.weights);
	return err;
}
