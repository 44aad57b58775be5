// SPDX-License-Identifier: Apache-2.0
// Reads a .fathom file front to back in bounded memory: tables grow with distinct things, samples
// stream past.
//
//   struct fm_reader *r;
//   if (fm_reader_open(path, &r, &diag)) ...
//   struct fm_event ev;
//   while (fm_reader_next(r, &ev) == FM_OK) ...            // FM_E_END at the end
//   const struct fm_profile *p = fm_reader_profile(r);     // complete once the end was reached
//   fm_reader_close(r);
//
// Samples of one thread come in order of time; threads alternate from chunk to chunk. When an event
// arrives, everything it refers to is in the tables. A free may come before the allocation that it
// ends.
//
// A file cut off anywhere reads up to its last whole chunk; profile->is_truncated and ->damage say
// so. A file damaged in the middle: the damaged chunk is left out and counted, never a crash.
// Samples that refer to what it defined are kept, so that sums stay right; in place of the lost
// thing stands a placeholder: "" for a string, the error frame FM_STACK_LOST, a process or thread
// with pid or tid 0. So every id found in the tables and samples is a valid index (or FM_NO_ID
// where model.h says so), and frame 0 is always FM_STACK_LOST.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/model.h"
#include "format/zones.h"
#include "format/writer.h" // the plain structs fm_sample, fm_process_info, fm_code_info

struct fm_meta {
	struct fm_str key, value;
};

struct fm_coverage {
	struct fm_str what, why;
};

struct fm_process {
	struct fm_process_info info;
	uint64_t end_ns; // 0 = not known to have ended
	int exit_code;   // -1 = unknown
	int exit_signal; // 0 = none
};

struct fm_thread {
	uint32_t process_id, tid;
	uint64_t start_ns, end_ns; // end 0 = unknown
	uint64_t cpu_ns;           // 0 = unknown
	uint64_t n_dropped;
	uint64_t ready_ns1; // ready and without a CPU, by the kernel's account, plus 1; 0 = unknown
	struct fm_str name;
};

struct fm_image {
	struct fm_str path, build_id;
	uint32_t flags;
};

struct fm_mapping {
	uint32_t process_id, image_id;
	uint64_t start, end, bias;
};

struct fm_frame {
	uint8_t kind; // enum fm_frame_kind
	uint32_t ref;
	uint64_t value;
};

struct fm_stack {
	uint32_t parent, frame_id;
};

// What a trace calls something that is no code object.
struct fm_trace_name {
	uint8_t kind; // enum fm_trace_name_kind
	struct fm_str name;
	struct fm_str file; // where a zone of C code begins; "" and 0: not known
	uint32_t line;
};

struct fm_source {
	struct fm_str filename, text;
};

// What the capture itself noted of a native address: n_links of symbol_links, outermost first.
struct fm_symbol_info {
	uint32_t image_id;
	uint64_t addr;
	uint32_t first_link, n_links;
};

// What a surviving block was found to hold.
struct fm_alloc_type {
	uint32_t process_id;
	uint64_t alloc_id;
	struct fm_str name;
};

// How much of a block the program had really used, as last told.
struct fm_alloc_touched {
	uint32_t process_id;
	uint64_t alloc_id, bytes;
};

// How the live bytes of a site went.
struct fm_site_history {
	uint32_t process_id, stack_id;
	uint8_t domain;
	uint32_t first, n; // of history_points
};

