// SPDX-License-Identifier: Apache-2.0
// Gathers records and writes them out as one chunk per flush.
//
// A chunk's records come in the order tables, facts, memory, traces, samples: whatever a record
// refers to stands before it, in the same chunk or an earlier one.
#include "format/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "format/chunk.h"
#include "format/facts.h"
#include "format/interned.h"
#include "format/memory.h"
#include "format/output.h"
#include "format/record.h"
#include "format/redact.h"
#include "format/samples.h"
#include "format/sites.h"

// A chunk is cut here even without a flush, so that neither side needs more memory than this
// however long a capture runs.
#define CUT_BYTES ((size_t)256 << 10)
// About 10 bytes a sample before compression: nearly the same.
#define CUT_SAMPLES ((size_t)32 << 10)
#define SITE_BYTES 16 // in columns, about
// Names are worth some effort, the more the fewer they are: a short profile is nothing else, and
// soon packed. Samples are mostly noise in the low bytes of times: entropy coding makes them 7 %
// smaller and takes half again as long to read back, so negative levels, which leave it out, are
// the better bargain.
#define ZSTD_LEVEL_TABLES 3
#define ZSTD_LEVEL_SMALL_TABLES 12
#define SMALL_TABLES_BYTES ((size_t)32 << 10)
#define ZSTD_LEVEL_SAMPLES (-1)
// The longest record is a process with four strings: 32 MiB, well below FM_CHUNK_MAX_RAW_BYTES.
#define MAX_STRING_BYTES ((uint32_t)8 << 20)
#define MAX_SOURCE_BYTES ((uint32_t)32 << 20)

struct thread_state {
	uint32_t n_pending; // samples waiting
	uint32_t order_pos; // where its next sample's index goes, while a chunk is built
};

struct kept_file {
	uint32_t image_id;
	int fd;
};

struct fm_writer {
	struct fm_output out;
	ZSTD_CCtx *zstd;
	uint32_t seq;
	uint64_t n_samples, n_memory_events;

	struct fm_interned interned;
	struct fm_buf traces; // whole records: batches of traces
	struct fm_buf facts;  // whole records in the order of the calls, so that a later one replaces an earlier one
	size_t pending_bytes; // in these, in memory's facts and in sites
	struct fm_map source_names;

	uint32_t n_processes;
	FM_VEC(struct kept_file) kept_files;
	FM_VEC(struct thread_state) threads;
	FM_VEC(uint32_t) busy_threads; // those with samples waiting
	FM_VEC(struct fm_sample) samples;
	FM_VEC(uint32_t) order;
	struct fm_memory_pending memory;
	struct fm_sites_pending sites;

	const struct fm_redact *redact; // NULL = everything is written as it is
	uint32_t n_masked_words, n_masked_lines;
	struct fm_buf masked;

	struct fm_buf head, scratch, columns, raw, sealed; // kept from chunk to chunk
};

enum fm_err fm_writer_open(const char *path, struct fm_writer **ret, struct fm_diag *diag)
{
	struct fm_writer *w = fm_alloc(sizeof(*w));
	enum fm_err err = fm_output_open(&w->out, path, diag);
	if (err) {
		free(w);
		return err;
	}
	uint8_t header[FM_FILE_HEADER_BYTES];
	fm_file_header_put(header);
	err = fm_output_append(&w->out, header, sizeof(header));
	if (err) {
		fm_output_close(&w->out, diag);
		free(w);
		return err;
	}
	w->zstd = ZSTD_createCCtx();
	fm_interned_init(&w->interned);
	*ret = w;
	return FM_OK;
}

static void put_samples(struct fm_writer *w)
{
	if (!w->samples.n)
		return;
	// Sort by thread, keeping the order within each: count, find each thread's place, deal out.
	fm_vec_reserve(&w->order, w->samples.n);
	uint32_t pos = 0;
	for (size_t i = 0; i < w->busy_threads.n; i++) {
		struct thread_state *t = &w->threads.items[w->busy_threads.items[i]];
		t->order_pos = pos;
		pos += t->n_pending;
	}
	for (uint32_t i = 0; i < w->samples.n; i++)
		w->order.items[w->threads.items[w->samples.items[i].thread_id].order_pos++] = i;
	for (size_t i = 0; i < w->busy_threads.n; i++) {
		struct thread_state *t = &w->threads.items[w->busy_threads.items[i]];
		w->head.len = 0;
		fm_samples_put(&w->head, &w->columns, w->samples.items, &w->order.items[t->order_pos - t->n_pending],
			       t->n_pending);
		fm_record_put(&w->raw, FM_RECORD_SAMPLES, &w->head, NULL, 0);
		t->n_pending = 0;
	}
	w->n_samples += w->samples.n;
	w->samples.n = 0;
	w->busy_threads.n = 0;
}

