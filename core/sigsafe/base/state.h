// SPDX-License-Identifier: Apache-2.0
// All state of the signal-time code: one struct per process, one per sampled thread.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pyabi/row.h"
#include "wire/merge.h"
#include "wire/wire.h"

// 5,000 Python calls recurse through about 15,000 C frames up to CPython 3.10: whole stacks want
// room. Deeper ones keep their leaf side and end in FM_STACK_TOO_DEEP.
#define FM_SIG_MAX_FRAMES 32768
#define FM_SIG_MAX_RUNS 16384

// Rows remembered by pc. Return addresses repeat from sample to sample; leaf pcs mostly do.
#define FM_SIG_ROWS 4096 // power of two
// Rows of stretches of code, by the block that the pc is in: innermost pcs are new ones time and
// again, in functions that are not.
#define FM_SIG_RANGES 1024 // power of two
#define FM_SIG_RANGE_SHIFT 7
// Frames whose memory is asked for ahead (ahead.c). Stacks are seldom deeper, and it takes time
// also where nothing is gained.
#define FM_SIG_AHEAD 64
// How to get from a frame to its caller, for one pc. kind is enum fm_sig_row_kind.
struct fm_sig_row {
	uint64_t pc;
	int32_t cfa_off;
	int16_t rbp_off; // 0: rbp is unchanged; else saved at CFA + rbp_off
	int16_t rbx_off; // the same for rbx
	uint8_t cfa_reg; // DWARF register number
	uint8_t kind;
	uint8_t flags; // enum fm_unwind_flags, FM_SIG_ROW_IN_GREENLET
};
static_assert(sizeof(struct fm_sig_row) == 24, "rows are many: keep them small");

struct fm_sig_range {
	struct fm_sig_row row; // its pc: where the stretch begins
	uint64_t size;         // 0 = none
};

// A Python frame of the last stack.
struct fm_sig_met {
	uint64_t frame, code;
};

// A sampled thread's private memory; anonymous, sparse, wiped in a forked child.
struct fm_sig_thread {
	struct fm_wire_slot *slot;
	// &fm_sig_self of its thread. When a process joins another capture, this memory is dealt
	// out anew; a thread that had it in the last one finds somebody else's address here.
	const void *owner;
	uint32_t idx; // its slot's, and its place's
	uint8_t *ring;
	uint64_t last_cpu_ns;
	uint64_t first_cpu_ns;    // the thread's CPU time when the capture came to it; 0 unless it had run before
	uint64_t now_ns;          // when this sample was taken
	uint64_t answered_ns;     // when the last tick was answered,
	uint64_t answered_cpu_ns; // the CPU time then,
	uint64_t n_sched_in;      // and how often the thread had been given a CPU when it was due; 0 = not known
	uint64_t system_ns;       // CPU time counted as the kernel's so far
	uint64_t left_system_ns;  // what the kernel had counted when the thread left a region (tick/region.h); 0 = it
				  // has left none
	struct fm_sig_patience {
		uint64_t beat_ns, cpu_ns;
	} patience;               // quiet.h: a beat of the collector that was late, and the CPU time when that was seen
	uint32_t n_gaps;          // of the header, as of the last sample
	uint32_t rows_generation; // rows are forgotten when a library was unloaded or rows were published
	bool is_busy;
	uint32_t n_waits_left_out; // tick/pending.h: for signals that are not for the main thread
	uintptr_t thread_state;    // this thread's, when it was last seen (sigsafe/python/thread_state.h); 0 = none
	uint64_t python_unknown_until_ns; // not looked for in the interpreter's lists before
	uint64_t start_cycles, deadline;  // of the sample that is being taken (budget.h), by the cycle counter
	uint64_t start_cpu_ns;            // the thread's CPU time then; 0 = not known
	uint64_t may_take_ns;
	uint64_t budget_cpu_ns;        // the thread's CPU time when it last earned; 0 = never
	int64_t saved_ns;              // what it has earned and not spent on samples of time,
	int64_t alloc_saved_ns;        // and on those of allocations and copies
	uint8_t alloc_pressure;        // these are so many times halved
	struct fm_trace_thread *trace; // agent/trace.h; NULL until this thread records an event of a trace
	struct fm_sig_frame_cache
		*frame_cache; // sigsafe/memory/stack_hash.h; NULL until this thread counts a block of exact mode
	uint32_t n_native, n_python, n_runs, n_out, n_prev;
	bool is_leaf_ours;       // the thread is in one of our hooks, which the stack leaves out: no pc of it is exact
	bool is_greenlet;        // the native stack ends where a greenlet began
	uint64_t native_sp;      // where the innermost native frame begins
	uint32_t precise_native; // index of a frame below a signal frame, whose pc is exact; UINT32_MAX = none
	uint32_t native_error;   // enum fm_stack_error or 0
	uint32_t python_error;
	struct fm_sig_met met[FM_SIG_AHEAD];
	struct fm_sig_row rows[FM_SIG_ROWS];
	struct fm_sig_range ranges[FM_SIG_RANGES];
	struct fm_native_frame native[FM_SIG_MAX_FRAMES];
	uint64_t python[FM_SIG_MAX_FRAMES];
	struct fm_python_run runs[FM_SIG_MAX_RUNS];
	uint64_t out[FM_SIG_MAX_FRAMES];
	uint64_t prev[FM_SIG_MAX_FRAMES]; // the last stack that was pushed, outermost first
};