// Everything but the events. Borrowed from the reader; strings live as long as it does.
struct fm_profile {
	FM_VEC(struct fm_meta) metas;
	FM_VEC(struct fm_coverage) coverages;
	FM_VEC(struct fm_process) processes;
	FM_VEC(struct fm_thread) threads;
	FM_VEC(struct fm_image) images;
	FM_VEC(struct fm_mapping) mappings;
	FM_VEC(struct fm_code_info) codes;
	FM_VEC(struct fm_frame) frames;
	FM_VEC(struct fm_stack) stacks; // [0] is the empty stack; parent id < own id always
	FM_VEC(struct fm_trace_name) trace_names;
	FM_VEC(struct fm_call_sum) call_sums; // refs are valid; 0 = not known
	FM_VEC(struct fm_source) sources;
	FM_VEC(struct fm_symbol_info) symbols; // of one address twice: either
	FM_VEC(struct fm_symbol_link) symbol_links;
	FM_VEC(struct fm_site) sites;                   // one for each (process, stack, domain)
	FM_VEC(struct fm_site_history) histories;       // of sites, where there is no log of events
	FM_VEC(struct fm_history_point) history_points; // of one history in order of time, side by side
	FM_VEC(struct fm_memory_level) memory_levels;   // of one process in order of time
	FM_VEC(struct fm_alloc_type) alloc_types;
	FM_VEC(struct fm_alloc_touched) alloc_touches; // in the order told: the last one of a block holds
	bool is_truncated;                             // no end mark, or bytes after the last whole chunk
	uint64_t n_damaged_chunks;
	uint64_t n_undefined_refs; // references to things that no whole chunk defined
	uint64_t n_lost_samples;   // as far as the end mark tells; 0 when it is missing
	uint64_t n_lost_memory_events;
	char damage[160]; // one line for the report, "" when the file is whole
};

enum fm_event_type {
	FM_EVENT_SAMPLE = 1,
	FM_EVENT_ALLOC = 2,
	FM_EVENT_FREE = 3,
	FM_EVENT_TRACE = 10, // part of a thread's trace; parts of one thread come in order
};

struct fm_event {
	enum fm_event_type type;
	union {
		struct fm_sample sample;
		struct fm_alloc alloc;
		struct fm_free free;
		struct fm_zone_batch *trace; // lives until the next call; fm_trace_next() takes it apart
	};
};

struct fm_reader;
FM_MUST_CHECK enum fm_err fm_reader_open(const char *path, struct fm_reader **ret, struct fm_diag *diag);
// The same file for a second time: its events without its tables, which stay those of the first
// reader. It has reached its end, outlives this one, and no chunk is read that it did not read.
FM_MUST_CHECK enum fm_err fm_reader_open_again(const struct fm_reader *first, bool with_samples, bool with_others,
					       struct fm_reader **ret, struct fm_diag *diag);
void fm_reader_close(struct fm_reader *r);             // NULL is fine
const char *fm_reader_path(const struct fm_reader *r); // as it was opened
FM_MUST_CHECK enum fm_err fm_reader_next(struct fm_reader *r, struct fm_event *ret);
// After a sample: it and those that follow it at once, all of its thread. All count as handed out;
// they live until the next call.
const struct fm_sample *fm_reader_samples(struct fm_reader *r, uint32_t *ret_n);
// For a file that is still written, before its first event is asked for: FM_E_END then means "no
// more so far", and asking again later goes on from there. Tables grow meanwhile; what points into
// them is old after the next call.
void fm_reader_follow(struct fm_reader *r);
bool fm_reader_has_end(const struct fm_reader *r); // the end mark was read: nothing will follow
// The next event of a part of a trace; FM_E_END after its last. Its references are valid (FM_NO_ID:
// not known), the batch's are whatever the file says.
FM_MUST_CHECK enum fm_err fm_trace_next(const struct fm_profile *p, struct fm_zone_batch *batch,
					struct fm_zone_event *ret);
const struct fm_profile *fm_reader_profile(const struct fm_reader *r);
// For stacks that no file holds, once the end was reached: the id of the new one. Its parent has to
// be there.
uint32_t fm_reader_add_frame(struct fm_reader *r, struct fm_frame frame);
uint32_t fm_reader_add_stack(struct fm_reader *r, struct fm_stack stack);
// For progress: how far into the file, and how long it is (0 when unknown, as with a pipe).
uint64_t fm_reader_bytes_read(const struct fm_reader *r);
uint64_t fm_reader_bytes_total(const struct fm_reader *r);
// The value of a meta key, or fallback.
struct fm_str fm_profile_meta(const struct fm_profile *p, const char *key, struct fm_str fallback);
// The number with which it begins, 0 without one.
uint64_t fm_profile_meta_u64(const struct fm_profile *p, const char *key);
