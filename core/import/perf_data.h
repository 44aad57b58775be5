// SPDX-License-Identifier: Apache-2.0
// Between the parts of the importer of perf.data, the file of Linux's perf record. Its layout:
// tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h of Linux.
//
// The file is read twice. The first time tells which events there are, how often each one happened
// and what the end of the file says (perf_data_scan.c); the second time records are put in order
// (perf_data_order.c) and become processes, threads, waits and samples (perf_data.c).
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"
#include "image/unwind_file.h"
#include "import/perf_event.h"
#include "import/perf_frames.h"
#include "import/sink.h"

// ---- The file: perf_data_file.c ----

// More events than any command line names, and an id per event, thread and CPU.
#define FM_PERF_MAX_ATTRS 1024u
#define FM_PERF_MAX_IDS (1u << 20)

struct fm_perf_attr {
	uint32_t type;
	uint64_t config, period, sample_type, read_format, branch_sample_type, regs_user, regs_intr;
	bool is_freq, has_sample_id, is_exclude_kernel;
	uint32_t stack_bytes; // of a thread's stack, in each sample
	uint16_t max_chain;   // 0 = perf's own limit
	struct fm_perf_event event;
};

struct fm_perf_build_id {
	struct fm_str path;
	uint8_t bytes[20], len;
};

struct fm_perf_file {
	struct fm_input *input;
	bool is_pipe, is_unfinished; // perf did not come to its end: no length of the data, no features
	uint64_t data_left;          // of the data section, from here on; UINT64_MAX = to the end
	uint64_t data_start, data_bytes;
	uint64_t feature_bits[4];
	FM_VEC(struct fm_perf_attr) attrs;
	struct fm_map ids; // id -> index of attrs
	uint32_t n_ids;    // that were read; events may share theirs
	struct fm_arena arena;
	size_t kept_bytes; // of the arena

	// Records that came packed (PERF_RECORD_COMPRESSED).
	struct ZSTD_DCtx_s *zstd;
	struct fm_buf unpacked;
	size_t unpacked_pos;
	struct fm_buf record; // the one that was given out last, when it was unpacked
	bool has_packed;
	uint64_t packed_bytes, unpacked_bytes; // since the first record
	bool is_bomb;                          // few bytes unpack to more than any profile holds

	struct fm_str host, release, arch, command, cpu; // "" = not said
	uint32_t n_cpus;
	struct fm_map build_id_of; // hash of a path -> index of build_ids + 1
	FM_VEC(struct fm_perf_build_id) build_ids;
};

struct fm_perf_record {
	uint32_t type;
	uint16_t misc;
	struct fm_cursor body;
	uint64_t offset; // of its head in the file; UINT64_MAX = it was unpacked
};

// Reads what comes before the data; the source is at its beginning. FM_E_CORRUPT with a line in the
// import's diag.
FM_MUST_CHECK enum fm_err fm_perf_file_open(struct fm_perf_file *f, struct fm_import *in);
void fm_perf_file_close(struct fm_perf_file *f);
// Goes back to the first record, or to where the features are.
void fm_perf_file_to_data(struct fm_perf_file *f);
// The next record, which lives until the next call. FM_E_END; FM_E_CORRUPT: what follows cannot be
// found; FM_E_TRUNCATED: it ends inside of a record.
FM_MUST_CHECK enum fm_err fm_perf_file_next(struct fm_perf_file *f, struct fm_perf_record *ret);
// The events that a header or a record describes (perf_event_attr, then its ids).
bool fm_perf_file_add_attr(struct fm_perf_file *f, struct fm_cursor *attr, struct fm_cursor *ids);

// ---- What the file says of itself: perf_data_features.c ----

// A section of that number (HEADER_* of perf), at the end of a file or in a record of a piped one.
void fm_perf_feature(struct fm_perf_file *f, unsigned number, struct fm_cursor section);
// The table of sections behind the data; the source is where it begins.
void fm_perf_features_read(struct fm_perf_file *f);
// Of a file in the table of build-ids; "" = none is known.
struct fm_str fm_perf_build_id(const struct fm_perf_file *f, struct fm_str path);
// Records that only pipes have: FM_E_NOT_FOUND when it is none of them.
void fm_perf_pipe_record(struct fm_perf_file *f, const struct fm_perf_record *r);

