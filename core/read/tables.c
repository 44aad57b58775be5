// SPDX-License-Identifier: Apache-2.0
#include "read/tables.h"

#include <stdlib.h>

#include "format/facts.h"
#include "format/memory.h"
#include "format/record.h"
#include "format/sites.h"

// Placeholders for lost ids: bounded, so that a small file of impossible ids cannot ask for
// gigabytes. 2^20 code objects are 64 MiB; a lost chunk of 256 KiB leaves at most 2^17 stacks,
// mostly far fewer.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define MAX_HOLES ((uint64_t)1 << 10) // or every other input takes a second, and shows nothing new
#else
#define MAX_HOLES ((uint64_t)1 << 20)
#endif

void fm_tables_init(struct fm_tables *t)
{
	*t = (struct fm_tables){ 0 };
	fm_arena_init(&t->arena);
	fm_vec_push(&t->strings, (struct fm_str){ "", 0 });
	fm_vec_push(&t->profile.frames, (struct fm_frame){ FM_FRAME_ERROR, 0, FM_STACK_LOST });
	fm_vec_push(&t->profile.stacks, (struct fm_stack){ FM_ROOT_STACK, FM_FRAME_LOST });
}

void fm_tables_deinit(struct fm_tables *t)
{
	struct fm_profile *p = &t->profile;
	fm_arena_deinit(&t->arena);
	fm_vec_deinit(&t->strings);
	fm_vec_deinit(&p->metas);
	fm_vec_deinit(&p->coverages);
	fm_vec_deinit(&p->processes);
	fm_vec_deinit(&p->threads);
	fm_vec_deinit(&p->images);
	fm_vec_deinit(&p->mappings);
	fm_vec_deinit(&p->codes);
	fm_vec_deinit(&p->frames);
	fm_vec_deinit(&p->stacks);
	fm_vec_deinit(&p->trace_names);
	fm_vec_deinit(&p->call_sums);
	fm_vec_deinit(&p->sources);
	fm_vec_deinit(&p->symbols);
	fm_vec_deinit(&p->symbol_links);
	fm_vec_deinit(&p->sites);
	fm_vec_deinit(&p->histories);
	fm_vec_deinit(&p->history_points);
	fm_vec_deinit(&p->memory_levels);
	fm_vec_deinit(&p->alloc_types);
	fm_vec_deinit(&p->alloc_touches);
	fm_map_deinit(&t->site_ids);
	fm_map_deinit(&t->meta_ids);
}

enum fm_err fm_tables_charge(struct fm_tables *t, uint64_t bytes)
{
	t->charged_bytes += bytes;
	return t->charged_bytes > t->max_charged_bytes ? FM_E_TOO_LARGE : FM_OK;
}

// Adds to a table, charged with what it takes there and further on.
#define add(t, vec, charge, ...)                                                   \
	({                                                                         \
		fm_vec_push((vec), __VA_ARGS__);                                   \
		fm_tables_charge((t), sizeof(*(vec)->items) + (uint64_t)(charge)); \
	})

static struct fm_str keep(struct fm_tables *t, struct fm_str s)
{
	t->charged_bytes += s.len;
	return s.len ? (struct fm_str){ fm_arena_strdup(&t->arena, s.p, s.len), s.len } : (struct fm_str){ "", 0 };
}

static struct fm_str string_at(struct fm_tables *t, uint32_t id)
{
	if (id < t->strings.n)
		return t->strings.items[id];
	t->profile.n_undefined_refs++;
	return (struct fm_str){ "", 0 };
}

#define NO_STR        \
	{             \
		"", 0 \
	} // a macro: C takes no const object as an initialiser
