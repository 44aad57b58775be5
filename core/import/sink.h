// SPDX-License-Identifier: Apache-2.0
// What all importers write through: threads, frames by their names, samples and allocation sites of
// the capture that comes out.
//
// Everything is interned, so memory grows with what is distinct, never with the number of samples.
// Times are nanoseconds. What a source did not know is said by fm_import_missing(), never made up.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "format/model.h"
#include "format/writer.h"
#include "import/import.h"
#include "import/input.h"

// Where times begin when a source has none: 0 would mean "not known".
#define FM_IMPORT_START_NS ((uint64_t)1000000000)
// What a sample stands for when a source counts samples and does not say how often it took them.
#define FM_IMPORT_SAMPLE_NS ((uint64_t)1000000)
// An entry that counts for many samples becomes as many, until there are so many in all.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define FM_IMPORT_MAX_SAMPLES ((uint64_t)16 << 10) // or a single input takes a second
#else
#define FM_IMPORT_MAX_SAMPLES ((uint64_t)16 << 20)
#endif

// Names longer than this are cut: a file that has one once may refer to it often.
#define FM_IMPORT_MAX_NAME 4096u

struct fm_import_thread {
	uint32_t process_id;
	uint64_t now_ns;           // where its next sample ends that has no time of its own
	uint64_t cpu_ns, first_ns; // first_ns: where its first sample begins; 0 = none yet
	uint64_t n_dropped;        // samples that its profiler lost
};

struct fm_import {
	const char *path;
	struct fm_input *input;
	struct fm_writer *w; // for what this header has no function for
	const struct fm_import_options *options;
	struct fm_diag *diag;

	struct fm_map processes, thread_ids; // by pid; by process id << 32 | tid
	FM_VEC(uint32_t) pids;               // by process id
	FM_VEC(struct fm_import_thread) threads;
	struct fm_intern names;        // keys of named native frames
	FM_VEC(uint32_t) named_frames; // by these
	struct fm_intern said;         // coverage, names of threads, commands: each once
	struct fm_map sites;           // (stack, domain, process) -> index
	FM_VEC(struct fm_site) site_items;
	uint64_t n_events;   // samples, sites, calls: whether anything came of the file
	uint64_t n_samples;  // written
	uint64_t total_ns;   // of all samples
	uint64_t name_bytes; // of names since memory was looked at
	uint64_t wall_ns;    // of the run, where the source says it; 0 = from the first sample to the last
	bool has_merged_samples;
};

// ---- The end of a file that is damaged ----

// Sets diag to "PATH: WHERE: what", where the input is now: a line of text, or a byte. Returns
// FM_E_CORRUPT, which the importer passes on.
enum fm_err fm_import_bad_line(struct fm_import *in, const char *fmt, ...) FM_PRINTF(2, 3);
enum fm_err fm_import_bad_byte(struct fm_import *in, const char *fmt, ...) FM_PRINTF(2, 3);
// What the input's own early end was, if it had one: the last line of an importer.
enum fm_err fm_import_end(struct fm_import *in);

// ---- What the capture says of itself ----

// A sentence of the coverage section, once: what was not seen, and why.
void fm_import_missing(struct fm_import *in, const char *what, const char *why);
// fm_writer_meta() is there for facts that the source has: "command", "host"; for the rest:
void fm_import_number(struct fm_import *in, const char *key, uint64_t value); // "rate_hz", ...
void fm_import_started(struct fm_import *in, uint64_t unix_ns);               // 0 = not known

// ---- Processes and threads ----

// The process of that pid, made when it is new; 0 where the source knows none. More of it:
// fm_writer_process_update().
uint32_t fm_import_process(struct fm_import *in, uint32_t pid);
void fm_import_process_command(struct fm_import *in, uint32_t process_id, struct fm_str command);
// The thread of that tid in that process. A name that is not "" replaces what it was called.
uint32_t fm_import_thread(struct fm_import *in, uint32_t process_id, uint32_t tid, struct fm_str name);

// ---- Frames and stacks ----

// A name as it may be kept. All functions below do so with theirs.
struct fm_str fm_import_name(struct fm_import *in, struct fm_str name);

// A Python function by its names; line is the line that ran, first_line the one of its def; 0 = not
// known.
uint32_t fm_import_python_frame(struct fm_import *in, struct fm_str function, struct fm_str file, uint32_t first_line,
				uint32_t line);
// Native code by its names: links[0] is the function, those behind it were inlined into the one
// before. library "" = not known.
uint32_t fm_import_native_frames(struct fm_import *in, struct fm_str library, const struct fm_symbol_link *links,
				 uint32_t n);
uint32_t fm_import_native_frame(struct fm_import *in, struct fm_str library, struct fm_str symbol, struct fm_str file,
				uint32_t line);
// By what it is called alone: Python where file is a Python source, else native.
uint32_t fm_import_frame(struct fm_import *in, struct fm_str function, struct fm_str file, uint32_t line);
bool fm_import_is_python_file(struct fm_str file);
// A build id written in hexadecimal. 0 = it is none.
#define FM_IMPORT_MAX_BUILD_ID 64
uint32_t fm_import_hex(struct fm_str hex, uint8_t ret[static FM_IMPORT_MAX_BUILD_ID]);
// A stack of frames: fm_writer_stack(in->w, caller, frame), outermost first.

// ---- Samples and allocations ----

// count samples that together stand for weight_ns, on that thread after those before them. class:
// enum fm_class.
void fm_import_sample(struct fm_import *in, uint32_t thread_id, uint32_t stack_id, uint8_t class, uint64_t count,
		      uint64_t weight_ns);
// The thread's next sample begins so much later.
void fm_import_pass_time(struct fm_import *in, uint32_t thread_id, uint64_t ns);
// One sample at a time of its own. Times of one thread rise.
void fm_import_sample_at(struct fm_import *in, const struct fm_sample *sample);
// The class of a stack whose innermost frame is that one, where the source does not tell it.
uint8_t fm_import_class_of(const struct fm_import *in, uint32_t frame_id);

// Adds to what one stack allocated. Blocks that were not freed have n_freed = 0.
struct fm_import_site {
	uint32_t process_id, stack_id;
	uint8_t domain; // enum fm_alloc_domain
	uint64_t alloc_bytes, n_allocs, live_bytes, n_live;
	uint64_t peak_bytes; // 0 = not known: the larger of the others that the source has
};
void fm_import_add_site(struct fm_import *in, const struct fm_import_site *site);
