// SPDX-License-Identifier: Apache-2.0
#include "render/export/perfetto_sequence.h"

#include "render/export/perfetto_fields.h"

static const char *const categories[] = {
	[FM_SLICE_LOST] = "lost",
	[FM_SLICE_CALL] = "call",
	[FM_SLICE_ZONE] = "zone",
	[FM_SLICE_FRAME] = "sample",
};

void fm_perfetto_put_packet(struct fm_perfetto *x)
{
	fm_proto_put(x->out, TRACE_PACKET, &x->packet);
}

static void put_interned(struct fm_buf *to, uint32_t field, struct fm_buf *entry, uint64_t iid, struct fm_str text)
{
	entry->len = 0;
	fm_proto_uint(entry, NAME_IID, iid);
	fm_proto_text(entry, NAME_TEXT, text);
	fm_proto_message(to, field, entry);
}

static void put_clock(struct fm_buf *to, struct fm_buf *entry, uint32_t clock, uint64_t ns)
{
	entry->len = 0;
	fm_proto_uint(entry, CLOCK_ID, clock);
	fm_proto_uint(entry, CLOCK_TIMESTAMP, ns);
	if (clock == CLOCK_OF_SEQUENCE)
		fm_proto_uint(entry, CLOCK_IS_INCREMENTAL, 1);
	fm_proto_message(to, SNAPSHOT_CLOCKS, entry);
}

void fm_perfetto_sequence_begin(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t track_uuid)
{
	s->last_ns = x->origin_ns; // all from the same moment: readers refuse a system clock that goes back
	x->packet.len = 0;
	fm_proto_uint(&x->packet, PACKET_SEQUENCE_ID, s->id);
	fm_proto_uint(&x->packet, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);

	x->part.len = 0;
	put_clock(&x->part, &x->entry, CLOCK_OF_SYSTEM, x->origin_ns);
	put_clock(&x->part, &x->entry, CLOCK_OF_SEQUENCE, x->origin_ns);
	fm_proto_uint(&x->part, SNAPSHOT_PRIMARY_CLOCK, CLOCK_OF_SYSTEM);
	fm_proto_message(&x->packet, PACKET_CLOCK_SNAPSHOT, &x->part);

	x->part.len = x->entry.len = 0;
	fm_proto_uint(&x->entry, EVENT_TRACK_UUID, track_uuid);
	fm_proto_uint(&x->part, DEFAULTS_TIMESTAMP_CLOCK_ID, CLOCK_OF_SEQUENCE);
	fm_proto_message(&x->part, DEFAULTS_TRACK_EVENT, &x->entry);
	fm_proto_message(&x->packet, PACKET_DEFAULTS, &x->part);

	x->part.len = 0;
	for (unsigned i = 0; i < FM_ARRAY_LEN(categories); i++)
		put_interned(&x->part, INTERNED_CATEGORIES, &x->entry, i + 1, fm_str_of(categories[i]));
	fm_proto_message(&x->packet, PACKET_INTERNED_DATA, &x->part);
	fm_perfetto_put_packet(x);
}

void fm_perfetto_sequence_deinit(struct fm_perfetto_sequence *s)
{
	fm_map_deinit(&s->slices);
	fm_intern_deinit(&s->names);
	fm_intern_deinit(&s->places);
}