static const struct fm_str no_str = NO_STR;
static const struct fm_code_info no_code = { NO_STR, NO_STR, NO_STR, 0, 0, NO_STR };
static const struct fm_image no_image = { NO_STR, NO_STR, 0 };
static const struct fm_frame no_frame = { FM_FRAME_ERROR, 0, FM_STACK_LOST };
static const struct fm_stack no_stack = { FM_ROOT_STACK, FM_FRAME_LOST };
static const struct fm_process no_process = {
	.info = { .exe = NO_STR, .command = NO_STR, .python_version = NO_STR, .engine = NO_STR },
	.exit_code = -1,
};
static const struct fm_trace_name no_trace_name = { 0, NO_STR, NO_STR, 0 };
static const struct fm_thread no_thread = { .name = NO_STR };

// Fills a table with placeholders until it has `count` entries. False when that would be too many.
#define fill_holes(t, vec, count, placeholder)                                                  \
	({                                                                                      \
		size_t upto_ = (count);                                                         \
		bool fits_ = upto_ <= (vec)->n || upto_ - (vec)->n <= MAX_HOLES - (t)->n_holes; \
		if (fits_ && upto_ > (vec)->n) {                                                \
			(t)->n_holes += upto_ - (vec)->n;                                       \
			(t)->charged_bytes += sizeof(*(vec)->items) * (upto_ - (vec)->n);       \
			fm_vec_reserve((vec), upto_);                                           \
			while ((vec)->n < upto_)                                                \
				(vec)->items[(vec)->n++] = (placeholder);                       \
		}                                                                               \
		fits_;                                                                          \
	})

// For a reference: counts it when its target was never defined.
#define need(t, vec, id, placeholder)                                     \
	({                                                                \
		size_t id_ = (id);                                        \
		bool known_ = id_ < (vec)->n;                             \
		(t)->profile.n_undefined_refs += !known_;                 \
		known_ || fill_holes((t), (vec), id_ + 1, (placeholder)); \
	})

// The start of a batch: a hole before it is filled, ids given before must not come again.
#define begin_batch(t, vec, batch, placeholder) \
	((batch).first_id < (vec)->n || !fill_holes((t), (vec), (batch).first_id, (placeholder)) ? FM_E_CORRUPT : FM_OK)

static bool need_process(struct fm_tables *t, uint32_t id)
{
	return need(t, &t->profile.processes, id, no_process);
}

bool fm_tables_need_thread(struct fm_tables *t, uint32_t thread_id)
{
	if (thread_id < t->profile.threads.n)
		return true;
	// A placeholder belongs to process 0, which must then exist.
	return (t->profile.processes.n || fill_holes(t, &t->profile.processes, 1, no_process)) &&
	       need(t, &t->profile.threads, thread_id, no_thread);
}

bool fm_tables_need_stack(struct fm_tables *t, uint32_t stack_id)
{
	return need(t, &t->profile.stacks, stack_id, no_stack);
}

static enum fm_err take_strings(struct fm_tables *t, struct fm_cursor *c, struct fm_record_batch batch)
{
	enum fm_err err = begin_batch(t, &t->strings, batch, no_str);
	for (uint32_t i = 0; i < batch.n && !err; i++) {
		struct fm_str s = fm_cursor_str(c);
		err = c->err;
		if (!err)
			err = add(t, &t->strings, 0, keep(t, s));
	}
	return err;
}

static enum fm_err take_images(struct fm_tables *t, struct fm_cursor *c, struct fm_record_batch batch)
{
	enum fm_err err = begin_batch(t, &t->profile.images, batch, no_image);
	for (uint32_t i = 0; i < batch.n && !err; i++) {
		struct fm_record_image r = fm_record_get_image(c);
		err = c->err;
		if (!err)
			err = add(t, &t->profile.images, 0,
				  (struct fm_image){ string_at(t, r.path), keep(t, r.build_id), r.flags });
	}
	return err;
}

