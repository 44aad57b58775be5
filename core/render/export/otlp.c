// SPDX-License-Identifier: Apache-2.0
// OpenTelemetry's ProfilesData: a resource for each process, in it a profile for each kind of figure
// that it has (a profile has one value type there), samples summed up by stack, thread and class.
//
// The schema is still called development and has changed before: these are the field numbers of
// opentelemetry-proto 1.9.0 to 1.11.0, opentelemetry/proto/profiles/v1development/profiles.proto.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "render/export/dictionary.h"
#include "render/export/proto.h"
#include "render/export/sample_sums.h"
#include "render/shared/facts.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"

enum {
	DATA_RESOURCE_PROFILES = 1,
	DATA_DICTIONARY = 2,
	DICT_MAPPING = 1,
	DICT_LOCATION = 2,
	DICT_FUNCTION = 3,
	DICT_LINK = 4,
	DICT_STRING = 5,
	DICT_ATTRIBUTE = 6,
	DICT_STACK = 7,
	RESOURCE_PROFILES_RESOURCE = 1,
	RESOURCE_PROFILES_SCOPE = 2,
	RESOURCE_ATTRIBUTE = 1,
	SCOPE_PROFILES_SCOPE = 1,
	SCOPE_PROFILES_PROFILE = 2,
	SCOPE_NAME = 1,
	SCOPE_VERSION = 2,
	SCOPE_ATTRIBUTE = 3,
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_TIME = 3,
	PROFILE_DURATION = 4,
	PROFILE_PERIOD_TYPE = 5,
	PROFILE_PERIOD = 6,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
	SAMPLE_STACK = 1,
	SAMPLE_ATTRIBUTES = 2,
	SAMPLE_VALUES = 4,
	MAPPING_START = 1,
	MAPPING_LIMIT = 2,
	MAPPING_FILENAME = 4,
	MAPPING_ATTRIBUTES = 5,
	STACK_LOCATIONS = 1,
	LOCATION_MAPPING = 1,
	LOCATION_LINE = 3,
	LOCATION_ATTRIBUTES = 4,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_NAME = 1,
	FUNCTION_SYSTEM_NAME = 2,
	FUNCTION_FILENAME = 3,
	FUNCTION_START_LINE = 4,
	ATTRIBUTE_KEY = 1,
	ATTRIBUTE_VALUE = 2,
	VALUE_STRING = 1,
	VALUE_INT = 3,
	VALUE_ARRAY = 5,
	ARRAY_VALUE = 1,
	KEY_VALUE_KEY = 1,
	KEY_VALUE_VALUE = 2,
	LINK_TRACE_ID = 1,
	LINK_SPAN_ID = 2,
};

// Every table begins with an entry that stands for nothing; that of strings is "" anyway.
#define AFTER_NOTHING 1u

struct attribute {
	uint64_t number;     // its value, where text1 is 0
	uint32_t key, text1; // a string of the dictionary; a text, + 1
};

struct otlp {
	struct fm_analysis *a;
	struct fm_facts facts;
	struct fm_sums sums;
	struct fm_dict dict;
	struct fm_intern attributes, stacks; // bytes of each
	struct fm_intern texts;              // of attributes, which hold them themselves
	uint32_t *stack_of_node;
	struct fm_dict_ids ids;
	// One for each level that is being put together.
	struct fm_buf resource, scope, profile, message, part, value, text;
};

static struct fm_str str_of(const struct fm_buf *b)
{
	return (struct fm_str){ b->len ? (const char *)b->data : "", (uint32_t)b->len };
}

static uint32_t string(struct otlp *x, const char *text)
{
	return fm_dict_string(&x->dict, fm_str_of(text));
}

static uint64_t add_attribute(struct otlp *x, const char *key, uint32_t text1, uint64_t number)
{
	struct attribute entry = { number, string(x, key), text1 };
	return fm_intern_id(&x->attributes, (struct fm_str){ (const char *)&entry, sizeof(entry) }, NULL) +
	       AFTER_NOTHING;
}

