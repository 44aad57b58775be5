// SPDX-License-Identifier: Apache-2.0
#include "render/export/gecko_markers.h"

#include <stdlib.h>

#include "render/export/slices.h"
#include "render/shared/label.h"

#define MAX_MARKERS 1000000u // of a capture, and as many points of counters; browsers take no more

static struct fm_gecko_thread_markers *markers_of(struct fm_gecko_markers *m, uint32_t thread_id)
{
	fm_vec_grow_to(&m->threads, (size_t)thread_id + 1);
	return &m->threads.items[thread_id];
}

static bool has_room(struct fm_gecko_markers *m)
{
	if (m->n < MAX_MARKERS) {
		m->n++;
		return true;
	}
	m->n_left_out++;
	return false;
}

static void begin(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_slice slice)
{
	struct fm_gecko_markers *m = arg;
	struct fm_gecko_thread_markers *t = markers_of(m, row.thread_id);
	const struct fm_trace_name *zone =
		slice.kind == FM_SLICE_ZONE ? &m->a->profile->trace_names.items[slice.id] : NULL;
	uint32_t place = 0;
	if (zone && zone->kind == FM_NAME_ZONE && has_room(m)) {
		fm_vec_push(&t->items, (struct fm_gecko_marker){ zone->name, zone->file, zone->line, false, ns, ns });
		place = (uint32_t)t->items.n;
	}
	fm_vec_push(&t->open, place);
}

static void end(void *arg, struct fm_slice_row row, uint64_t ns)
{
	struct fm_gecko_thread_markers *t = markers_of(arg, row.thread_id);
	uint32_t place = t->open.n ? t->open.items[--t->open.n] : 0;
	if (place)
		t->items.items[place - 1].end_ns = ns;
}

static void mark(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str text)
{
	struct fm_gecko_markers *m = arg;
	if (has_room(m))
		fm_vec_push(&markers_of(m, row.thread_id)->items,
			    (struct fm_gecko_marker){ text, { "", 0 }, 0, true, ns, ns });
}

static void add_point(struct fm_gecko_markers *m, uint32_t counter, uint64_t ns, double value)
{
	if (has_room(m))
		fm_vec_push(&m->counters.items[counter].points, (struct fm_gecko_point){ ns, value });
}

static void counter(void *arg, struct fm_slice_row row, uint64_t ns, struct fm_str name, double value)
{
	struct fm_gecko_markers *m = arg;
	uint32_t process = fm_label_process_of(m->a, row.thread_id);
	struct fm_buf key = { 0 };
	bool is_new;
	fm_buf_printf(&key, "%u ", process);
	fm_buf_bytes(&key, name.p, name.len);
	uint32_t at =
		fm_intern_id(&m->counter_names, (struct fm_str){ (const char *)key.data, (uint32_t)key.len }, &is_new);
	fm_buf_deinit(&key);
	if (is_new) {
		fm_vec_push(&m->counter_ids, (uint32_t)m->counters.n);
		fm_vec_push(&m->counters, (struct fm_gecko_counter){ .process_id = process, .name = name });
	}
	add_point(m, m->counter_ids.items[at], ns, value);
}

static void memory(void *arg, uint32_t process_id, uint64_t ns, uint64_t resident_bytes)
{
	struct fm_gecko_markers *m = arg;
	bool is_new;
	uint64_t *at = fm_map_at(&m->counter_of_memory, process_id, &is_new);
	if (is_new) {
		*at = m->counters.n;
		fm_vec_push(&m->counters, (struct fm_gecko_counter){ .process_id = process_id, .name = { "", 0 } });
	}
	add_point(m, (uint32_t)*at, ns, (double)resident_bytes);
}

static bool is_over(void *arg)
{
	(void)arg;
	return false;
}