static enum fm_err take_codes(struct fm_tables *t, struct fm_cursor *c, struct fm_record_batch batch)
{
	enum fm_err err = begin_batch(t, &t->profile.codes, batch, no_code);
	for (uint32_t i = 0; i < batch.n && !err; i++) {
		struct fm_record_code r = fm_record_get_code(c);
		err = c->err;
		if (err)
			break;
		struct fm_code_info code = {
			.name = string_at(t, r.name),
			.qualname = string_at(t, r.qualname),
			.filename = string_at(t, r.filename),
			.first_line = r.first_line,
			.line_table_kind = r.line_table_kind,
			.line_table = keep(t, r.line_table),
		};
		err = add(t, &t->profile.codes, 0, code);
	}
	return err;
}

static enum fm_err take_frames(struct fm_tables *t, struct fm_cursor *c, struct fm_record_batch batch)
{
	enum fm_err err = begin_batch(t, &t->profile.frames, batch, no_frame);
	for (uint32_t i = 0; i < batch.n && !err; i++) {
		struct fm_record_frame r = fm_record_get_frame(c);
		err = c->err ? c->err : r.kind > FM_FRAME_ERROR ? FM_E_CORRUPT : FM_OK;
		if (err)
			break;
		struct fm_frame frame = { r.kind, r.ref, r.value };
		bool is_valid = true;
		if (r.kind == FM_FRAME_NATIVE && r.ref != FM_NO_ID)
			is_valid = need(t, &t->profile.images, r.ref, no_image);
		else if (r.kind == FM_FRAME_PYTHON && r.ref != FM_NO_ID)
			is_valid = need(t, &t->profile.codes, r.ref, no_code);
		err = add(t, &t->profile.frames, 0, is_valid ? frame : no_frame);
	}
	return err;
}

static enum fm_err take_stacks(struct fm_tables *t, struct fm_cursor *c, struct fm_record_batch batch)
{
	enum fm_err err = begin_batch(t, &t->profile.stacks, batch, no_stack);
	uint32_t previous_frame = 0;
	for (uint32_t i = 0; i < batch.n && !err; i++) {
		struct fm_record_stack r = fm_record_get_stack(c, (uint32_t)t->profile.stacks.n, previous_frame);
		err = c->err;
		if (err)
			break;
		previous_frame = r.frame_id;
		bool is_valid = need(t, &t->profile.frames, r.frame_id, no_frame);
		err = add(t, &t->profile.stacks, FM_READ_STACK_CHARGE,
			  (struct fm_stack){ r.parent, is_valid ? r.frame_id : FM_FRAME_LOST });
	}
	return err;
}

static enum fm_err take_trace_names(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_record_batch batch;
	enum fm_err err = fm_record_get_batch(c, &batch);
	if (!err)
		err = begin_batch(t, &t->profile.trace_names, batch, no_trace_name);
	for (uint32_t i = 0; !err && i < batch.n; i++) {
		struct fm_fact_trace_name name = fm_fact_get_trace_name(c);
		err = c->err;
		if (!err)
			err = add(t, &t->profile.trace_names, 0,
				  (struct fm_trace_name){ (uint8_t)FM_MIN(name.kind, 255u), string_at(t, name.name),
							  string_at(t, name.file), name.line });
	}
	return err;
}

static enum fm_err add_meta(struct fm_tables *t, uint64_t hash, struct fm_str key, struct fm_str value)
{
	if (t->profile.metas.n >= FM_READ_MAX_METAS)
		return FM_OK;
	*fm_map_at(&t->meta_ids, hash, NULL) = t->profile.metas.n;
	return add(t, &t->profile.metas, 0, (struct fm_meta){ keep(t, key), keep(t, value) });
}

static enum fm_err take_meta(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_pair pair = fm_fact_get_pair(c);
	struct fm_str key = pair.first;
	if (c->err)
		return c->err;
	for (uint64_t hash = fm_hash_bytes(key.p, key.len);; hash++) {
		uint64_t *at = fm_map_find(&t->meta_ids, hash);
		if (!at)
			return add_meta(t, hash, key, pair.second);
		struct fm_meta *have = &t->profile.metas.items[*at];
		if (fm_str_eq(have->key, key)) {
			have->value = keep(t, pair.second);
			return FM_OK;
		}
	}
}

