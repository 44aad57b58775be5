// The calls, zones, marks and counters of a trace as trace events. A call begins (B) and ends (E); `loc` is where its function
// stands, which Tracy's importer reads and others pass over.
#include "render/chrometrace_zones.h"

#include <stdio.h>

#include "base/mem.h"

static void begin_event(const struct fm_zone_track *track, const char *phase, uint64_t time_ns)
{
	struct fm_json *j = track->j;
	fm_json_newline(j);
	fm_json_object(j, NULL);
	fm_json_str(j, "ph", fm_str_of(phase));
	fm_json_u64(j, "pid", track->pid);
	fm_json_u64(j, "tid", track->tid);
	fm_json_real(j, "ts", (double)(time_ns - track->origin_ns) / 1e3);
}

static void write_begin(struct fm_zone_track *track, uint64_t time_ns, struct fm_str name,
			const struct fm_code_info *code)
{
	begin_event(track, "B", time_ns);
	fm_json_str(track->j, "cat", code ? FM_STR_LIT("call") : FM_STR_LIT("zone"));
	fm_json_str(track->j, "name", name);
	if (code) {
		struct fm_buf loc = { 0 };
		fm_buf_bytes(&loc, code->filename.p, code->filename.len);
		fm_buf_printf(&loc, ":%u", code->first_line);
		fm_json_str(track->j, "loc", (struct fm_str){ (const char *)loc.data, (uint32_t)loc.len });
		fm_buf_deinit(&loc);
	}
	fm_json_end(track->j);
	track->depth++;
}

static void write_end(struct fm_zone_track *track, uint64_t time_ns)
{
	if (!track->depth)
		return;
	begin_event(track, "E", time_ns);
	fm_json_end(track->j);
	track->depth--;
}

static struct fm_str name_of(const struct fm_profile *p, uint32_t id)
{
	return id == FM_NO_ID ? FM_STR_LIT("(lost)") : p->trace_names.items[id].name;
}

static void write_mark(struct fm_zone_track *track, const struct fm_profile *p, const struct fm_zone_event *ev)
{
	begin_event(track, "i", ev->time_ns);
	fm_json_str(track->j, "name", name_of(p, ev->ref));
	fm_json_str(track->j, "s", FM_STR_LIT("t"));
	fm_json_end(track->j);
}

static void write_counter(struct fm_zone_track *track, const struct fm_profile *p, const struct fm_zone_event *ev)
{
	begin_event(track, "C", ev->time_ns);
	fm_json_str(track->j, "name", name_of(p, ev->ref));
	fm_json_object(track->j, "args");
	fm_json_real(track->j, "value", ev->value);
	fm_json_end(track->j);
	fm_json_end(track->j);
}

void fm_zone_track_add(struct fm_zone_track *track, const struct fm_profile *p, struct fm_zone_batch *batch)
{
	struct fm_zone_event ev;
	while (track->depth > batch->depth) // parts of the file are missing
		write_end(track, FM_MAX(batch->time_ns, track->origin_ns));
	for (uint32_t i = 0; track->depth < batch->depth && i < batch->n_listed; i++)
		write_begin(track, FM_MAX(batch->time_ns, track->origin_ns), FM_STR_LIT("(lost)"), NULL);
	while (fm_trace_next(p, batch, &ev) == FM_OK && !ferror(track->j->out)) {
		ev.time_ns = FM_MAX(ev.time_ns, track->origin_ns);
		track->end_ns = ev.time_ns;
		switch (ev.op) {
		case FM_ZONE_ENTER:
		case FM_ZONE_RESUME:
			if (ev.ref == FM_NO_ID)
				write_begin(track, ev.time_ns, FM_STR_LIT("(lost)"), NULL);
			else
				write_begin(track, ev.time_ns, p->codes.items[ev.ref].qualname,
					    &p->codes.items[ev.ref]);
			break;
		case FM_ZONE_BEGIN:
			write_begin(track, ev.time_ns, name_of(p, ev.ref), NULL);
			break;
		case FM_ZONE_LEAVE:
			write_end(track, ev.time_ns);
			break;
		case FM_ZONE_MARK:
			write_mark(track, p, &ev);
			break;
		case FM_ZONE_COUNTER:
			write_counter(track, p, &ev);
			break;
		case FM_ZONE_NOTE:
			while (ev.ref == FM_ZONE_OFF && track->depth)
				write_end(track, ev.time_ns);
			break;
		}
	}
}

void fm_zone_track_end(struct fm_zone_track *track)
{
	while (track->depth)
		write_end(track, track->end_ns);
}
