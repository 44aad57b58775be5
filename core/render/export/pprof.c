// SPDX-License-Identifier: Apache-2.0
// pprof's profile.proto, gzipped: CPU time, samples, waiting and memory as sample types of one
// profile, threads and classes as labels.
//
// Field numbers: github.com/google/pprof, proto/profile.proto.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "render/export/dictionary.h"
#include "render/export/proto.h"
#include "render/export/sample_sums.h"
#include "render/shared/facts.h"
#include "render/shared/formats.h"
#include "render/shared/label.h"
#include "render/shared/packed.h"

enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_STR = 2,
	LABEL_NUM = 3,
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_INLINE_FRAMES = 10,
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID = 2,
	LOCATION_LINE = 4,
	LINE_FUNCTION_ID = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILENAME = 4,
	FUNCTION_START_LINE = 5,
};

struct pprof {
	FILE *out;
	const struct fm_analysis *a;
	struct fm_dict dict;
	struct fm_dict_ids ids;
	struct fm_buf message, part, text;
};

static uint32_t string(struct pprof *x, const char *text)
{
	return fm_dict_string(&x->dict, fm_str_of(text));
}

static void put_type(struct pprof *x, uint32_t field, const char *type, const char *unit)
{
	x->message.len = 0;
	fm_proto_uint(&x->message, TYPE_TYPE, string(x, type));
	fm_proto_uint(&x->message, TYPE_UNIT, string(x, unit));
	fm_proto_put(x->out, field, &x->message);
}

static void put_number(struct pprof *x, uint32_t field, uint64_t value)
{
	x->message.len = 0;
	fm_proto_uint_unless_0(&x->message, field, value);
	if (x->message.len)
		fwrite(x->message.data, 1, x->message.len, x->out);
}

static void add_label(struct pprof *x, const char *key, uint32_t field, uint64_t value)
{
	x->part.len = 0;
	fm_proto_uint(&x->part, LABEL_KEY, string(x, key));
	fm_proto_uint(&x->part, field, value);
	fm_proto_message(&x->message, SAMPLE_LABEL, &x->part);
}

static void add_labels(struct pprof *x, const struct fm_sum_row *row)
{
	const struct fm_profile *p = x->a->profile;
	if (row->class != FM_SUM_NO_CLASS)
		add_label(x, "class", LABEL_STR, string(x, fm_sum_class_name(row->class)));
	if (row->thread_id >= p->threads.n)
		return;
	const struct fm_thread *thread = &p->threads.items[row->thread_id];
	uint32_t process = fm_label_process_of(x->a, row->thread_id);
	if (thread->name.len)
		add_label(x, "thread", LABEL_STR, fm_dict_string(&x->dict, thread->name));
	add_label(x, "tid", LABEL_NUM, thread->tid);
	if (process != FM_NO_ID)
		add_label(x, "pid", LABEL_NUM, p->processes.items[process].info.pid);
}

static void put_samples(struct pprof *x, const struct fm_sums *sums)
{
	for (size_t i = 0; i < sums->rows.n; i++) {
		const struct fm_sum_row *row = &sums->rows.items[i];
		uint64_t values[FM_N_SUM_COLUMNS];
		size_t n = 0;
		for (unsigned c = 0; c < FM_N_SUM_COLUMNS; c++)
			if (sums->has[c])
				values[n++] = FM_MIN(row->values[c], (uint64_t)INT64_MAX);
		x->ids.n = x->message.len = 0;
		fm_dict_stack(&x->dict, row->node, 1, &x->ids);
		fm_proto_uints(&x->message, SAMPLE_LOCATION_ID, x->ids.items, x->ids.n);
		fm_proto_uints(&x->message, SAMPLE_VALUE, values, n);
		add_labels(x, row);
		fm_proto_put(x->out, PROFILE_SAMPLE, &x->message);
	}
}

static void put_mappings(struct pprof *x)
{
	for (uint32_t i = 0; i < x->dict.images.strings.n; i++) {
		struct fm_dict_image image = fm_dict_image(&x->dict, i);
		x->message.len = 0;
		fm_proto_uint(&x->message, MAPPING_ID, i + 1);
		fm_proto_uint_unless_0(&x->message, MAPPING_START, image.start);
		fm_proto_uint_unless_0(&x->message, MAPPING_LIMIT, image.end);
		fm_proto_uint_unless_0(&x->message, MAPPING_FILENAME, image.path);
		if (image.build_id1)
			fm_proto_uint(&x->message, MAPPING_BUILD_ID,
				      fm_dict_string(&x->dict, fm_intern_get(&x->dict.build_ids, image.build_id1 - 1)));
		// What is not named by now has no address to be looked up by: nobody is to try.
		for (uint32_t has = MAPPING_HAS_FUNCTIONS; has <= MAPPING_HAS_INLINE_FRAMES; has++)
			fm_proto_uint(&x->message, has, 1);
		fm_proto_put(x->out, PROFILE_MAPPING, &x->message);
	}
}