static uint64_t attribute(struct otlp *x, const char *key, struct fm_str text)
{
	return add_attribute(x, key, fm_intern_id(&x->texts, text, NULL) + 1, 0);
}

static uint32_t stack_of(struct otlp *x, uint32_t node)
{
	if (!node || x->stack_of_node[node])
		return x->stack_of_node[node];
	x->ids.n = 0;
	fm_dict_stack(&x->dict, node, AFTER_NOTHING, &x->ids);
	struct fm_str bytes = { (const char *)x->ids.items, (uint32_t)(x->ids.n * sizeof(*x->ids.items)) };
	return x->stack_of_node[node] = fm_intern_id(&x->stacks, bytes, NULL) + AFTER_NOTHING;
}

// ---- attributes of a resource and a scope: plain keys and values ----

static void put_pair(struct otlp *x, struct fm_buf *to, uint32_t field, const char *key)
{
	x->message.len = 0;
	fm_proto_text(&x->message, KEY_VALUE_KEY, fm_str_of(key));
	fm_proto_message(&x->message, KEY_VALUE_VALUE, &x->value);
	fm_proto_message(to, field, &x->message);
}

static void put_text(struct otlp *x, const char *key, struct fm_str text)
{
	if (!text.len)
		return;
	x->value.len = 0;
	fm_proto_text(&x->value, VALUE_STRING, text);
	put_pair(x, &x->part, RESOURCE_ATTRIBUTE, key);
}

static void put_resource(struct otlp *x, const struct fm_process_info *info)
{
	x->part.len = x->value.len = x->text.len = 0;
	fm_buf_str(&x->text, "unknown_service:"); // the word of the specification for what has no other name
	struct fm_str exe = fm_label_last_part(info->exe);
	fm_buf_bytes(&x->text, exe.p, exe.len);
	put_text(x, "service.name", str_of(&x->text));
	x->value.len = x->text.len = 0;
	fm_proto_uint(&x->value, VALUE_INT, info->pid);
	put_pair(x, &x->part, RESOURCE_ATTRIBUTE, "process.pid");
	put_text(x, "process.executable.path", info->exe);
	fm_label_command(&x->text, info->command);
	put_text(x, "process.command_line", str_of(&x->text));
	if (info->python_version.len)
		put_text(x, "process.runtime.name", FM_STR_LIT("cpython"));
	put_text(x, "process.runtime.version", info->python_version);
	fm_proto_message(&x->resource, RESOURCE_PROFILES_RESOURCE, &x->part);
}

static void add_coverage(void *ctx, struct fm_str what, struct fm_str why)
{
	struct otlp *x = ctx;
	x->text.len = x->message.len = 0;
	fm_buf_printf(&x->text, "%.*s: %.*s", (int)what.len, what.p, (int)why.len, why.p);
	fm_proto_text(&x->message, VALUE_STRING, str_of(&x->text));
	fm_proto_message(&x->profile, ARRAY_VALUE, &x->message);
}

// Of the capture as a whole: the first resource says it.
static void put_scope(struct otlp *x, bool is_first)
{
	x->part.len = x->profile.len = x->value.len = 0;
	fm_proto_text(&x->part, SCOPE_NAME, FM_STR_LIT("fathom"));
	fm_proto_text(&x->part, SCOPE_VERSION, FM_STR_LIT(FM_VERSION));
	if (is_first)
		fm_facts_coverage(x->a, &x->facts, fm_analysis_summary(x->a), add_coverage, x);
	if (x->profile.len) {
		fm_proto_message(&x->value, VALUE_ARRAY, &x->profile);
		put_pair(x, &x->part, SCOPE_ATTRIBUTE, "fathom.not_seen");
	}
	fm_proto_message(&x->scope, SCOPE_PROFILES_SCOPE, &x->part);
}