enum fm_err fm_gecko_markers_read(struct fm_gecko_markers *m, const struct fm_analysis *a, struct fm_diag *diag)
{
	static const struct fm_slice_writer writer = {
		begin, end, mark, counter, memory, is_over, .leaves_samples_out = true
	};
	*m = (struct fm_gecko_markers){ .a = a };
	return fm_slices_read(a, &writer, m, diag);
}

void fm_gecko_markers_deinit(struct fm_gecko_markers *m)
{
	for (size_t i = 0; i < m->threads.n; i++) {
		fm_vec_deinit(&m->threads.items[i].items);
		fm_vec_deinit(&m->threads.items[i].open);
	}
	for (size_t i = 0; i < m->counters.n; i++)
		fm_vec_deinit(&m->counters.items[i].points);
	fm_vec_deinit(&m->threads);
	fm_vec_deinit(&m->counters);
	fm_vec_deinit(&m->counter_ids);
	fm_map_deinit(&m->counter_of_memory);
	fm_intern_deinit(&m->counter_names);
}

// ---- markers ----

static void write_data(struct fm_json *j, const struct fm_gecko_marker *marker)
{
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_str(j, "type", marker->is_mark ? FM_STR_LIT("mark") : FM_STR_LIT("zone"));
	if (marker->file.len) {
		fm_json_str(j, "file", marker->file);
		fm_json_u64(j, "line", marker->line);
	}
	fm_json_end(j);
}

void fm_gecko_write_markers(const struct fm_gecko_markers *m, struct fm_gecko_tables *t, struct fm_json *j,
			    uint32_t thread_id, uint64_t origin_ns)
{
	static const struct fm_gecko_thread_markers none;
	const struct fm_gecko_thread_markers *of = thread_id < m->threads.n ? &m->threads.items[thread_id] : &none;
	fm_json_newline(j);
	fm_json_object(j, "markers");
	fm_json_u64(j, "length", of->items.n);
	fm_json_array(j, "data");
	for (size_t i = 0; i < of->items.n; i++)
		write_data(j, &of->items.items[i]);
	fm_json_end(j);
	fm_json_array(j, "name");
	for (size_t i = 0; i < of->items.n; i++)
		fm_json_u64(j, NULL, fm_gecko_string(t, of->items.items[i].name));
	fm_json_end(j);
	fm_json_array(j, "startTime");
	for (size_t i = 0; i < of->items.n; i++)
		fm_json_real(j, NULL, fm_gecko_ms(of->items.items[i].start_ns, origin_ns));
	fm_json_end(j);
	fm_json_array(j, "endTime");
	for (size_t i = 0; i < of->items.n; i++)
		if (of->items.items[i].is_mark)
			fm_json_null(j, NULL);
		else
			fm_json_real(j, NULL, fm_gecko_ms(of->items.items[i].end_ns, origin_ns));
	fm_json_end(j);
	fm_json_array(j, "phase"); // a moment, or from start to end
	for (size_t i = 0; i < of->items.n; i++)
		fm_json_u64(j, NULL, of->items.items[i].is_mark ? 0 : 1);
	fm_json_end(j);
	fm_json_array(j, "category");
	for (size_t i = 0; i < of->items.n; i++)
		fm_json_u64(j, NULL, FM_GECKO_OTHER);
	fm_json_end(j);
	fm_json_end(j);
}

static void write_field(struct fm_json *j, const char *key, const char *label, const char *format)
{
	fm_json_object(j, NULL);
	fm_json_str(j, "key", fm_str_of(key));
	fm_json_str(j, "label", fm_str_of(label));
	fm_json_str(j, "format", fm_str_of(format));
	fm_json_end(j);
}

