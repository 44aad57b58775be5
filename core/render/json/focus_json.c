// SPDX-License-Identifier: Apache-2.0
// fathom report --focus --json: schema fathom.focus/1. Bounded like the text: "more" counts what is
// left out of a list, and --top makes the lists longer.
#include "aggregate/analysis/focus.h"
#include "render/json/report_json.h"
#include "render/shared/label.h"
#include "render/shared/source_line.h"

static void write_weight(struct fm_json *j, const struct fm_summary *t, const struct fm_weight *w)
{
	fm_json_real(j, "total_s", fm_seconds(fm_weight_cpu_ns(w)));
	fm_json_real(j, "plus_minus_s", fm_summary_plus_minus_s(t, w));
	fm_json_classes(j, w);
}

static void write_more(struct fm_json *j, const char *key, size_t n_left_out)
{
	fm_json_end(j);
	fm_json_u64(j, key, n_left_out);
	fm_json_newline(j);
}

static void write_rows(struct fm_json *j, struct fm_analysis *a, const char *key, const char *more,
		       const struct fm_focus_row *rows, size_t n)
{
	size_t n_shown = fm_focus_shown(&a->options, n, FM_FOCUS_CALLS);
	fm_json_array(j, key);
	for (size_t i = 0; i < n_shown; i++) {
		bool is_no_one = rows[i].function_id == FM_NO_ID;
		const struct fm_function *f = is_no_one ? NULL : fm_analysis_function(a, rows[i].function_id);
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_str(j, "name", f ? f->name : FM_STR_LIT(""));
		fm_json_str(j, "file", !f ? FM_STR_LIT("") : f->file.len ? f->file : f->path);
		fm_json_u64(j, "line", rows[i].line ? rows[i].line : f ? f->line : 0);
		fm_json_str(j, "kind", f ? fm_label_kind(f) : FM_STR_LIT("none"));
		write_weight(j, fm_analysis_summary(a), &rows[i].weight);
		fm_json_end(j);
	}
	write_more(j, more, n - n_shown);
}

static void write_lines(struct fm_json *j, struct fm_analysis *a, const struct fm_focus *f)
{
	const struct fm_summary *t = fm_analysis_summary(a);
	size_t n_shown = fm_focus_shown(&a->options, f->lines.n, FM_FOCUS_LINES);
	fm_json_array(j, "lines");
	for (size_t i = 0; i < n_shown; i++) {
		const struct fm_focus_line *row = &f->lines.items[i];
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_u64(j, "line", row->line);
		fm_json_str(j, "source", fm_source_line_text(a->profile, fm_focus_file(a, &f->place), row->line));
		write_weight(j, t, &row->weight);
		fm_json_real(j, "own_s", row->own ? fm_seconds(fm_weight_cpu_ns(&row->own->weight)) : 0);
		fm_json_real(j, "own_plus_minus_s", row->own ? fm_summary_plus_minus_s(t, &row->own->weight) : 0);
		fm_json_u64(j, "peak_bytes", row->memory ? row->memory->f.peak_bytes : 0);
		fm_json_u64(j, "alloc_bytes", row->memory ? row->memory->f.alloc_bytes : 0);
		fm_json_end(j);
	}
	write_more(j, "more_lines", f->lines.n - n_shown);
}

static void write_threads(struct fm_json *j, struct fm_analysis *a, const struct fm_focus *f)
{
	size_t n_shown = fm_focus_shown(&a->options, f->threads.n, FM_FOCUS_THREADS);
	fm_json_array(j, "threads");
	for (size_t i = 0; i < n_shown; i++) {
		uint32_t id = f->threads.items[i].thread_id, process = fm_label_process_of(a, id);
		const struct fm_thread *thread = id < a->profile->threads.n ? &a->profile->threads.items[id] : NULL;
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_u64(j, "pid", process != FM_NO_ID ? a->profile->processes.items[process].info.pid : 0);
		fm_json_u64(j, "tid", thread ? thread->tid : 0);
		fm_json_str(j, "name", thread ? thread->name : FM_STR_LIT(""));
		write_weight(j, fm_analysis_summary(a), &f->threads.items[i].weight);
		fm_json_end(j);
	}
	write_more(j, "more_threads", f->threads.n - n_shown);
}

static void write_memory(struct fm_json *j, struct fm_analysis *a, const struct fm_focus *f)
{
	fm_json_u64(j, "peak_bytes", f->memory ? f->memory->peak_bytes : 0);
	fm_json_real(j, "peak_plus_minus_bytes", f->memory ? fm_heap_plus_minus(f->memory->peak_var) : 0);
	fm_json_u64(j, "alloc_bytes", f->memory ? f->memory->alloc_bytes : 0);
	size_t n_shown = fm_focus_shown(&a->options, f->leaks.n, FM_FOCUS_LEAKS);
	fm_json_array(j, "leaks");
	for (size_t i = 0; i < n_shown; i++) {
		fm_json_object(j, NULL);
		fm_json_u64(j, "line", f->leaks.items[i]->line);
		fm_json_real(j, "likelihood", f->leaks.items[i]->likelihood);
		fm_json_real(j, "velocity_bytes_s", f->leaks.items[i]->velocity_bytes_s);
		fm_json_u64(j, "bytes", f->leaks.items[i]->bytes);
		fm_json_end(j);
	}
	write_more(j, "more_leaks", f->leaks.n - n_shown);
}

void fm_focus_json(FILE *out, struct fm_analysis *a, const struct fm_focus *f)
{
	const struct fm_summary *t = fm_analysis_summary(a);
	const struct fm_focus_place *place = &f->place;
	bool is_function = place->function_id != FM_NO_ID;
	struct fm_json j;
	fm_json_init(&j, out);
	fm_json_object(&j, NULL);
	fm_json_str(&j, "schema", FM_STR_LIT("fathom.focus/1"));
	fm_json_str(&j, "name", fm_focus_name(a, place));
	fm_json_str(&j, "file", fm_focus_file(a, place));
	fm_json_u64(&j, "line", fm_focus_line(a, place));
	fm_json_str(&j, "kind",
		    is_function ? fm_label_kind(fm_analysis_function(a, place->function_id))
		    : place->traced != FM_NO_ID
			    ? fm_str_of(fm_trace_kind_names[a->calls->functions.items[place->traced].kind])
			    : FM_STR_LIT("line"));
	fm_json_newline(&j);
	fm_json_real(&j, "cpu_s", fm_seconds(fm_weight_cpu_ns(&t->total)));
	write_weight(&j, t, &f->total);
	fm_json_real(&j, "self_s", fm_seconds(fm_weight_cpu_ns(&f->self)));
	fm_json_real(&j, "self_plus_minus_s", fm_summary_plus_minus_s(t, &f->self));
	fm_json_real(&j, "own_s", fm_seconds(fm_weight_cpu_ns(&f->own)));
	fm_json_newline(&j);
	write_memory(&j, a, f);
	write_lines(&j, a, f);
	write_rows(&j, a, "callers", "more_callers", f->callers.items, f->callers.n);
	write_rows(&j, a, "callees", "more_callees", f->callees.items, f->callees.n);
	write_threads(&j, a, f);
	if (place->traced != FM_NO_ID)
		fm_json_call(&j, "calls", a->calls, place->traced,
			     fm_focus_shown(&a->options, SIZE_MAX, FM_FOCUS_CALLS));
	fm_json_end(&j);
	fm_json_newline(&j);
}