// ---- profiles ----

static void put_type(struct otlp *x, uint32_t field, const struct fm_sum_kind *kind)
{
	x->part.len = 0;
	fm_proto_uint(&x->part, TYPE_TYPE, string(x, kind->type));
	fm_proto_uint(&x->part, TYPE_UNIT, string(x, kind->unit));
	fm_proto_message(&x->profile, field, &x->part);
}

static void put_sample(struct otlp *x, const struct fm_sum_row *row, uint64_t value)
{
	uint64_t attributes[3];
	size_t n = 0;
	if (row->class != FM_SUM_NO_CLASS)
		attributes[n++] = attribute(x, "fathom.class", fm_str_of(fm_sum_class_name(row->class)));
	if (row->thread_id < x->a->profile->threads.n) {
		const struct fm_thread *thread = &x->a->profile->threads.items[row->thread_id];
		attributes[n++] = add_attribute(x, "thread.id", 0, thread->tid);
		if (thread->name.len)
			attributes[n++] = attribute(x, "thread.name", thread->name);
	}
	value = FM_MIN(value, (uint64_t)INT64_MAX);
	x->part.len = 0;
	fm_proto_uint_unless_0(&x->part, SAMPLE_STACK, stack_of(x, row->node));
	fm_proto_uints(&x->part, SAMPLE_ATTRIBUTES, attributes, n);
	fm_proto_uints(&x->part, SAMPLE_VALUES, &value, 1);
	fm_proto_message(&x->profile, PROFILE_SAMPLE, &x->part);
}

// Of the rows from begin to end.
static void put_profile(struct otlp *x, size_t begin, size_t end, enum fm_sum_column column)
{
	while (begin < end && !x->sums.rows.items[begin].values[column])
		begin++;
	if (begin == end)
		return;
	x->profile.len = 0;
	put_type(x, PROFILE_SAMPLE_TYPE, &fm_sum_kinds[column]);
	for (size_t i = begin; i < end; i++)
		if (x->sums.rows.items[i].values[column])
			put_sample(x, &x->sums.rows.items[i], x->sums.rows.items[i].values[column]);
	uint64_t started_ns = fm_sums_started_ns(x->a);
	if (started_ns)
		fm_proto_fixed64(&x->profile, PROFILE_TIME, started_ns);
	fm_proto_uint(&x->profile, PROFILE_DURATION, (uint64_t)fmax(0, fmin(x->facts.wall_s * 1e9, 9e18)));
	if (x->facts.rate_hz && column <= FM_SUM_CPU) {
		put_type(x, PROFILE_PERIOD_TYPE, &fm_sum_kinds[FM_SUM_CPU]);
		fm_proto_uint(&x->profile, PROFILE_PERIOD, 1000000000 / x->facts.rate_hz);
	}
	fm_proto_message(&x->scope, SCOPE_PROFILES_PROFILE, &x->profile);
}

static void put_process(struct otlp *x, FILE *out, size_t begin, size_t end)
{
	// Viewers show the first one.
	static const enum fm_sum_column order[] = { FM_SUM_CPU,           FM_SUM_SAMPLES,     FM_SUM_WAIT,
						    FM_SUM_ALLOC_OBJECTS, FM_SUM_ALLOC_SPACE, FM_SUM_INUSE_SPACE,
						    FM_SUM_PEAK_SPACE,    FM_SUM_COPY_SPACE };
	static const struct fm_process_info unknown;
	const struct fm_profile *p = x->a->profile;
	uint32_t process = x->sums.rows.items[begin].process_id;
	x->resource.len = x->scope.len = 0;
	put_resource(x, process < p->processes.n ? &p->processes.items[process].info : &unknown);
	put_scope(x, begin == 0);
	for (size_t i = 0; i < FM_ARRAY_LEN(order); i++)
		put_profile(x, begin, end, order[i]);
	fm_proto_message(&x->resource, RESOURCE_PROFILES_SCOPE, &x->scope);
	fm_proto_put(out, DATA_RESOURCE_PROFILES, &x->resource);
}