static void put_locations(struct pprof *x)
{
	for (uint32_t i = 0; i < x->dict.locations.strings.n; i++) {
		struct fm_dict_location location = fm_dict_location(&x->dict, i);
		x->message.len = 0;
		fm_proto_uint(&x->message, LOCATION_ID, i + 1);
		fm_proto_uint_unless_0(&x->message, LOCATION_MAPPING_ID, location.image1);
		for (uint32_t k = 0; k < location.n_lines; k++) {
			x->part.len = 0;
			fm_proto_uint(&x->part, LINE_FUNCTION_ID, location.lines[k].function + 1);
			fm_proto_uint_unless_0(&x->part, LINE_LINE, location.lines[k].line);
			fm_proto_message(&x->message, LOCATION_LINE, &x->part);
		}
		fm_proto_put(x->out, PROFILE_LOCATION, &x->message);
	}
}

static void put_functions(struct pprof *x)
{
	for (uint32_t i = 0; i < x->dict.functions.strings.n; i++) {
		struct fm_dict_function f = fm_dict_function(&x->dict, i);
		x->message.len = 0;
		fm_proto_uint(&x->message, FUNCTION_ID, i + 1);
		fm_proto_uint_unless_0(&x->message, FUNCTION_NAME, f.name);
		fm_proto_uint_unless_0(&x->message, FUNCTION_SYSTEM_NAME, f.full_name);
		fm_proto_uint_unless_0(&x->message, FUNCTION_FILENAME, f.file);
		fm_proto_uint_unless_0(&x->message, FUNCTION_START_LINE, f.line);
		fm_proto_put(x->out, PROFILE_FUNCTION, &x->message);
	}
}

static void put_comment(struct pprof *x)
{
	put_number(x, PROFILE_COMMENT,
		   fm_dict_string(&x->dict, (struct fm_str){ (const char *)x->text.data, (uint32_t)x->text.len }));
	x->text.len = 0;
}

static void put_coverage(void *ctx, struct fm_str what, struct fm_str why)
{
	struct pprof *x = ctx;
	fm_buf_printf(&x->text, "not seen: %.*s: %.*s", (int)what.len, what.p, (int)why.len, why.p);
	put_comment(x);
}

static void put_head(struct pprof *x, const struct fm_facts *facts)
{
	put_number(x, PROFILE_TIME_NANOS, fm_sums_started_ns(x->a));
	put_number(x, PROFILE_DURATION_NANOS, (uint64_t)fmax(0, fmin(facts->wall_s * 1e9, 9e18)));
	put_type(x, PROFILE_PERIOD_TYPE, "cpu", "nanoseconds");
	put_number(x, PROFILE_PERIOD, facts->rate_hz ? 1000000000 / facts->rate_hz : 0);
	put_number(x, PROFILE_DEFAULT_SAMPLE_TYPE, string(x, fm_sum_kinds[FM_SUM_CPU].type));
	fm_buf_str(&x->text, "fathom " FM_VERSION ": ");
	fm_label_command(&x->text, facts->command);
	put_comment(x);
}

static void write_profile(struct pprof *x, struct fm_analysis *a)
{
	struct fm_sums sums;
	struct fm_facts facts;
	fm_sums_build(&sums, a);
	fm_facts_gather(&facts, a);
	for (unsigned c = 0; c < FM_N_SUM_COLUMNS; c++)
		if (sums.has[c])
			put_type(x, PROFILE_SAMPLE_TYPE, fm_sum_kinds[c].type, fm_sum_kinds[c].unit);
	put_head(x, &facts);
	fm_facts_coverage(a, &facts, fm_analysis_summary(a), put_coverage, x);
	put_samples(x, &sums);
	put_mappings(x);
	put_locations(x);
	put_functions(x);
	for (uint32_t i = 0; i < x->dict.strings.strings.n; i++) {
		x->message.len = 0;
		fm_proto_text(&x->message, PROFILE_STRING_TABLE, fm_intern_get(&x->dict.strings, i));
		fwrite(x->message.data, 1, x->message.len, x->out);
	}
	fm_sums_deinit(&sums);
}

enum fm_err fm_write_pprof(FILE *out, struct fm_analysis *a, struct fm_diag *diag)
{
	struct pprof x = { .out = fm_packed_gzip(out, 6), .a = a };
	if (!x.out)
		return fm_diag_set(diag, FM_E_IO, "cannot pack the profile: %s", strerror(errno));
	fm_dict_init(&x.dict, a);
	fm_dict_main_image(&x.dict); // which pprof takes for the program
	write_profile(&x, a);
	fm_dict_deinit(&x.dict);
	fm_vec_deinit(&x.ids);
	fm_buf_deinit(&x.message);
	fm_buf_deinit(&x.part);
	fm_buf_deinit(&x.text);
	fclose(x.out); // an error stays in out
	return FM_OK;
}
