// SPDX-License-Identifier: Apache-2.0
// What the recorder keeps of processes and threads, and its parts: who they are
// (recorded_process.c), what they define (collect/ingest/ingest_definition.c), their stacks
// (collect/ingest/ingest_stack.c), their memory (collect/ingest/ingest_memory.c). Not for other
// files of the room.
#pragma once

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "collect/ingest/ingest_trace.h"
#include "collect/ingest/recorder.h"
#include "collect/ingest/sites.h"
#include "collect/ingest/live_blocks.h"
#include "collect/jit/jit.h"
#include "collect/process/file.h"
#include "collect/process/memory.h"
#include "collect/process/proc.h"
#include "collect/remote/remote.h"
#include "collect/shared/rows.h"

struct image_range {
	uint64_t start, end, bias;
	uint64_t from_ns; // seen then; until a later one takes some of its addresses
	uint32_t image_id;
};

struct recorded_site {
	uint32_t node; // of the process's site_stacks
	uint8_t domain;
	bool is_told;
};

struct known_code {
	struct fm_wire_code *rec; // as told; kept for its lines. NULL = never told
	bool is_library;
};

// What the collector knows of one process image. exec and fork make new ones.
struct recorded_process {
	bool is_used;
	uint32_t pid, parent_pid, process_id;
	uint32_t proc_pid; // pid, or FM_REGISTRY_NO_PID: nothing may be asked by its number then
	int pidfd;
	struct fm_rights rights; // when it was last asked for a file
	uint64_t start_ns;
	bool is_unknown_python, is_free_threaded; // as it last said
	int engine_errno;
	struct fm_process_info info;
	struct fm_buf exe, command;
	char version[FM_PYTHON_VERSION_BYTES];
	bool is_named;
	bool is_elsewhere; // its files are found by other paths than ours
	struct fm_process_title title;
	FM_VEC(struct known_code) codes;   // by wire id
	FM_VEC(uint32_t) code_ids;         // wire id -> writer id + 1; 0 = not written: nothing in the file has it yet
	FM_VEC(struct image_range) images; // in the order they came, also those that were unloaded since
	FM_VEC(uint64_t) replaced_ns;      // when an image came to addresses that another one had
	struct fm_map frames;              // pc, or Python frame of a ring -> writer frame id, for samples within:
	uint64_t frames_from_ns, frames_until_ns;
	uint32_t frames_epoch; // grows when addresses come to mean something else
	struct fm_jit *jit;
	struct fm_levels *levels;
	struct fm_survivors *survivors;
	struct fm_touched *touched;
	FM_VEC(struct recorded_site) sites; // exact mode: by the agent's number
	struct fm_site_stacks site_stacks;
	struct fm_histories histories;
	FM_VEC(double) byte_ns;                             // by site: what it held, times how long
	uint64_t first_look_ns, last_look_ns, next_look_ns; // at these
	FM_VEC(struct fm_alloc) unplaced; // events of its log whose site (in stack_id) is not told yet
	bool is_traced;                   // codes are wanted at once
};

struct recorded_slot {
	bool is_used;
	uint32_t process_idx, tid, thread_id;
	uint64_t tail, definitions_read; // ring positions
	uint64_t noted_head;
	char name[FM_THREAD_NAME_BYTES];
	uint32_t epoch;          // of the process's frames, when the stacks below were made
	FM_VEC(uint32_t) stacks; // stack id by depth of the last sample, outermost first
	FM_VEC(uint64_t) wire;   // the same stack as the ring had it; bit 63 marks an interrupted pc
};

struct recorded_thread {
	uint64_t last_ns;   // the time of its last sample
	uint64_t ready_ns1; // struct fm_thread_totals
};

struct exit_status {
	uint32_t pid;
	int code, signal;
};