enum fm_perf_user_record { // numbers of perf's own records
	FM_PERF_HEADER_ATTR = 64,
	FM_PERF_TRACING_DATA = 66,
	FM_PERF_HEADER_BUILD_ID = 67,
	FM_PERF_FINISHED_ROUND = 68,
	FM_PERF_AUXTRACE = 71,
	FM_PERF_EVENT_UPDATE = 78,
	FM_PERF_HEADER_FEATURE = 80,
	FM_PERF_COMPRESSED = 81,
	FM_PERF_COMPRESSED2 = 83,
};

// ---- One record: perf_data_sample.c ----

struct fm_perf_sample {
	const struct fm_perf_attr *attr; // NULL: of no event that is known
	uint64_t ip, time_ns, period;
	uint32_t pid, tid, cpu;
	bool has_time, has_cpu;
	const uint8_t *chain, *branches, *regs, *stack; // as in the file; NULL = none
	uint64_t n_chain, n_branches, regs_abi, stack_bytes;
};

// FM_E_CORRUPT: it says that it is longer than it is.
FM_MUST_CHECK enum fm_err fm_perf_sample_read(const struct fm_perf_file *f, const struct fm_perf_record *r,
					      struct fm_perf_sample *ret);
// Who and when of any other record of the kernel's, which stand at its end.
void fm_perf_id_read(const struct fm_perf_file *f, const struct fm_perf_record *r, struct fm_perf_sample *ret);

static inline uint64_t fm_perf_u64(const uint8_t *array, uint64_t i)
{
	struct fm_cursor c = fm_cursor_over(array + i * 8, 8);
	return fm_cursor_u64(&c);
}

// ---- The first reading: perf_data_scan.c ----

struct fm_perf_scan {
	uint64_t n_lost, n_lost_samples; // two counts of the same
	uint64_t n_records, n_broken;
	uint64_t first_ns, last_ns;
	bool has_aux, has_switches;
};

// Counts, and chooses the event that samples are taken from.
FM_MUST_CHECK enum fm_err fm_perf_scan(struct fm_perf_file *f, struct fm_import *in, struct fm_perf_scan *ret);

// ---- In order of time: perf_data_order.c ----

// perf writes what one CPU's buffer holds, then the next one's; a FINISHED_ROUND record says that
// nothing older than the round before is still to come. Where these are missing, so much is held
// back and no more. What lies in a file as it is, is read from there again when its turn comes.
#define FM_PERF_MAX_QUEUE_BYTES ((size_t)64 << 20)
#define FM_PERF_MAX_QUEUED ((size_t)2 << 20)

struct fm_perf_queued {
	uint64_t time_ns;
	uint64_t offset; // in the file or of bytes
	uint32_t seq, type;
	uint16_t misc, len;
	bool is_in_file;
};

struct fm_perf_order {
	int fd;              // of the file; -1 = it is packed
	struct fm_buf bytes; // of records that are not in the file
	FM_VEC(struct fm_perf_queued) items;
	uint64_t newest_ns, limit_ns;
	uint32_t next_seq;
	void (*each)(void *ctx, const struct fm_perf_record *r, uint64_t time_ns);
	void *ctx;
};
void fm_perf_order_deinit(struct fm_perf_order *o);
// Time 0: at once.
void fm_perf_order_add(struct fm_perf_order *o, const struct fm_perf_record *r, uint64_t time_ns);
void fm_perf_order_round(struct fm_perf_order *o);
void fm_perf_order_end(struct fm_perf_order *o);

// ---- What is mapped where: perf_data_space.c ----

// Linux's own limit for one process (vm.max_map_count), and for all of a file together.
#define FM_PERF_MAX_MAPS 65530u
#define FM_PERF_MAX_ALL_MAPS (1u << 21)

struct fm_perf_image; // below

struct fm_perf_map {
	uint64_t start, end, offset;
	uint64_t bias; // pc - bias is the ELF virtual address; once the image is opened
	bool has_bias;
	struct fm_perf_image *image;
};

struct fm_perf_maps { // shared by processes until one of them changes
	uint32_t n_users;
	FM_VEC(struct fm_perf_map) items;
};

struct fm_perf_process {
	uint32_t pid, parent_pid;
	uint32_t map_pid;          // whose map of run-time code is its own, too: a child's parent's; 0 = nobody's
	uint32_t process_id;       // FM_NO_ID: nothing of it is in the capture yet
	struct fm_perf_maps *maps; // NULL: none
	struct fm_map frames;      // pc -> frame id; of the maps as they are
	const char *exe;           // the first file that was mapped to be executed; NULL = none yet. An image's
	bool is_elsewhere;         // as below
	struct fm_perf_jit *jit;   // perf_data_jit.c; NULL: not looked for yet
};

