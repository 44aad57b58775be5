// SPDX-License-Identifier: Apache-2.0
#include "read/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/memory.h"
#include "format/record.h"
#include "format/samples.h"
#include "format/zones.h"
#include "read/chunks.h"
#include "read/tables.h"

struct fm_reader {
	char *path;
	const struct fm_reader *first; // has the tables; NULL = this one
	bool with_samples, with_others;
	uint64_t end_offset; // of the last chunk so far
	size_t n_stacks;     // of the file; stacks that were added at its end are not
	struct fm_chunks chunks;
	struct fm_tables tables;
	struct fm_cursor records; // what is left of the current chunk
	struct fm_sample_batch batch;
	struct fm_zone_batch trace;
	bool has_trace; // not handed out yet
	uint32_t run_pos, run_n;
	uint64_t n_samples;
	uint64_t n_written; // samples the end mark tells of
	uint64_t n_memory_events, n_memory_events_written;
	uint64_t n_bad_chunks; // whole by their checksum, impossible by their content
	bool is_done;
	struct fm_memory_batch memory;
	enum fm_event_type run_type; // what the run holds
	union {
		struct fm_sample run[FM_SAMPLE_RUN];
		struct fm_alloc allocs[FM_MEMORY_RUN];
		struct fm_free frees[FM_MEMORY_RUN];
	};
};

enum fm_err fm_reader_open(const char *path, struct fm_reader **ret, struct fm_diag *diag)
{
	struct fm_chunks chunks;
	enum fm_err err = fm_chunks_open(&chunks, path, diag);
	if (err)
		return err;
	struct fm_reader *r = fm_alloc(sizeof(*r));
	r->path = fm_strdup_n(path, strlen(path));
	r->with_samples = r->with_others = true;
	r->chunks = chunks;
	r->records = fm_cursor_over("", 0);
	fm_tables_init(&r->tables);
	*ret = r;
	return FM_OK;
}

enum fm_err fm_reader_open_again(const struct fm_reader *first, bool with_samples, bool with_others,
				 struct fm_reader **ret, struct fm_diag *diag)
{
	enum fm_err err = fm_reader_open(first->path, ret, diag);
	if (err)
		return err;
	(*ret)->first = first;
	(*ret)->with_samples = with_samples;
	(*ret)->with_others = with_others;
	return FM_OK;
}

void fm_reader_close(struct fm_reader *r)
{
	if (!r)
		return;
	fm_chunks_close(&r->chunks);
	fm_tables_deinit(&r->tables);
	free(r->path);
	free(r);
}

const char *fm_reader_path(const struct fm_reader *r)
{
	return r->path;
}

// The line a report shows when a file is not whole. Worst first, as the buffer is short.
static void describe_damage(struct fm_reader *r)
{
	struct fm_profile *p = &r->tables.profile;
	char *out = p->damage;
	size_t left = sizeof(p->damage);
	int n = 0;
#define ADD(...)                                      \
	do {                                          \
		n = snprintf(out, left, __VA_ARGS__); \
		n = FM_MIN(n, (int)left - 1);         \
		out += n;                             \
		left -= (size_t)n;                    \
	} while (0)
	if (p->n_damaged_chunks) {
		ADD("%" PRIu64 " damaged part%s left out", p->n_damaged_chunks, p->n_damaged_chunks == 1 ? "" : "s");
		if (r->chunks.has_end && r->n_written > r->n_samples)
			ADD(" (%" PRIu64 " of %" PRIu64 " samples lost)", r->n_written - r->n_samples, r->n_written);
		if (p->n_lost_memory_events)
			ADD(" (%" PRIu64 " memory events lost)", p->n_lost_memory_events);
	}
	const char *separator = p->n_damaged_chunks ? "; " : "";
	if (r->chunks.is_too_large)
		ADD("%sreading stopped after %" PRIu64
		    " bytes, which unpack to more than a profile can hold: do not trust this file",
		    separator, r->chunks.offset);
	else if (r->chunks.read_errno)
		ADD("%sreading stopped: %s", separator, strerror(r->chunks.read_errno));
	else if (!r->chunks.has_end)
		ADD("%sno end mark: the recording was cut off or still runs", separator);
	else if (r->chunks.n_cut_bytes)
		ADD("%s%" PRIu64 " foreign bytes after the end", separator, r->chunks.n_cut_bytes);
#undef ADD
}

static enum fm_err finish(struct fm_reader *r)
{
	if (!r->is_done) {
		struct fm_profile *p = &r->tables.profile;
		p->is_truncated = !r->chunks.has_end || r->chunks.n_cut_bytes;
		p->n_damaged_chunks = r->chunks.n_damaged + r->n_bad_chunks;
		p->n_lost_samples = r->n_written > r->n_samples ? r->n_written - r->n_samples : 0;
		if (r->n_memory_events_written > r->n_memory_events)
			p->n_lost_memory_events = r->n_memory_events_written - r->n_memory_events;
		describe_damage(r);
		r->n_stacks = p->stacks.n;
		r->is_done = true;
	}
	return FM_E_END;
}