static enum fm_err write_chunk(struct fm_writer *w, enum fm_chunk_type type, int level)
{
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, level);
	fm_chunk_seal(w->zstd, type, w->seq, w->raw.data, w->raw.len, &w->sealed);
	enum fm_err err = fm_output_append(&w->out, w->sealed.data, w->sealed.len);
	if (!err)
		w->seq++;
	return err;
}

enum fm_err fm_writer_flush(struct fm_writer *w)
{
	if (w->out.err || (!w->pending_bytes && !w->interned.pending_bytes && !w->samples.n && !w->memory.allocs.n &&
			   !w->memory.frees.n))
		return w->out.err;
	w->raw.len = 0;
	fm_interned_put(&w->interned, &w->raw);
	fm_buf_bytes(&w->raw, w->facts.data, w->facts.len);
	w->facts.len = 0;
	fm_memory_pending_put(&w->memory, &w->raw);
	fm_sites_pending_put(&w->sites, &w->raw);
	size_t table_bytes = w->raw.len;
	fm_buf_bytes(&w->raw, w->traces.data, w->traces.len);
	w->traces.len = 0;
	put_samples(w);
	w->pending_bytes = 0;
	bool is_samples = w->raw.len - table_bytes > table_bytes, is_small = w->raw.len <= SMALL_TABLES_BYTES;
	return write_chunk(w, FM_CHUNK_RECORDS,
			   is_samples ? ZSTD_LEVEL_SAMPLES
			   : is_small ? ZSTD_LEVEL_SMALL_TABLES
				      : ZSTD_LEVEL_TABLES);
}

void fm_writer_redact(struct fm_writer *w, const struct fm_redact *rules)
{
	w->redact = rules;
}

typedef uint32_t mask_fn(const struct fm_redact *r, struct fm_str text, struct fm_buf *out);

// Borrows from `text` or from the writer, until the next call. Adds what was masked to *n_masked.
static struct fm_str masked(struct fm_writer *w, struct fm_str text, mask_fn *mask, uint32_t *n_masked)
{
	if (!w->redact)
		return text;
	w->masked.len = 0;
	*n_masked += mask(w->redact, text, &w->masked);
	return (struct fm_str){ w->masked.data ? (const char *)w->masked.data : "", (uint32_t)w->masked.len };
}

static void tell_masked(struct fm_writer *w)
{
	static const char why[] = "--redact masked what looks like a secret";
	char what[48];
	snprintf(what, sizeof(what), "%u source line%s", w->n_masked_lines, w->n_masked_lines == 1 ? "" : "s");
	if (w->n_masked_lines)
		fm_writer_coverage(w, fm_str_of(what), fm_str_of(why));
	if (w->n_masked_words)
		fm_writer_coverage(w, FM_STR_LIT("parts of command lines"), fm_str_of(why));
}

enum fm_err fm_writer_close(struct fm_writer *w, struct fm_diag *diag)
{
	tell_masked(w);
	fm_writer_flush(w);
	if (!w->out.err) {
		w->raw.len = 0;
		fm_buf_varint(&w->raw, w->n_samples);
		fm_buf_varint(&w->raw, w->n_memory_events);
		write_chunk(w, FM_CHUNK_END, ZSTD_LEVEL_TABLES);
	}
	enum fm_err err = fm_output_close(&w->out, diag);
	ZSTD_freeCCtx(w->zstd);
	fm_interned_deinit(&w->interned);
	struct fm_buf *bufs[] = { &w->traces,  &w->facts, &w->head,   &w->scratch,
				  &w->columns, &w->raw,   &w->sealed, &w->masked };
	for (size_t i = 0; i < FM_ARRAY_LEN(bufs); i++)
		fm_buf_deinit(bufs[i]);
	fm_map_deinit(&w->source_names);
	fm_vec_deinit(&w->threads);
	fm_vec_deinit(&w->busy_threads);
	fm_vec_deinit(&w->samples);
	fm_vec_deinit(&w->order);
	fm_memory_pending_deinit(&w->memory);
	fm_sites_pending_deinit(&w->sites);
	for (size_t i = 0; i < w->kept_files.n; i++)
		close(w->kept_files.items[i].fd);
	fm_vec_deinit(&w->kept_files);
	free(w);
	return err;
}