static enum fm_err take_pair(struct fm_tables *t, uint64_t type, struct fm_cursor *c)
{
	struct fm_fact_pair pair = fm_fact_get_pair(c);
	if (c->err)
		return c->err;
	if (type == FM_RECORD_SOURCE)
		return add(t, &t->profile.sources, 0, (struct fm_source){ keep(t, pair.first), keep(t, pair.second) });
	if (t->profile.coverages.n >= FM_READ_MAX_COVERAGES)
		return FM_OK;
	return add(t, &t->profile.coverages, 0, (struct fm_coverage){ keep(t, pair.first), keep(t, pair.second) });
}

static enum fm_err take_process(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_process process = fm_fact_get_process(c);
	struct fm_process_info info = process.info;
	uint32_t id = process.process_id;
	if (c->err)
		return c->err;
	if (!fill_holes(t, &t->profile.processes, id, no_process))
		return FM_E_CORRUPT;
	enum fm_err err = FM_OK;
	if (id == t->profile.processes.n)
		err = add(t, &t->profile.processes, FM_READ_THREAD_CHARGE, no_process);
	info.exe = keep(t, info.exe);
	info.command = keep(t, info.command);
	info.python_version = keep(t, info.python_version);
	info.engine = keep(t, info.engine);
	info.name = keep(t, info.name);
	t->profile.processes.items[id].info = info;
	return err;
}

static enum fm_err take_process_end(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_process_end end = fm_fact_get_process_end(c);
	if (c->err)
		return c->err;
	if (!need_process(t, end.process_id))
		return FM_E_CORRUPT;
	struct fm_process *p = &t->profile.processes.items[end.process_id];
	p->end_ns = end.time_ns;
	p->exit_code = (int)end.exit_code;
	p->exit_signal = (int)end.exit_signal;
	return FM_OK;
}

static enum fm_err take_thread(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_thread fact = fm_fact_get_thread(c);
	uint32_t id = fact.thread_id;
	struct fm_thread thread = no_thread;
	thread.process_id = fact.process_id;
	thread.tid = fact.tid;
	thread.start_ns = fact.start_ns;
	if (c->err)
		return c->err;
	if (!need_process(t, thread.process_id))
		return FM_E_CORRUPT;
	if (!fill_holes(t, &t->profile.threads, id, no_thread)) // their process 0 exists: this thread's own does
		return FM_E_CORRUPT;
	enum fm_err err = FM_OK;
	if (id == t->profile.threads.n)
		err = add(t, &t->profile.threads, FM_READ_THREAD_CHARGE, no_thread);
	t->profile.threads.items[id] = thread;
	return err;
}

static enum fm_err take_thread_name(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_thread_name name = fm_fact_get_thread_name(c);
	if (c->err)
		return c->err;
	if (!fm_tables_need_thread(t, name.thread_id))
		return FM_E_CORRUPT;
	t->profile.threads.items[name.thread_id].name = keep(t, name.name);
	return FM_OK;
}

static enum fm_err take_thread_end(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_thread_end end = fm_fact_get_thread_end(c);
	if (c->err)
		return c->err;
	if (!fm_tables_need_thread(t, end.thread_id))
		return FM_E_CORRUPT;
	struct fm_thread *thread = &t->profile.threads.items[end.thread_id];
	thread->end_ns = end.totals.end_ns;
	thread->cpu_ns = end.totals.cpu_ns;
	thread->n_dropped = end.totals.n_dropped;
	thread->ready_ns1 = end.totals.ready_ns1;
	return FM_OK;
}

static enum fm_err take_mapping(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_mapping m = fm_fact_get_mapping(c);
	if (c->err)
		return c->err;
	if (!need_process(t, m.process_id) || !need(t, &t->profile.images, m.image_id, no_image))
		return FM_E_CORRUPT;
	return add(t, &t->profile.mappings, 0, (struct fm_mapping){ m.process_id, m.image_id, m.start, m.end, m.bias });
}

