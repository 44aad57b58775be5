// SPDX-License-Identifier: Apache-2.0
// What a running program does now: the last seconds of fm_recent, added up and named, each list in
// the order in which it is shown.
#pragma once

#include "aggregate/live/recent.h"
#include "symbolize/symbolize.h"

// Names for the frames of a capture that still grows.
//
// Python functions are named at once, from the capture itself. For native ones, and for lines, all
// frames are looked at and files are read, which may take longer than the program under watch
// should have to share its CPUs with: that is done anew only after ten times as long as it took.
// Until then a new native frame goes by its library's name, and a new Python frame stands at the
// line where its function begins.
struct fm_namer;
struct fm_namer *fm_namer_create(const struct fm_profile *profile);
void fm_namer_destroy(struct fm_namer *n); // NULL is fine
// The profile may have grown. What was handed out before is gone.
void fm_namer_refresh(struct fm_namer *n, uint64_t now_ns);

struct fm_named {
	uint64_t key; // equal for equal functions, until the next refresh
	struct fm_function function;
	uint32_t line;
};
struct fm_named fm_namer_frame(struct fm_namer *n, uint32_t frame_id);
struct fm_named fm_namer_code(struct fm_namer *n, uint32_t code_id); // of the profile's codes

struct fm_now_function {
	struct fm_function function;
	uint64_t self_ns, total_ns; // CPU time, sampled
	uint64_t wait_ns;           // sampled: waiting in it or in what it called
	uint64_t n_calls, own_ns;   // traced
	uint32_t last_stack;        // while adding up
};

struct fm_now_thread {
	uint32_t thread_id;
	uint64_t class_ns[FM_N_CLASSES];
	uint64_t cpu_ns;                                   // the sum of the classes on CPU
	uint64_t bucket_ns[FM_RECENT_SHOWN][FM_N_CLASSES]; // oldest first
	const char *state;                                 // "python", ..., "waiting", "ended"
	bool has_place;
	struct fm_named place; // where it was seen last
};

// A zone of the program's own, by name.
struct fm_now_zone {
	uint32_t name; // of the profile's trace names
	uint64_t n, total_ns, max_ns;
	uint32_t n_open;
};

#define FM_NOW_FUNCTIONS 40u
#define FM_NOW_THREADS 64u
#define FM_NOW_ZONES 40u
#define FM_NOW_SPANS 300u

struct fm_now {
	uint64_t start_ns, now_ns; // start: as the viewer's zero
	uint64_t first_bucket;     // FM_RECENT_SHOWN of them
	uint64_t window_ns;        // what they cover of the program's life
	uint64_t class_ns[FM_N_CLASSES];
	uint32_t n_threads;                       // alive
	FM_VEC(struct fm_now_thread) threads;     // busiest first
	FM_VEC(struct fm_now_function) functions; // hottest first (now.c has the order)
	FM_VEC(struct fm_now_zone) zones;         // longest sum first
	FM_VEC(struct fm_recent_span) spans;      // longest first; end_ns 0 = still open
	bool is_traced;                           // calls were recorded
};

// Refreshes the namer first. When the program is over, now_ns is when it ended.
void fm_now_build(struct fm_now *now, const struct fm_recent *r, const struct fm_profile *p, struct fm_namer *namer,
		  uint64_t now_ns, bool is_over);
void fm_now_deinit(struct fm_now *now);
// The name of what a trace refers to: a function, or a zone.
struct fm_str fm_now_ref_name(const struct fm_profile *p, fm_zone_ref ref);