enum fm_err fm_writer_error(const struct fm_writer *w)
{
	return w->out.err;
}

void fm_writer_describe_error(const struct fm_writer *w, struct fm_diag *diag)
{
	fm_output_describe(&w->out, diag);
}

bool fm_writer_has_moved(const struct fm_writer *w, char *ret, size_t cap)
{
	return fm_output_has_moved(&w->out, ret, cap);
}

uint64_t fm_writer_bytes(const struct fm_writer *w)
{
	return w->out.offset;
}

static void cut_if_full(struct fm_writer *w)
{
	if (FM_UNLIKELY(w->pending_bytes + w->interned.pending_bytes >= CUT_BYTES))
		fm_writer_flush(w);
}

static void add_pending(struct fm_writer *w, size_t bytes)
{
	w->pending_bytes += bytes;
	cut_if_full(w);
}

static uint32_t cut_after(struct fm_writer *w, uint32_t id)
{
	cut_if_full(w);
	return id;
}

static struct fm_str limited(struct fm_str s)
{
	return (struct fm_str){ s.p, FM_MIN(s.len, MAX_STRING_BYTES) };
}

// A fact's body is built in w->scratch: begin_fact(), fields, end_fact().
static struct fm_buf *begin_fact(struct fm_writer *w)
{
	w->scratch.len = 0;
	return &w->scratch;
}

static void end_fact(struct fm_writer *w, enum fm_record_type type)
{
	size_t before = w->facts.len;
	fm_record_put(&w->facts, type, &w->scratch, NULL, 0);
	add_pending(w, w->facts.len - before);
}

static uint32_t string_id(struct fm_writer *w, struct fm_str s)
{
	return cut_after(w, fm_interned_string(&w->interned, limited(s)));
}

static void put_pair(struct fm_writer *w, enum fm_record_type type, struct fm_str first, struct fm_str second)
{
	fm_fact_put_pair(begin_fact(w), &(struct fm_fact_pair){ first, second });
	end_fact(w, type);
}

void fm_writer_meta(struct fm_writer *w, const char *key, struct fm_str value)
{
	if (w->out.err)
		return;
	if (!strcmp(key, "command"))
		value = masked(w, value, fm_redact_command, &w->n_masked_words);
	put_pair(w, FM_RECORD_META, limited(fm_str_of(key)), limited(value));
}

void fm_writer_coverage(struct fm_writer *w, struct fm_str what, struct fm_str why)
{
	if (w->out.err)
		return;
	put_pair(w, FM_RECORD_COVERAGE, limited(what), limited(why));
}

uint32_t fm_writer_process(struct fm_writer *w, const struct fm_process_info *info)
{
	if (w->out.err)
		return 0;
	uint32_t id = w->n_processes++;
	fm_writer_process_update(w, id, info);
	return id;
}

void fm_writer_process_update(struct fm_writer *w, uint32_t process_id, const struct fm_process_info *info)
{
	if (w->out.err || process_id >= w->n_processes)
		return;
	struct fm_fact_process process = { process_id, *info };
	struct fm_buf name = { 0 }; // a copy: what masked() lends is gone with its next call
	struct fm_str shown = masked(w, info->name, fm_redact_command, &w->n_masked_words);
	fm_buf_bytes(&name, shown.p, shown.len);
	process.info.exe = limited(info->exe);
	process.info.command = limited(masked(w, info->command, fm_redact_command, &w->n_masked_words));
	process.info.python_version = limited(info->python_version);
	process.info.engine = limited(info->engine);
	process.info.name = limited((struct fm_str){ name.data ? (const char *)name.data : "", (uint32_t)name.len });
	fm_fact_put_process(begin_fact(w), &process);
	fm_buf_deinit(&name);
	end_fact(w, FM_RECORD_PROCESS);
}

void fm_writer_process_end(struct fm_writer *w, uint32_t process_id, uint64_t time_ns, int exit_code, int exit_signal)
{
	if (w->out.err || process_id >= w->n_processes)
		return;
	fm_fact_put_process_end(begin_fact(w),
				&(struct fm_fact_process_end){ process_id, time_ns, exit_code, exit_signal });
	end_fact(w, FM_RECORD_PROCESS_END);
}