// What is left of a chunk with impossible content cannot be trusted; what came before it stays.
static void give_up_chunk(struct fm_reader *r)
{
	r->n_bad_chunks++;
	r->batch.n = r->batch.pos = 0;
	r->memory.n = r->memory.pos = 0;
	r->records = fm_cursor_over("", 0);
}

static void stop(struct fm_reader *r)
{
	r->chunks.is_too_large = true;
	r->batch.n = r->batch.pos = 0;
	r->memory.n = r->memory.pos = 0;
	r->has_trace = false;
	r->records = fm_cursor_over("", 0);
}

// What is charged and made valid is the first reader's; the second one asks for no more than it.
static enum fm_err charge(struct fm_reader *r, uint64_t bytes)
{
	return r->first ? FM_OK : fm_tables_charge(&r->tables, bytes);
}

static bool need_thread(struct fm_reader *r, uint32_t thread_id)
{
	return r->first ? thread_id < r->first->tables.profile.threads.n : fm_tables_need_thread(&r->tables, thread_id);
}

static bool need_stack(struct fm_reader *r, uint32_t stack_id)
{
	if (FM_LIKELY(stack_id < (r->first ? r->first->n_stacks : r->tables.profile.stacks.n)))
		return true;
	return !r->first && fm_tables_need_stack(&r->tables, stack_id);
}

static void begin_batch(struct fm_reader *r, struct fm_cursor *body)
{
	if (fm_samples_get(body, &r->batch)) {
		give_up_chunk(r);
		return;
	}
	if (charge(r, (uint64_t)r->batch.n * FM_READ_SAMPLE_CHARGE)) {
		stop(r);
		return;
	}
	if (!need_thread(r, r->batch.thread_id))
		r->batch.pos = r->batch.n; // counted as an undefined reference
}

static void begin_trace(struct fm_reader *r, struct fm_cursor *body)
{
	if (fm_zones_get(body, &r->trace))
		give_up_chunk(r);
	else if (charge(r, (uint64_t)r->trace.n * FM_READ_TRACE_EVENT_CHARGE))
		stop(r);
	else
		r->has_trace = need_thread(r, r->trace.thread_id);
}

enum fm_err fm_trace_next(const struct fm_profile *p, struct fm_zone_batch *batch, struct fm_zone_event *ret)
{
	enum fm_err err = fm_zone_batch_next(batch, ret);
	if (FM_UNLIKELY(err))
		return FM_E_END; // what is left of impossible content cannot be trusted
	if (ret->op <= FM_ZONE_RESUME && FM_UNLIKELY(ret->ref >= p->codes.n))
		ret->ref = FM_NO_ID;
	else if ((ret->op == FM_ZONE_BEGIN || ret->op == FM_ZONE_MARK || ret->op == FM_ZONE_COUNTER) &&
		 FM_UNLIKELY(ret->ref >= p->trace_names.n))
		ret->ref = FM_NO_ID;
	return FM_OK;
}