struct fm_recorder {
	struct fm_registry *registry;
	struct fm_shared *shared; // the registry's
	struct fm_writer *writer;
	struct fm_rows *rows;
	struct fm_kernel_stacks *kernel;    // NULL: not asked for
	struct fm_thread_observer observer; // self NULL = there is none
	struct fm_ingest_trace *trace;
	struct fm_map thread_ids;               // process index << 32 | tid -> thread id + 1, or THREAD_ENDED
	FM_VEC(struct recorded_thread) threads; // by thread id
	struct fm_buf record;                   // the one that is looked at
	struct recorded_process processes[FM_WIRE_N_PROCESSES];
	struct recorded_slot slots[FM_WIRE_N_SLOTS];
	struct fm_intern sources; // file names whose text was looked for
	const char *sources_dir;
	uint64_t liveness_ns;
	uint64_t log_limit_bytes; // fm_recorder_limit_log
	struct fm_recorder_totals totals;
	FM_VEC(struct exit_status) exits;
};

// Entries of the process table as processes of the profile. NULL: there is none.
struct recorded_process *fm_recorded_process_open(struct fm_recorder *r, uint32_t idx);
void fm_recorded_process_update(struct fm_recorder *r, uint32_t idx);
void fm_recorded_process_end(struct fm_recorder *r, uint32_t idx);
void fm_recorded_process_deinit(struct recorded_process *p);
bool fm_recorded_process_is_gone(const struct recorded_process *p);
// True when another entry of the same pid came later: the process has called exec.
bool fm_recorded_process_was_replaced(const struct fm_recorder *r, uint32_t idx);

// It has ended; another may get its id.
void fm_recorded_thread_forget(struct fm_recorder *r, uint32_t process_idx, uint32_t tid);

// Code objects, images, names; other records are passed over.
void fm_ingest_definition(struct fm_recorder *r, struct recorded_process *p, const struct fm_wire_record *rec);

// A stack as any record has it. leaf_idx and precise_idx as in struct fm_wire_sample; UINT32_MAX =
// none.
struct wire_stack {
	uint64_t time_ns;
	uint32_t n_frames, n_shared, leaf_idx, precise_idx;
	const uint64_t *frames;
	size_t n_room; // frames that the record has room for
};
// Remembers a stack as the slot's last (in s->wire), and no more. False: the record is damaged.
bool fm_ingest_wire_stack(struct recorded_slot *s, const struct wire_stack *stack);
// One frame of it, as the file has it.
uint32_t fm_ingest_frame(struct fm_recorder *r, struct recorded_process *p, uint64_t frame, uint64_t time_ns);
// A frame that a ring has as (code, place). 0 when the code is not known.
uint32_t fm_recorded_python_frame(struct fm_recorder *r, struct recorded_process *p, uint32_t code, uint32_t place);
// Events of a trace name codes, not stacks.
void fm_recorded_process_is_traced(struct fm_recorder *r, struct recorded_process *p);
// The stack's id; remembers it as the slot's last. False: the record is damaged.
bool fm_ingest_stack(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		     const struct wire_stack *stack, uint32_t *ret_stack);
// The same for records of memory, which no signal interrupted. rec is the whole record, of which
// head_size bytes come before its frames; a damaged one is counted.
bool fm_ingest_memory_stack(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			    const struct fm_wire_record *rec, size_t head_size, uint64_t time_ns, uint32_t n_frames,
			    uint32_t n_shared, uint32_t *ret_stack);
void fm_ingest_alloc(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		     const struct fm_wire_alloc *rec);
void fm_ingest_free(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
		    const struct fm_wire_free *rec);
// Its addresses have come to mean something else.
void fm_recorded_process_forget_frames(struct recorded_process *p);

// Exact mode: what the agents have summed up (wire/exact.h), into the file.

// The sums of a process, NULL when it has none.
struct fm_wire_exact *fm_exact_find(const struct fm_shared *shared, uint32_t process_idx);

// The stack of a site, told once.
void fm_exact_take_site(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			const struct fm_wire_site_stack *rec);

// One event of its log.
void fm_exact_take_block(struct fm_recorder *r, struct recorded_process *p, struct recorded_slot *s,
			 const struct fm_wire_block *rec);
// After each look at the rings: sites that were told late, and the size of the file.
void fm_exact_settle(struct fm_recorder *r);
// What each site holds, now and then: its average.
void fm_exact_poll(struct recorded_process *p, struct fm_wire_exact *sums, uint64_t now_ns);
// The process is gone: its sites go into the file, its sums are free for another.
void fm_exact_end(struct fm_recorder *r, struct recorded_process *p, uint32_t process_idx);