uint32_t fm_writer_thread(struct fm_writer *w, uint32_t process_id, uint32_t tid, uint64_t start_ns)
{
	if (w->out.err)
		return 0;
	uint32_t id = (uint32_t)w->threads.n;
	fm_vec_push(&w->threads, (struct thread_state){ 0 });
	struct fm_fact_thread thread = { id, process_id < w->n_processes ? process_id : 0, tid, start_ns };
	fm_fact_put_thread(begin_fact(w), &thread);
	end_fact(w, FM_RECORD_THREAD);
	return id;
}

void fm_writer_thread_name(struct fm_writer *w, uint32_t thread_id, struct fm_str name)
{
	if (w->out.err || thread_id >= w->threads.n)
		return;
	fm_fact_put_thread_name(begin_fact(w), &(struct fm_fact_thread_name){ thread_id, limited(name) });
	end_fact(w, FM_RECORD_THREAD_NAME);
}

void fm_writer_thread_end(struct fm_writer *w, uint32_t thread_id, const struct fm_thread_totals *totals)
{
	if (w->out.err || thread_id >= w->threads.n)
		return;
	fm_fact_put_thread_end(begin_fact(w), &(struct fm_fact_thread_end){ thread_id, *totals });
	end_fact(w, FM_RECORD_THREAD_END);
}

uint32_t fm_writer_image(struct fm_writer *w, struct fm_str path, struct fm_str build_id, uint32_t flags)
{
	if (w->out.err)
		return 0;
	struct fm_record_image image = { string_id(w, path), limited(build_id), flags };
	return cut_after(w, fm_interned_image(&w->interned, &image));
}

void fm_writer_keep_file(struct fm_writer *w, uint32_t image_id, int fd)
{
	for (size_t i = 0; i < w->kept_files.n; i++)
		if (w->kept_files.items[i].image_id == image_id) {
			close(fd);
			return;
		}
	fm_vec_push(&w->kept_files, (struct kept_file){ image_id, fd });
}

void fm_writer_mapping(struct fm_writer *w, uint32_t process_id, uint32_t image_id, uint64_t start, uint64_t end,
		       uint64_t bias)
{
	if (w->out.err || process_id >= w->n_processes || image_id >= w->interned.images.n)
		return;
	fm_fact_put_mapping(begin_fact(w), &(struct fm_fact_mapping){ process_id, image_id, start, end, bias });
	end_fact(w, FM_RECORD_MAPPING);
}

uint32_t fm_writer_code(struct fm_writer *w, const struct fm_code_info *code)
{
	if (w->out.err)
		return 0;
	struct fm_record_code record = {
		.name = string_id(w, code->name),
		.qualname = string_id(w, code->qualname),
		.filename = string_id(w, code->filename),
		.first_line = code->first_line,
		.line_table_kind = code->line_table_kind,
		.line_table = limited(code->line_table),
	};
	return cut_after(w, fm_interned_code(&w->interned, &record));
}

uint32_t fm_writer_frame(struct fm_writer *w, enum fm_frame_kind kind, uint32_t ref, uint64_t value)
{
	if (w->out.err)
		return 0;
	if ((kind == FM_FRAME_NATIVE && ref >= w->interned.images.n) ||
	    (kind == FM_FRAME_PYTHON && ref >= w->interned.codes.n))
		ref = FM_NO_ID;
	return cut_after(w, fm_interned_frame(&w->interned, &(struct fm_record_frame){ (uint8_t)kind, ref, value }));
}

uint32_t fm_writer_stack(struct fm_writer *w, uint32_t parent, uint32_t frame_id)
{
	if (w->out.err)
		return FM_ROOT_STACK;
	struct fm_record_stack stack = {
		.parent = parent < w->interned.stacks.n ? parent : FM_ROOT_STACK,
		.frame_id = frame_id < w->interned.frames.n ? frame_id : FM_FRAME_LOST,
	};
	return cut_after(w, fm_interned_stack(&w->interned, &stack));
}

void fm_writer_sample(struct fm_writer *w, const struct fm_sample *sample)
{
	if (w->out.err || sample->thread_id >= w->threads.n || sample->class >= FM_N_CLASSES)
		return;
	if (w->threads.items[sample->thread_id].n_pending++ == 0)
		fm_vec_push(&w->busy_threads, sample->thread_id);
	fm_vec_push(&w->samples, *sample);
	if (FM_UNLIKELY(sample->stack_id >= w->interned.stacks.n))
		w->samples.items[w->samples.n - 1].stack_id = FM_ROOT_STACK;
	if (FM_UNLIKELY(w->samples.n >= CUT_SAMPLES))
		fm_writer_flush(w);
}