static void begin_packet(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns)
{
	ns = FM_MAX(ns, s->last_ns);
	x->packet.len = x->part.len = 0;
	fm_proto_uint(&x->packet, PACKET_TIMESTAMP, ns - s->last_ns);
	fm_proto_uint(&x->packet, PACKET_SEQUENCE_ID, s->id);
	fm_proto_uint(&x->packet, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
	s->last_ns = ns;
}

// The iid of a name. One that is new is added to x->part, an InternedData.
static uint64_t name_iid(struct fm_perfetto *x, struct fm_perfetto_sequence *s, struct fm_str name)
{
	bool is_new;
	uint64_t iid = (uint64_t)fm_intern_id(&s->names, name, &is_new) + 1;
	if (is_new)
		put_interned(&x->part, INTERNED_EVENT_NAMES, &x->entry, iid, name);
	return iid;
}

static uint64_t place_iid(struct fm_perfetto *x, struct fm_perfetto_sequence *s, struct fm_str name,
			  struct fm_slice_place place)
{
	struct fm_buf key = { 0 };
	bool is_new;
	fm_buf_printf(&key, "%u ", place.line);
	fm_buf_bytes(&key, place.file.p, place.file.len);
	fm_buf_u8(&key, 0);
	fm_buf_bytes(&key, name.p, name.len);
	uint64_t iid =
		(uint64_t)fm_intern_id(&s->places, (struct fm_str){ (char *)key.data, (uint32_t)key.len }, &is_new) + 1;
	fm_buf_deinit(&key);
	if (!is_new)
		return iid;
	x->entry.len = 0;
	fm_proto_uint(&x->entry, LOCATION_IID, iid);
	fm_proto_text(&x->entry, LOCATION_FILE, place.file);
	fm_proto_text(&x->entry, LOCATION_FUNCTION, name);
	fm_proto_uint(&x->entry, LOCATION_LINE, place.line);
	fm_proto_message(&x->part, INTERNED_SOURCE_LOCATIONS, &x->entry);
	return iid;
}

static uint64_t meet_slice(struct fm_perfetto *x, struct fm_perfetto_sequence *s, struct fm_slice slice)
{
	x->text.len = 0;
	struct fm_slice_place place = fm_slice_name(&x->text, x->a, slice);
	struct fm_str name = { (const char *)x->text.data, (uint32_t)x->text.len };
	uint64_t iids = name_iid(x, s, name) << 32;
	return place.file.len && place.line ? iids | place_iid(x, s, name, place) : iids;
}

// New names go before the event in its own packet.
static void put_interned_data(struct fm_perfetto *x)
{
	if (x->part.len)
		fm_proto_message(&x->packet, PACKET_INTERNED_DATA, &x->part);
	x->part.len = 0;
}

void fm_perfetto_slice(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns, struct fm_slice slice)
{
	begin_packet(x, s, ns);
	bool is_new;
	uint64_t *iids = fm_map_at(&s->slices, (uint64_t)slice.kind << 32 | slice.id, &is_new);
	if (is_new) {
		*iids = meet_slice(x, s, slice);
		put_interned_data(x);
	}
	fm_proto_uint(&x->part, EVENT_TYPE, TYPE_SLICE_BEGIN);
	fm_proto_uint(&x->part, EVENT_CATEGORY_IIDS, slice.kind + 1);
	fm_proto_uint(&x->part, EVENT_NAME_IID, *iids >> 32);
	if ((uint32_t)*iids)
		fm_proto_uint(&x->part, EVENT_SOURCE_LOCATION_IID, (uint32_t)*iids);
	fm_proto_message(&x->packet, PACKET_TRACK_EVENT, &x->part);
	fm_perfetto_put_packet(x);
}

void fm_perfetto_end(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns)
{
	begin_packet(x, s, ns);
	fm_proto_uint(&x->part, EVENT_TYPE, TYPE_SLICE_END);
	fm_proto_message(&x->packet, PACKET_TRACK_EVENT, &x->part);
	fm_perfetto_put_packet(x);
}

void fm_perfetto_instant(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns, struct fm_str text)
{
	begin_packet(x, s, ns);
	uint64_t iid = name_iid(x, s, text);
	put_interned_data(x);
	fm_proto_uint(&x->part, EVENT_TYPE, TYPE_INSTANT);
	fm_proto_uint(&x->part, EVENT_NAME_IID, iid);
	fm_proto_message(&x->packet, PACKET_TRACK_EVENT, &x->part);
	fm_perfetto_put_packet(x);
}

void fm_perfetto_count(struct fm_perfetto *x, struct fm_perfetto_sequence *s, uint64_t ns, uint64_t track_uuid,
		       double value)
{
	begin_packet(x, s, ns);
	fm_proto_uint(&x->part, EVENT_TYPE, TYPE_COUNTER);
	fm_proto_uint(&x->part, EVENT_TRACK_UUID, track_uuid);
	fm_proto_double(&x->part, EVENT_DOUBLE_COUNTER_VALUE, value);
	fm_proto_message(&x->packet, PACKET_TRACK_EVENT, &x->part);
	fm_perfetto_put_packet(x);
}