void fm_gecko_write_schema(struct fm_json *j)
{
	static const char *const types[] = { "zone", "mark" };
	static const char *const places[] = { "marker-chart", "marker-table", "timeline-overview" };
	fm_json_newline(j);
	fm_json_array(j, "markerSchema");
	for (size_t i = 0; i < FM_ARRAY_LEN(types); i++) {
		fm_json_object(j, NULL);
		fm_json_str(j, "name", fm_str_of(types[i]));
		fm_json_array(j, "display");
		for (size_t k = 0; k < FM_ARRAY_LEN(places); k++)
			fm_json_str(j, NULL, fm_str_of(places[k]));
		fm_json_end(j);
		fm_json_array(j, "fields");
		write_field(j, "file", "File", "file-path");
		write_field(j, "line", "Line", "integer");
		fm_json_end(j);
		fm_json_bool(j, "isStackBased", true);
		fm_json_end(j);
	}
	fm_json_end(j);
}

// ---- counters ----

static void write_display(struct fm_json *j, const struct fm_gecko_counter *c, struct fm_str label)
{
	bool is_memory = !c->name.len;
	fm_json_object(j, "display");
	fm_json_str(j, "graphType", FM_STR_LIT("line-accumulated"));
	fm_json_str(j, "unit", is_memory ? FM_STR_LIT("bytes") : FM_STR_LIT(""));
	fm_json_str(j, "color", is_memory ? FM_STR_LIT("orange") : FM_STR_LIT("grey"));
	fm_json_null(j, "markerSchemaLocation");
	fm_json_u64(j, "sortWeight", is_memory ? 20 : 50);
	fm_json_str(j, "label", label);
	fm_json_array(j, "tooltipRows");
	fm_json_object(j, NULL);
	fm_json_str(j, "type", FM_STR_LIT("value"));
	fm_json_str(j, "source", FM_STR_LIT("accumulated"));
	fm_json_object(j, "format");
	fm_json_str(j, "unit", is_memory ? FM_STR_LIT("bytes") : FM_STR_LIT("number"));
	fm_json_end(j);
	fm_json_str(j, "label", label);
	fm_json_end(j);
	fm_json_end(j);
	fm_json_end(j);
}

static void write_points(struct fm_json *j, const struct fm_gecko_counter *c, uint64_t origin_ns)
{
	fm_json_object(j, "samples");
	fm_json_u64(j, "length", c->points.n);
	fm_json_array(j, "time");
	for (size_t i = 0; i < c->points.n; i++)
		fm_json_real(j, NULL, fm_gecko_ms(c->points.items[i].ns, origin_ns));
	fm_json_end(j);
	fm_json_array(j, "count"); // by how much it changed
	for (size_t i = 0; i < c->points.n; i++)
		fm_json_real(j, NULL, c->points.items[i].value - (i ? c->points.items[i - 1].value : 0));
	fm_json_end(j);
	fm_json_end(j);
}

void fm_gecko_write_counters(const struct fm_gecko_markers *m, struct fm_json *j, const uint32_t *main_threads,
			     uint64_t origin_ns)
{
	fm_json_newline(j);
	fm_json_array(j, "counters");
	for (size_t i = 0; i < m->counters.n; i++) {
		const struct fm_gecko_counter *c = &m->counters.items[i];
		if (c->process_id == FM_NO_ID || main_threads[c->process_id] == FM_NO_ID)
			continue;
		struct fm_str label = c->name.len ? c->name : FM_STR_LIT("resident memory");
		struct fm_buf pid = { 0 };
		fm_gecko_pid(&pid, m->a, c->process_id);
		fm_json_newline(j);
		fm_json_object(j, NULL);
		fm_json_str(j, "name", label);
		fm_json_str(j, "category", c->name.len ? FM_STR_LIT("Counter") : FM_STR_LIT("Memory"));
		fm_json_str(j, "description", label);
		fm_json_str(j, "pid", (struct fm_str){ (const char *)pid.data, (uint32_t)pid.len });
		fm_json_u64(j, "mainThreadIndex", main_threads[c->process_id]);
		write_points(j, c, origin_ns);
		write_display(j, c, label);
		fm_json_end(j);
		fm_buf_deinit(&pid);
	}
	fm_json_end(j);
}