static void end_memory_event(struct fm_writer *w)
{
	w->n_memory_events++;
	if (FM_UNLIKELY(w->memory.allocs.n + w->memory.frees.n >= CUT_SAMPLES))
		fm_writer_flush(w);
}

void fm_writer_alloc(struct fm_writer *w, const struct fm_alloc *alloc)
{
	if (w->out.err || alloc->thread_id >= w->threads.n || alloc->domain >= FM_N_ALLOC_DOMAINS)
		return;
	fm_vec_push(&w->memory.allocs, *alloc);
	if (FM_UNLIKELY(alloc->stack_id >= w->interned.stacks.n))
		w->memory.allocs.items[w->memory.allocs.n - 1].stack_id = FM_ROOT_STACK;
	end_memory_event(w);
}

void fm_writer_free(struct fm_writer *w, const struct fm_free *event)
{
	if (w->out.err || event->thread_id >= w->threads.n)
		return;
	fm_vec_push(&w->memory.frees, *event);
	end_memory_event(w);
}

// A fact that names a stack goes where stacks are known.
static void end_memory_fact(struct fm_writer *w, enum fm_record_type type)
{
	size_t before = w->memory.facts.len;
	fm_record_put(&w->memory.facts, type, &w->scratch, NULL, 0);
	add_pending(w, w->memory.facts.len - before);
}

void fm_writer_site(struct fm_writer *w, const struct fm_site *site)
{
	if (w->out.err || site->process_id >= w->n_processes || site->domain >= FM_N_ALLOC_DOMAINS)
		return;
	struct fm_site known = *site;
	known.stack_id = site->stack_id < w->interned.stacks.n ? site->stack_id : FM_ROOT_STACK;
	fm_vec_push(&w->sites.sites, known);
	add_pending(w, SITE_BYTES);
}

void fm_writer_memory_level(struct fm_writer *w, const struct fm_memory_level *level)
{
	if (w->out.err || level->process_id >= w->n_processes)
		return;
	fm_memory_level_put(begin_fact(w), level);
	end_memory_fact(w, FM_RECORD_MEMORY_LEVEL);
}

void fm_writer_alloc_type(struct fm_writer *w, uint32_t process_id, uint64_t alloc_id, struct fm_str type_name)
{
	if (w->out.err || process_id >= w->n_processes)
		return;
	uint32_t type = string_id(w, type_name); // may flush: before the fact begins
	fm_fact_put_alloc_type(begin_fact(w), &(struct fm_fact_alloc_type){ process_id, alloc_id, type });
	end_memory_fact(w, FM_RECORD_ALLOC_TYPE);
}

void fm_writer_alloc_touched(struct fm_writer *w, uint32_t process_id, uint64_t alloc_id, uint64_t bytes)
{
	if (w->out.err || process_id >= w->n_processes)
		return;
	fm_fact_put_alloc_touched(begin_fact(w), &(struct fm_fact_alloc_touched){ process_id, alloc_id, bytes });
	end_memory_fact(w, FM_RECORD_ALLOC_TOUCHED);
}

void fm_writer_symbol(struct fm_writer *w, uint32_t image_id, uint64_t addr, const struct fm_symbol_link *links,
		      uint32_t n)
{
	if (w->out.err || image_id >= w->interned.images.n)
		return;
	n = FM_MIN(n, (uint32_t)FM_SYMBOL_MAX_LINKS);
	struct fm_record_link records[FM_SYMBOL_MAX_LINKS];
	for (uint32_t i = 0; i < n; i++) // may flush: before the fact begins
		records[i] = (struct fm_record_link){ string_id(w, links[i].name), string_id(w, links[i].file),
						      links[i].first_line, links[i].line, links[i].is_inlined };
	struct fm_buf *b = begin_fact(w);
	fm_fact_put_symbol(b, &(struct fm_fact_symbol){ image_id, addr, n });
	for (uint32_t i = 0; i < n; i++)
		fm_record_put_link(b, &records[i]);
	end_fact(w, FM_RECORD_SYMBOL);
}

