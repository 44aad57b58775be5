// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "import/pprof.h"

// The fields of github.com/google/pprof/proto/profile.proto.
enum {
	PROFILE_TYPE = 1,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_DROP = 7,
	PROFILE_KEEP = 8,
	PROFILE_TIME = 9,
	PROFILE_DURATION = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13
};

struct fm_str pprof_str(const struct pprof *p, uint64_t id)
{
	return id < p->strings.n ? p->strings.items[id] : (struct fm_str){ "", 0 };
}

// The message's numbers by their field, up to field 9.
struct numbers {
	uint64_t of[10];
};

static struct numbers read_numbers(struct fm_cursor *c)
{
	struct numbers n = { 0 };
	struct fm_pb_field f;
	while (fm_pb_next(c, &f))
		if (f.wire == FM_PB_VARINT && f.number < FM_ARRAY_LEN(n.of))
			n.of[f.number] = f.value;
	return n;
}

static struct pprof_type read_type(struct fm_cursor *c)
{
	struct numbers n = read_numbers(c);
	return (struct pprof_type){ n.of[1], n.of[2] };
}

static void read_mapping(struct pprof *p, struct fm_cursor *c)
{
	struct numbers n = read_numbers(c);
	*fm_map_at(&p->mapping_ids, n.of[1], NULL) = p->mappings.n;
	fm_vec_push(&p->mappings,
		    (struct pprof_mapping){
			    .start = n.of[2], .offset = n.of[4], .filename = n.of[5], .build_id = n.of[6] });
}

static void read_function(struct pprof *p, struct fm_cursor *c)
{
	struct numbers n = read_numbers(c);
	*fm_map_at(&p->function_ids, n.of[1], NULL) = p->functions.n;
	fm_vec_push(&p->functions, (struct pprof_function){ n.of[2], n.of[3], n.of[4], n.of[5] });
}

static void read_location(struct pprof *p, struct fm_cursor *c)
{
	struct pprof_location location = { .first_line = (uint32_t)p->lines.n };
	struct fm_pb_field f;
	uint64_t id = 0;
	while (fm_pb_next(c, &f)) {
		if (f.number == 1)
			id = f.value;
		else if (f.number == 2)
			location.mapping = f.value;
		else if (f.number == 3)
			location.address = f.value;
		else if (f.number == 4 && f.wire == FM_PB_BYTES) {
			struct numbers n = read_numbers(&f.body);
			if (f.body.err)
				fm_cursor_fail(c, f.body.err);
			fm_vec_push(&p->lines, (struct pprof_line){ n.of[1], n.of[2] });
		}
	}
	location.n_lines = (uint32_t)p->lines.n - location.first_line;
	*fm_map_at(&p->location_ids, id, NULL) = p->locations.n;
	fm_vec_push(&p->locations, location);
}

static void read_field(struct pprof *p, struct fm_pb_field *f)
{
	uint64_t number;
	struct fm_str s = fm_pb_str(f);
	switch (f->number) {
	case PROFILE_TYPE:
		fm_vec_push(&p->types, read_type(&f->body));
		break;
	case PROFILE_MAPPING:
		read_mapping(p, &f->body);
		break;
	case PROFILE_LOCATION:
		read_location(p, &f->body);
		break;
	case PROFILE_FUNCTION:
		read_function(p, &f->body);
		break;
	case PROFILE_STRING:
		fm_vec_push(&p->strings, (struct fm_str){ fm_arena_strdup(&p->arena, s.p, s.len), s.len });
		break;
	case PROFILE_DROP:
	case PROFILE_KEEP:
		p->has_filter = p->has_filter || f->value;
		break;
	case PROFILE_TIME:
		p->time_ns = f->value;
		break;
	case PROFILE_DURATION:
		p->duration_ns = f->value;
		break;
	case PROFILE_PERIOD_TYPE:
		p->period_type = read_type(&f->body);
		break;
	case PROFILE_PERIOD:
		p->period = f->value;
		break;
	case PROFILE_COMMENT:
		while (fm_pb_number(f, &number))
			fm_vec_push(&p->comments, number);
		break;
	}
}

static bool has_string(const struct pprof *p, uint64_t id)
{
	return !id || id < p->strings.n;
}

// The table of strings comes last, so a file that is cut off between two fields lacks some.
static bool has_all_strings(const struct pprof *p)
{
	bool has = has_string(p, p->period_type.type) && has_string(p, p->period_type.unit);
	for (size_t i = 0; i < p->types.n; i++)
		has = has && has_string(p, p->types.items[i].type) && has_string(p, p->types.items[i].unit);
	for (size_t i = 0; i < p->mappings.n; i++)
		has = has && has_string(p, p->mappings.items[i].filename) &&
		      has_string(p, p->mappings.items[i].build_id);
	for (size_t i = 0; i < p->functions.n; i++) {
		const struct pprof_function *f = &p->functions.items[i];
		has = has && has_string(p, f->name) && has_string(p, f->system_name) && has_string(p, f->filename);
	}
	return has;
}

enum fm_err pprof_read_tables(struct pprof *p)
{
	struct fm_pb_field f;
	const char *error = NULL;
	while (!error && fm_pb_next_of_input(p->in->input, &f, &error)) {
		bool is_message = f.number >= PROFILE_TYPE && f.number <= PROFILE_STRING;
		if (is_message && f.wire != FM_PB_BYTES)
			error = "the field before this has another type than in pprof";
		else
			read_field(p, &f);
		if (is_message && f.body.err)
			error = "the message before this is damaged";
	}
	if (!error && !fm_input_error(p->in->input) && !has_all_strings(p))
		error = "the file ends here, and lacks strings that it refers to";
	return error ? fm_import_bad_byte(p->in, "%s", error) : fm_import_end(p->in);
}

void pprof_deinit(struct pprof *p)
{
	fm_arena_deinit(&p->arena);
	fm_vec_deinit(&p->strings);
	fm_vec_deinit(&p->types);
	fm_vec_deinit(&p->mappings);
	fm_vec_deinit(&p->functions);
	fm_vec_deinit(&p->lines);
	fm_vec_deinit(&p->locations);
	fm_vec_deinit(&p->frames);
	fm_vec_deinit(&p->comments);
	fm_map_deinit(&p->mapping_ids);
	fm_map_deinit(&p->function_ids);
	fm_map_deinit(&p->location_ids);
}