// What a slot takes of this process's address space, mapped by the first thread that claims it
// (places.c) and kept for later ones.
struct fm_sig_place {
	struct fm_sig_thread *_Atomic thread;
	struct fm_wire_slot *_Atomic slot; // of this capture
};

enum fm_sig_tls_kind {
	FM_SIG_TLS_UNKNOWN = 0,
	FM_SIG_TLS_FIXED = 1,  // no thread-local at all: one for all threads, at offset
	FM_SIG_TLS_STATIC = 2, // at the thread pointer + offset
	FM_SIG_TLS_MODULE = 3, // in the thread's block of that module, at offset
};

// Where a thread-local variable is.
struct fm_sig_tls {
	uint8_t kind; // enum fm_sig_tls_kind
	uint64_t module, offset;
};

#define FM_SIG_N_ENTRIES 8u

struct fm_sig_python {
	struct fm_py_row row;
	struct fm_sig_tls current; // the current thread state (sigsafe/python/thread_state.h)
	uintptr_t runtime, code_type;
	uintptr_t image_start, image_end, image_bias;
	uintptr_t some_pc; // some address of its code, by which the collector finds it
	struct fm_evaluator evaluator;
	struct {
		uintptr_t start, end;
	} entries[FM_SIG_N_ENTRIES]; // what a call of a Python function goes through, and no other
	struct {
		uintptr_t start, end;
	} collector[4]; // free-threaded: the cycle collector's function and its parts, when symbols tell
	uint32_t hexversion;
};

// Code objects and images already told of. Open addressing, insert only, safe between threads.
#define FM_SIG_CODES (1u << 18)
#define FM_SIG_IMAGES (1u << 12)

struct fm_sig_code {
	_Atomic uint64_t addr;           // of the code object, 0 = empty
	_Atomic uint64_t id_fingerprint; // id << 32 | fingerprint, 0 = being written
};

struct fm_sig_image {
	_Atomic uint64_t start;
	_Atomic uint64_t told; // 1 once its record is in a ring
};

struct fm_sig_state {
	const struct fm_wire_header *header; // NULL: inert
	struct fm_wire_counts *counts;       // beside it
	struct fm_wire_process *process;
	uint32_t process_idx;
	uint32_t pid;
	uint32_t outside_pid;      // as the collector knows it: another one in a pid namespace of our own
	uint32_t collector_pid;    // stays when header goes: its last signals may still come
	bool is_late;              // the capture began in a running process: its threads have used CPU before
	_Atomic uint32_t n_inside; // handlers under way, of all threads; a late capture takes the last one's place at 0
	const uint8_t *published;  // FM_WIRE_PUBLISHED_BYTES: the collector's file
	uint8_t *shared;           // FM_WIRE_COMMON_BYTES of the targets' file
	uint64_t sample_ns, sample_cycles; // that one sample may take (budget.h)
	struct fm_sig_place places[FM_WIRE_N_SLOTS];
	struct fm_sig_code *codes;
	struct fm_sig_image *images;
	_Atomic uint32_t next_code_id; // ids are 1, 2, ...
	_Atomic uint32_t unload_generation;
	_Atomic uint32_t has_python; // python below is complete (release/acquire)
	struct fm_sig_python python;
	uintptr_t tls_helper_start,
		tls_helper_end; // __tls_get_addr: how code in a shared library reaches its thread-locals
	uintptr_t libc_start, libc_end;
	uintptr_t own_start, own_end;               // this library
	uintptr_t raw_malloc_start, raw_malloc_end; // PyMem_RawMalloc, RawCalloc, RawRealloc where they lie together
	char ring_path[64];                         // of the collector's file, for children
	char shared_path[64];                       // of the targets' file, for who maps more of it
	char exe[512];                              // the executable's path, for its image record
};

extern FM_HIDDEN struct fm_sig_state fm_sig;

// The calling thread's memory, NULL before its first sample. initial-exec: reading it never
// allocates.
extern __thread struct fm_sig_thread *fm_sig_self __attribute__((tls_model("initial-exec")));