enum fm_err fm_writer_get_image(const struct fm_writer *w, uint32_t image_id, struct fm_written_image *ret)
{
	struct fm_str key = fm_intern_get(&w->interned.image_keys, image_id);
	struct fm_cursor c = fm_cursor_over(key.p, key.len);
	uint32_t path = fm_cursor_u32(&c);
	if (image_id >= w->interned.images.n || c.err)
		return FM_E_NOT_FOUND;
	*ret = (struct fm_written_image){ fm_intern_get(&w->interned.string_ids, path),
					  { (const char *)c.pos, (uint32_t)fm_cursor_left(&c) },
					  w->interned.image_flags.items[image_id],
					  -1 };
	for (size_t i = 0; i < w->kept_files.n; i++)
		if (w->kept_files.items[i].image_id == image_id)
			ret->fd = w->kept_files.items[i].fd;
	return FM_OK;
}

enum fm_err fm_writer_get_frame(const struct fm_writer *w, uint32_t frame_id, uint8_t *ret_kind, uint32_t *ret_ref,
				uint64_t *ret_value)
{
	if (frame_id >= w->interned.frame_items.n)
		return FM_E_NOT_FOUND;
	const struct fm_record_frame *f = &w->interned.frame_items.items[frame_id];
	*ret_kind = f->kind;
	*ret_ref = f->ref;
	*ret_value = f->value;
	return FM_OK;
}

uint32_t fm_writer_trace_place(struct fm_writer *w, enum fm_trace_name_kind kind, struct fm_str name,
			       struct fm_str file, uint32_t line)
{
	if (w->out.err)
		return 0;
	struct fm_fact_trace_name entry = { kind, string_id(w, name), string_id(w, file), line };
	return cut_after(w, fm_interned_trace_name(&w->interned, &entry));
}

uint32_t fm_writer_trace_name(struct fm_writer *w, enum fm_trace_name_kind kind, struct fm_str name)
{
	return fm_writer_trace_place(w, kind, name, (struct fm_str){ "", 0 }, 0);
}

void fm_writer_trace(struct fm_writer *w, uint32_t thread_id, const void *body, size_t len)
{
	if (w->out.err || thread_id >= w->threads.n)
		return;
	size_t before = w->traces.len;
	fm_record_put(&w->traces, FM_RECORD_TRACE, &(const struct fm_buf){ 0 }, body, len);
	add_pending(w, w->traces.len - before);
}

static fm_zone_ref known_ref(const struct fm_writer *w, fm_zone_ref ref)
{
	size_t n = fm_zone_ref_is_name(ref) ? w->interned.trace_names.n : w->interned.codes.n;
	return ref && (ref >> 1) - !fm_zone_ref_is_name(ref) < n ? ref : 0;
}

void fm_writer_call_sum(struct fm_writer *w, const struct fm_call_sum *sum)
{
	if (w->out.err)
		return;
	struct fm_call_sum known = *sum;
	known.caller = known_ref(w, sum->caller);
	known.callee = known_ref(w, sum->callee);
	fm_fact_put_call_sum(begin_fact(w), &known);
	end_fact(w, FM_RECORD_CALL_SUM);
}

void fm_writer_site_history(struct fm_writer *w, const struct fm_site *site, const struct fm_history_point *points,
			    uint32_t n)
{
	if (w->out.err || site->process_id >= w->n_processes || site->stack_id >= w->interned.stacks.n)
		return;
	struct fm_history_point last = { 0 };
	struct fm_buf *b = begin_fact(w);
	fm_fact_put_site_history(b,
				 &(struct fm_fact_site_history){ site->process_id, site->stack_id, site->domain, n });
	for (uint32_t i = 0; i < n; i++)
		fm_fact_put_history_point(b, &last, &points[i]);
	end_fact(w, FM_RECORD_SITE_HISTORY);
}

void fm_writer_source(struct fm_writer *w, struct fm_str filename, struct fm_str text)
{
	if (w->out.err)
		return;
	bool is_new;
	fm_map_at(&w->source_names, string_id(w, filename), &is_new);
	if (!is_new)
		return;
	if (text.len > MAX_SOURCE_BYTES) {
		fm_writer_coverage(w, filename, FM_STR_LIT("the capture keeps no source text above 32 MiB"));
		return;
	}
	put_pair(w, FM_RECORD_SOURCE, limited(filename), masked(w, text, fm_redact_source, &w->n_masked_lines));
}