static void put_processes(struct otlp *x, FILE *out)
{
	const struct fm_sum_row *rows = x->sums.rows.items;
	for (size_t begin = 0, end; begin < x->sums.rows.n; begin = end) {
		for (end = begin + 1; end < x->sums.rows.n && rows[end].process_id == rows[begin].process_id;)
			end++;
		put_process(x, out, begin, end);
	}
}

// ---- the dictionary: its entries are put together in x->scope ----

// One of the words that semantic conventions have; NULL where none fits.
static const char *frame_type(const struct otlp *x, const struct fm_dict_location *location)
{
	if (location->kind == FM_FRAME_PYTHON)
		return "cpython";
	if (location->kind != FM_FRAME_NATIVE)
		return NULL;
	if (!location->image1)
		return "native";
	uint32_t path = fm_dict_image(&x->dict, location->image1 - 1).path;
	return fm_str_starts_with(fm_intern_get(&x->dict.strings, path), "[kernel") ? "kernel" : "native";
}

static void put_locations(struct otlp *x)
{
	fm_proto_message(&x->scope, DICT_LOCATION, &(struct fm_buf){ 0 });
	for (uint32_t i = 0; i < x->dict.locations.strings.n; i++) {
		struct fm_dict_location location = fm_dict_location(&x->dict, i);
		x->message.len = 0;
		fm_proto_uint_unless_0(&x->message, LOCATION_MAPPING, location.image1);
		for (uint32_t k = 0; k < location.n_lines; k++) {
			x->part.len = 0;
			fm_proto_uint(&x->part, LINE_FUNCTION, location.lines[k].function + AFTER_NOTHING);
			fm_proto_uint_unless_0(&x->part, LINE_LINE, location.lines[k].line);
			fm_proto_message(&x->message, LOCATION_LINE, &x->part);
		}
		const char *type = frame_type(x, &location);
		uint64_t id = type ? attribute(x, "profile.frame.type", fm_str_of(type)) : 0;
		fm_proto_uints(&x->message, LOCATION_ATTRIBUTES, &id, type ? 1 : 0);
		fm_proto_message(&x->scope, DICT_LOCATION, &x->message);
	}
}

static void put_mappings(struct otlp *x)
{
	fm_proto_message(&x->scope, DICT_MAPPING, &(struct fm_buf){ 0 });
	for (uint32_t i = 0; i < x->dict.images.strings.n; i++) {
		struct fm_dict_image image = fm_dict_image(&x->dict, i);
		x->message.len = 0;
		fm_proto_uint_unless_0(&x->message, MAPPING_START, image.start);
		fm_proto_uint_unless_0(&x->message, MAPPING_LIMIT, image.end);
		fm_proto_uint_unless_0(&x->message, MAPPING_FILENAME, image.path);
		if (image.build_id1) {
			struct fm_str build_id = fm_intern_get(&x->dict.build_ids, image.build_id1 - 1);
			uint64_t id = attribute(x, "process.executable.build_id.gnu", build_id);
			fm_proto_uints(&x->message, MAPPING_ATTRIBUTES, &id, 1);
		}
		fm_proto_message(&x->scope, DICT_MAPPING, &x->message);
	}
}

static void put_functions(struct otlp *x)
{
	fm_proto_message(&x->scope, DICT_FUNCTION, &(struct fm_buf){ 0 });
	for (uint32_t i = 0; i < x->dict.functions.strings.n; i++) {
		struct fm_dict_function f = fm_dict_function(&x->dict, i);
		x->message.len = 0;
		fm_proto_uint_unless_0(&x->message, FUNCTION_NAME, f.name);
		fm_proto_uint_unless_0(&x->message, FUNCTION_SYSTEM_NAME, f.full_name);
		fm_proto_uint_unless_0(&x->message, FUNCTION_FILENAME, f.file);
		fm_proto_uint_unless_0(&x->message, FUNCTION_START_LINE, f.line);
		fm_proto_message(&x->scope, DICT_FUNCTION, &x->message);
	}
}