static enum fm_err take_symbol(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_symbol fact = fm_fact_get_symbol(c);
	struct fm_symbol_info symbol = { .image_id = fact.image_id, .addr = fact.addr, .n_links = fact.n_links };
	if (c->err || symbol.n_links > fm_cursor_left(c))
		return c->err ? c->err : FM_E_CORRUPT;
	if (!need(t, &t->profile.images, symbol.image_id, no_image))
		return FM_E_CORRUPT;
	symbol.first_link = (uint32_t)t->profile.symbol_links.n;
	for (uint32_t i = 0; i < symbol.n_links; i++) {
		struct fm_record_link r = fm_record_get_link(c);
		if (c->err)
			return c->err;
		enum fm_err err = add(t, &t->profile.symbol_links, 0,
				      (struct fm_symbol_link){ string_at(t, r.name), string_at(t, r.file), r.first_line,
							       r.line, r.is_inlined });
		if (err)
			return err;
	}
	return add(t, &t->profile.symbols, 0, symbol);
}

static enum fm_err keep_site(struct fm_tables *t, struct fm_site site)
{
	if (!need_process(t, site.process_id))
		return FM_E_CORRUPT;
	if (!fm_tables_need_stack(t, site.stack_id))
		site.stack_id = FM_ROOT_STACK;
	uint64_t hash = fm_hash_u64((uint64_t)site.process_id << 32 ^ (uint64_t)site.stack_id << 3 ^ site.domain);
	for (;; hash++) {
		bool is_new;
		uint64_t *at = fm_map_at(&t->site_ids, hash, &is_new);
		if (is_new) {
			*at = t->profile.sites.n;
			return add(t, &t->profile.sites, FM_READ_STACK_CHARGE, site);
		}
		struct fm_site *have = &t->profile.sites.items[*at];
		if (have->process_id == site.process_id && have->stack_id == site.stack_id &&
		    have->domain == site.domain) {
			*have = site;
			return FM_OK;
		}
	}
}

static enum fm_err take_sites(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_site_batch batch;
	struct fm_site site;
	enum fm_err err = fm_site_batch_get(c, &batch);
	while (!err && !(err = fm_site_batch_next(&batch, &site)))
		err = keep_site(t, site);
	return err == FM_E_NOT_FOUND ? FM_OK : err;
}

static enum fm_err take_site_history(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_profile *p = &t->profile;
	struct fm_fact_site_history fact = fm_fact_get_site_history(c);
	struct fm_site_history history = { .process_id = fact.process_id,
					   .stack_id = fact.stack_id,
					   .domain = (uint8_t)fact.domain,
					   .first = (uint32_t)p->history_points.n };
	if (c->err || fact.domain >= FM_N_ALLOC_DOMAINS || fact.n >= UINT32_MAX - p->history_points.n)
		return c->err ? c->err : FM_E_CORRUPT;
	if (!need_process(t, history.process_id))
		return FM_E_CORRUPT;
	if (!fm_tables_need_stack(t, history.stack_id))
		history.stack_id = FM_ROOT_STACK;
	struct fm_history_point last = { 0 };
	enum fm_err err = FM_OK;
	// Each takes bytes of the record: n is bounded by its length.
	for (; history.n < fact.n && !c->err && !err; history.n++) {
		fm_fact_get_history_point(c, &last);
		if (!c->err)
			err = add(t, &p->history_points, 0, last);
	}
	if (c->err || err) {
		p->history_points.n = history.first;
		return c->err ? c->err : err;
	}
	return add(t, &p->histories, 0, history);
}

static enum fm_err take_memory_level(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_memory_level level = fm_memory_level_get(c);
	if (c->err)
		return c->err;
	if (!need_process(t, level.process_id))
		return FM_E_CORRUPT;
	return add(t, &t->profile.memory_levels, 0, level);
}