struct fm_perf_spaces {
	struct fm_map by_pid;
	FM_VEC(struct fm_perf_process *) items;
	uint64_t n_maps;
	bool is_full;      // a mapping was left out
	bool is_elsewhere; // of another machine: what lies here under the same name is something else
};
void fm_perf_spaces_deinit(struct fm_perf_spaces *s);
struct fm_perf_process *fm_perf_process_get(struct fm_perf_spaces *s, uint32_t pid);
void fm_perf_process_map(struct fm_perf_spaces *s, struct fm_perf_process *p, const struct fm_perf_map *map);
void fm_perf_process_fork(struct fm_perf_spaces *s, struct fm_perf_process *child,
			  const struct fm_perf_process *parent);
void fm_perf_process_exec(struct fm_perf_spaces *s, struct fm_perf_process *p);
struct fm_perf_map *fm_perf_process_find(const struct fm_perf_process *p, uint64_t pc);

// ---- Files that were mapped: perf_data_images.c ----

struct fm_perf_image {
	char *path;
	uint8_t build_id[20];
	uint32_t build_id_len;
	bool is_file, is_vdso;
	bool is_opened;              // the rest is filled in
	bool is_names_only;          // no code is in it
	struct fm_unwind_file *file; // NULL: not to be had
	struct fm_symbols *symbols;  // NULL: they are the report's to read
	uint32_t image_id;
	struct fm_map rule_ids; // ELF virtual address -> index of rules
	FM_VEC(struct fm_unwind_rule) rules;
};

struct fm_perf_images {
	struct fm_intern keys; // path and build-id
	FM_VEC(struct fm_perf_image *) items;
	bool has_unchecked; // a file was opened without a build-id to check it by
	bool has_other;
	bool is_elsewhere; // only files of the same build-id are those that ran
};
void fm_perf_images_deinit(struct fm_perf_images *images);
struct fm_perf_image *fm_perf_image_get(struct fm_perf_images *images, struct fm_str path, struct fm_str build_id);
// Opens the file if it is still the one that was mapped.
void fm_perf_image_open(struct fm_perf_images *images, struct fm_perf_image *image, struct fm_import *in);
// The ELF virtual address of a pc of that mapping, whose image is opened.
uint64_t fm_perf_image_address(struct fm_perf_map *map, uint64_t pc);
const struct fm_unwind_rule *fm_perf_image_rule(struct fm_perf_image *image, uint64_t addr);

// ---- Code made at run time: perf_data_jit.c ----

// perf's map of the process (or of its parent) and jitdumps, where they are ours to believe.
void fm_perf_jit_close(struct fm_perf_jit *jit); // NULL is fine
void fm_perf_jit_add_dump(struct fm_perf_process *p, const char *path);
// The name of the code there; "" = not known. *ret_start: where it begins.
struct fm_str fm_perf_jit_name(struct fm_perf_process *p, uint64_t pc, uint64_t *ret_start);

// ---- From addresses to frames and stacks: perf_data_stack.c ----

struct fm_perf_stacks {
	struct fm_import *in;
	struct fm_perf_file *file;
	struct fm_perf_images images;
	struct fm_perf_spaces spaces;
	struct fm_map kernel_frames; // address -> frame id
	uint32_t kernel_image_id;
	FM_VEC(uint32_t) frames;           // of the stack at hand, innermost first
	uint64_t n_dumps, n_cut, n_failed; // stack dumps; those that ended before the stack, or could not be followed
	uint64_t kernel_text_at;           // of the recorded kernel; 0 = not known
	char kernel_text_name[16];
};
void fm_perf_stacks_deinit(struct fm_perf_stacks *s);
// The stack of a sample; *ret_class is what the thread was doing.
uint32_t fm_perf_stack(struct fm_perf_stacks *s, struct fm_perf_process *p, const struct fm_perf_sample *sample,
		       uint16_t misc, uint8_t *ret_class);
// Names of what was met in the kernel, and sentences on what was not seen.
void fm_perf_stacks_end(struct fm_perf_stacks *s);

// perf_data_unwind.c: the user's part of a stack by the copy of its memory; frames are pushed.
void fm_perf_unwind(struct fm_perf_stacks *s, struct fm_perf_process *p, const struct fm_perf_sample *sample);
// The frame of a user's address: the instruction itself, or the one before a return address.
uint32_t fm_perf_user_frame(struct fm_perf_stacks *s, struct fm_perf_process *p, uint64_t pc);
