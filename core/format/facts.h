// SPDX-License-Identifier: Apache-2.0
// Facts: records that say one thing each, of the capture, a process, a thread, an image. The
// encoding of each stands beside its decoding; docs/format.md has the tables. A get function
// borrows the bytes under the cursor and leaves failure in it.
#pragma once

#include <stdint.h>

#include "base/cursor.h"
#include "base/str.h"
#include "format/writer.h"

// Meta (a key and its value), coverage (what was not seen, and why) and source (a file's name and
// its text).
struct fm_fact_pair {
	struct fm_str first, second;
};
void fm_fact_put_pair(struct fm_buf *out, const struct fm_fact_pair *pair);
struct fm_fact_pair fm_fact_get_pair(struct fm_cursor *c);

struct fm_fact_process {
	uint32_t process_id;
	struct fm_process_info info;
};
void fm_fact_put_process(struct fm_buf *out, const struct fm_fact_process *process);
struct fm_fact_process fm_fact_get_process(struct fm_cursor *c);

struct fm_fact_process_end {
	uint32_t process_id;
	uint64_t time_ns;
	int64_t exit_code, exit_signal;
};
void fm_fact_put_process_end(struct fm_buf *out, const struct fm_fact_process_end *end);
struct fm_fact_process_end fm_fact_get_process_end(struct fm_cursor *c);

struct fm_fact_thread {
	uint32_t thread_id, process_id, tid;
	uint64_t start_ns;
};
void fm_fact_put_thread(struct fm_buf *out, const struct fm_fact_thread *thread);
struct fm_fact_thread fm_fact_get_thread(struct fm_cursor *c);

struct fm_fact_thread_name {
	uint32_t thread_id;
	struct fm_str name;
};
void fm_fact_put_thread_name(struct fm_buf *out, const struct fm_fact_thread_name *name);
struct fm_fact_thread_name fm_fact_get_thread_name(struct fm_cursor *c);

struct fm_fact_thread_end {
	uint32_t thread_id;
	struct fm_thread_totals totals;
};
void fm_fact_put_thread_end(struct fm_buf *out, const struct fm_fact_thread_end *end);
struct fm_fact_thread_end fm_fact_get_thread_end(struct fm_cursor *c);

struct fm_fact_mapping {
	uint32_t process_id, image_id;
	uint64_t start, end, bias;
};
void fm_fact_put_mapping(struct fm_buf *out, const struct fm_fact_mapping *mapping);
struct fm_fact_mapping fm_fact_get_mapping(struct fm_cursor *c);

// What an address means: n_links functions (fm_record_put_link) follow, outermost first.
struct fm_fact_symbol {
	uint32_t image_id;
	uint64_t addr;
	uint32_t n_links;
};
void fm_fact_put_symbol(struct fm_buf *out, const struct fm_fact_symbol *symbol);
struct fm_fact_symbol fm_fact_get_symbol(struct fm_cursor *c);

struct fm_fact_alloc_type {
	uint32_t process_id;
	uint64_t alloc_id;
	uint32_t name; // of the string table
};
void fm_fact_put_alloc_type(struct fm_buf *out, const struct fm_fact_alloc_type *type);
struct fm_fact_alloc_type fm_fact_get_alloc_type(struct fm_cursor *c);

// How much of a block had been used, as last seen.
struct fm_fact_alloc_touched {
	uint32_t process_id;
	uint64_t alloc_id, bytes;
};
void fm_fact_put_alloc_touched(struct fm_buf *out, const struct fm_fact_alloc_touched *touched);
struct fm_fact_alloc_touched fm_fact_get_alloc_touched(struct fm_cursor *c);

// How the bytes of a site went: n points follow, each as its distance from the one before (of the
// first: from zeros).
struct fm_fact_site_history {
	uint32_t process_id, stack_id;
	uint64_t domain, n;
};
void fm_fact_put_site_history(struct fm_buf *out, const struct fm_fact_site_history *history);
struct fm_fact_site_history fm_fact_get_site_history(struct fm_cursor *c);
// *last becomes the point.
void fm_fact_put_history_point(struct fm_buf *out, struct fm_history_point *last, const struct fm_history_point *point);
void fm_fact_get_history_point(struct fm_cursor *c, struct fm_history_point *last);

void fm_fact_put_call_sum(struct fm_buf *out, const struct fm_call_sum *sum);
struct fm_call_sum fm_fact_get_call_sum(struct fm_cursor *c);

// One entry of a batch of trace names.
struct fm_fact_trace_name {
	uint32_t kind, name; // enum fm_trace_name_kind; name: of the string table
	uint32_t file, line; // where it begins; file: of the string table, "" = not known
};
void fm_fact_put_trace_name(struct fm_buf *out, const struct fm_fact_trace_name *name);
struct fm_fact_trace_name fm_fact_get_trace_name(struct fm_cursor *c);