static void decode_run(struct fm_reader *r)
{
	uint32_t n = 0;
	if (fm_sample_batch_decode(&r->batch, r->run, &n)) {
		give_up_chunk(r);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		if (FM_UNLIKELY(!need_stack(r, r->run[i].stack_id)))
			r->run[i].stack_id = FM_ROOT_STACK;
	r->run_type = FM_EVENT_SAMPLE;
	r->run_pos = 0;
	r->run_n = n;
	r->n_samples += n;
}

static void begin_memory(struct fm_reader *r, struct fm_cursor *body, bool is_frees)
{
	if (fm_memory_batch_get(body, is_frees, &r->memory)) {
		give_up_chunk(r);
		return;
	}
	if (charge(r, (uint64_t)r->memory.n * FM_READ_MEMORY_EVENT_CHARGE))
		stop(r);
	else if (!need_thread(r, r->memory.thread_id))
		r->memory.pos = r->memory.n;
}

static void decode_memory(struct fm_reader *r)
{
	uint32_t n = 0;
	if (r->memory.is_frees ? fm_memory_batch_frees(&r->memory, r->frees, &n)
			       : fm_memory_batch_allocs(&r->memory, r->allocs, &n)) {
		give_up_chunk(r);
		return;
	}
	for (uint32_t i = 0; i < n && !r->memory.is_frees; i++)
		if (FM_UNLIKELY(!need_stack(r, r->allocs[i].stack_id)))
			r->allocs[i].stack_id = FM_ROOT_STACK;
	r->run_type = r->memory.is_frees ? FM_EVENT_FREE : FM_EVENT_ALLOC;
	r->run_pos = 0;
	r->run_n = n;
	r->n_memory_events += n;
}

static void read_end_mark(struct fm_reader *r, struct fm_cursor *c)
{
	r->n_written = fm_cursor_varint(c);
	r->n_memory_events_written = fm_cursor_varint(c);
}

static enum fm_err next_chunk(struct fm_reader *r)
{
	struct fm_chunk chunk;
	if (r->first && r->end_offset >= r->first->end_offset)
		return finish(r);
	if (fm_chunks_next(&r->chunks, &chunk))
		return r->chunks.is_followed && !r->chunks.has_end && !r->chunks.is_too_large ? FM_E_END : finish(r);
	r->end_offset = r->chunks.offset;
	r->tables.max_charged_bytes = FM_READ_FLOOR_BYTES + r->chunks.offset * FM_READ_CHARGED_RATIO;
	struct fm_cursor c = fm_cursor_over(chunk.raw, chunk.len);
	if (chunk.type == FM_CHUNK_RECORDS)
		r->records = c;
	else if (chunk.type == FM_CHUNK_END)
		read_end_mark(r, &c);
	return FM_OK;
}

static void begin_record(struct fm_reader *r, uint64_t type, struct fm_cursor *body)
{
	enum fm_err err = FM_OK;
	bool is_samples = type == FM_RECORD_SAMPLES;
	bool is_memory = type == FM_RECORD_ALLOCS || type == FM_RECORD_FREES, is_trace = type == FM_RECORD_TRACE;
	if (r->first && !(is_samples && r->with_samples) && !((is_memory || is_trace) && r->with_others))
		return;
	if (is_samples)
		begin_batch(r, body);
	else if (is_memory)
		begin_memory(r, body, type == FM_RECORD_FREES);
	else if (is_trace)
		begin_trace(r, body);
	else if ((err = fm_tables_record(&r->tables, type, body)) == FM_E_TOO_LARGE)
		stop(r);
	else if (err)
		give_up_chunk(r);
}

static enum fm_err next_record(struct fm_reader *r)
{
	uint64_t type;
	struct fm_cursor body;
	enum fm_err err = fm_record_next(&r->records, &type, &body);
	if (err == FM_E_END)
		return next_chunk(r);
	if (err)
		give_up_chunk(r);
	else
		begin_record(r, type, &body);
	return FM_OK;
}

enum fm_err fm_reader_next(struct fm_reader *r, struct fm_event *ret)
{
	while (FM_UNLIKELY(r->run_pos == r->run_n)) {
		if (r->batch.pos < r->batch.n) {
			decode_run(r);
			continue;
		}
		if (r->memory.pos < r->memory.n) {
			decode_memory(r);
			continue;
		}
		enum fm_err err = next_record(r);
		if (err)
			return err;
		if (r->has_trace) {
			r->has_trace = false;
			ret->type = FM_EVENT_TRACE;
			ret->trace = &r->trace;
			return FM_OK;
		}
	}
	ret->type = r->run_type;
	if (FM_LIKELY(r->run_type == FM_EVENT_SAMPLE))
		ret->sample = r->run[r->run_pos++];
	else if (r->run_type == FM_EVENT_ALLOC)
		ret->alloc = r->allocs[r->run_pos++];
	else
		ret->free = r->frees[r->run_pos++];
	return FM_OK;
}

const struct fm_sample *fm_reader_samples(struct fm_reader *r, uint32_t *ret_n)
{
	uint32_t first = r->run_pos - 1;
	*ret_n = r->run_n - first;
	r->run_pos = r->run_n;
	return &r->run[first];
}

void fm_reader_follow(struct fm_reader *r)
{
	r->chunks.is_followed = true;
}

bool fm_reader_has_end(const struct fm_reader *r)
{
	return r->chunks.has_end;
}

const struct fm_profile *fm_reader_profile(const struct fm_reader *r)
{
	return r->first ? &r->first->tables.profile : &r->tables.profile;
}

uint32_t fm_reader_add_frame(struct fm_reader *r, struct fm_frame frame)
{
	fm_vec_push(&r->tables.profile.frames, frame);
	return (uint32_t)r->tables.profile.frames.n - 1;
}

uint32_t fm_reader_add_stack(struct fm_reader *r, struct fm_stack stack)
{
	fm_vec_push(&r->tables.profile.stacks, stack);
	return (uint32_t)r->tables.profile.stacks.n - 1;
}

uint64_t fm_reader_bytes_read(const struct fm_reader *r)
{
	return r->chunks.offset;
}

uint64_t fm_reader_bytes_total(const struct fm_reader *r)
{
	return r->chunks.size;
}

struct fm_str fm_profile_meta(const struct fm_profile *p, const char *key, struct fm_str fallback)
{
	for (size_t i = 0; i < p->metas.n; i++)
		if (fm_str_eq(p->metas.items[i].key, fm_str_of(key)))
			return p->metas.items[i].value;
	return fallback;
}

uint64_t fm_profile_meta_u64(const struct fm_profile *p, const char *key)
{
	struct fm_str s = fm_profile_meta(p, key, FM_STR_LIT(""));
	uint64_t v = 0;
	for (uint32_t i = 0; i < s.len && s.p[i] >= '0' && s.p[i] <= '9' && v < UINT64_MAX / 10 - 9; i++)
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	return v;
}