static enum fm_err take_alloc_type(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_alloc_type fact = fm_fact_get_alloc_type(c);
	struct fm_alloc_type type = { .process_id = fact.process_id, .alloc_id = fact.alloc_id };
	if (c->err)
		return c->err;
	if (!need_process(t, type.process_id))
		return FM_E_CORRUPT;
	type.name = string_at(t, fact.name);
	return add(t, &t->profile.alloc_types, 0, type);
}

static enum fm_err take_alloc_touched(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_fact_alloc_touched fact = fm_fact_get_alloc_touched(c);
	struct fm_alloc_touched touched = { fact.process_id, fact.alloc_id, fact.bytes };
	if (c->err)
		return c->err;
	if (!need_process(t, touched.process_id))
		return FM_E_CORRUPT;
	return add(t, &t->profile.alloc_touches, 0, touched);
}

static fm_zone_ref known_ref(struct fm_tables *t, fm_zone_ref ref)
{
	size_t n = fm_zone_ref_is_name(ref) ? t->profile.trace_names.n : t->profile.codes.n;
	if (!ref || ((ref >> 1) - !fm_zone_ref_is_name(ref)) < n)
		return ref;
	t->profile.n_undefined_refs++;
	return 0;
}

static enum fm_err take_call_sum(struct fm_tables *t, struct fm_cursor *c)
{
	struct fm_call_sum sum = fm_fact_get_call_sum(c);
	if (c->err)
		return c->err;
	if (sum.n_recursive > sum.n_calls)
		return FM_E_CORRUPT;
	sum.caller = known_ref(t, sum.caller);
	sum.callee = known_ref(t, sum.callee);
	return add(t, &t->profile.call_sums, 0, sum);
}

enum fm_err fm_tables_record(struct fm_tables *t, uint64_t type, struct fm_cursor *body)
{
	struct fm_record_batch batch = { 0 };
	if (fm_tables_charge(t, FM_READ_RECORD_CHARGE))
		return FM_E_TOO_LARGE;
	if (type >= FM_RECORD_STRINGS && type <= FM_RECORD_STACKS) {
		enum fm_err err = fm_record_get_batch(body, &batch);
		if (err)
			return err;
	}
	switch (type) {
	case FM_RECORD_STRINGS:
		return take_strings(t, body, batch);
	case FM_RECORD_IMAGES:
		return take_images(t, body, batch);
	case FM_RECORD_CODES:
		return take_codes(t, body, batch);
	case FM_RECORD_FRAMES:
		return take_frames(t, body, batch);
	case FM_RECORD_STACKS:
		return take_stacks(t, body, batch);
	case FM_RECORD_TRACE_NAMES:
		return take_trace_names(t, body);
	case FM_RECORD_META:
		return take_meta(t, body);
	case FM_RECORD_COVERAGE:
	case FM_RECORD_SOURCE:
		return take_pair(t, type, body);
	case FM_RECORD_PROCESS:
		return take_process(t, body);
	case FM_RECORD_PROCESS_END:
		return take_process_end(t, body);
	case FM_RECORD_THREAD:
		return take_thread(t, body);
	case FM_RECORD_THREAD_NAME:
		return take_thread_name(t, body);
	case FM_RECORD_THREAD_END:
		return take_thread_end(t, body);
	case FM_RECORD_MAPPING:
		return take_mapping(t, body);
	case FM_RECORD_SYMBOL:
		return take_symbol(t, body);
	case FM_RECORD_SITES:
		return take_sites(t, body);
	case FM_RECORD_SITE_HISTORY:
		return take_site_history(t, body);
	case FM_RECORD_MEMORY_LEVEL:
		return take_memory_level(t, body);
	case FM_RECORD_ALLOC_TYPE:
		return take_alloc_type(t, body);
	case FM_RECORD_ALLOC_TOUCHED:
		return take_alloc_touched(t, body);
	case FM_RECORD_CALL_SUM:
		return take_call_sum(t, body);
	default:
		return FM_OK; // from a newer minor version
	}
}