static void put_stacks(struct otlp *x)
{
	fm_proto_message(&x->scope, DICT_STACK, &(struct fm_buf){ 0 });
	for (uint32_t i = 0; i < x->stacks.strings.n; i++) {
		struct fm_str bytes = x->stacks.strings.items[i];
		x->ids.n = bytes.len / sizeof(*x->ids.items);
		memcpy(x->ids.items, bytes.p, bytes.len);
		x->message.len = 0;
		fm_proto_uints(&x->message, STACK_LOCATIONS, x->ids.items, x->ids.n);
		fm_proto_message(&x->scope, DICT_STACK, &x->message);
	}
}

static void put_attributes(struct otlp *x)
{
	fm_proto_message(&x->scope, DICT_ATTRIBUTE, &(struct fm_buf){ 0 });
	for (uint32_t i = 0; i < x->attributes.strings.n; i++) {
		struct attribute entry;
		memcpy(&entry, x->attributes.strings.items[i].p, sizeof(entry));
		x->message.len = x->value.len = 0;
		if (entry.text1)
			fm_proto_text(&x->value, VALUE_STRING, fm_intern_get(&x->texts, entry.text1 - 1));
		else
			fm_proto_uint(&x->value, VALUE_INT, entry.number);
		fm_proto_uint(&x->message, ATTRIBUTE_KEY, entry.key);
		fm_proto_message(&x->message, ATTRIBUTE_VALUE, &x->value);
		fm_proto_message(&x->scope, DICT_ATTRIBUTE, &x->message);
	}
}

// A link to no span: identifiers of the right length, all zero, for readers that look at it.
static void put_links(struct otlp *x)
{
	static const uint8_t zeros[16];
	x->message.len = 0;
	fm_proto_bytes(&x->message, LINK_TRACE_ID, zeros, 16);
	fm_proto_bytes(&x->message, LINK_SPAN_ID, zeros, 8);
	fm_proto_message(&x->scope, DICT_LINK, &x->message);
}

static void put_dictionary(struct otlp *x, FILE *out)
{
	x->scope.len = 0;
	put_mappings(x);
	put_locations(x);
	put_functions(x);
	put_links(x);
	put_stacks(x);
	put_attributes(x);
	for (uint32_t i = 0; i < x->dict.strings.strings.n; i++) // all others have named theirs
		fm_proto_text(&x->scope, DICT_STRING, fm_intern_get(&x->dict.strings, i));
	fm_proto_put(out, DATA_DICTIONARY, &x->scope);
}

enum fm_err fm_write_otlp(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	(void)diag;
	struct otlp x = { .a = a, .stack_of_node = fm_alloc(a->view.nodes.n * sizeof(uint32_t)) };
	fm_sums_build(&x.sums, a);
	fm_facts_gather(&x.facts, a);
	fm_dict_init(&x.dict, a);
	put_processes(&x, out);
	put_dictionary(&x, out);
	fm_dict_deinit(&x.dict);
	fm_sums_deinit(&x.sums);
	fm_intern_deinit(&x.attributes);
	fm_intern_deinit(&x.stacks);
	fm_intern_deinit(&x.texts);
	free(x.stack_of_node);
	fm_vec_deinit(&x.ids);
	struct fm_buf *bufs[] = { &x.resource, &x.scope, &x.profile, &x.message, &x.part, &x.value, &x.text };
	for (size_t i = 0; i < FM_ARRAY_LEN(bufs); i++)
		fm_buf_deinit(bufs[i]);
	return FM_OK;
}
