// SPDX-License-Identifier: Apache-2.0
// The shared memory between agent and collector: plain structs and constants.
//
// The collector makes two sparse memfds; every process of the tree maps them through
// /proc/COLLECTOR/fd/N, so a fork or an exec needs no handshake, and what a killed process wrote
// last is still there to be drained. Neither can be made longer or shorter.
//
//   the collector's, which nobody else can write:  | header | row images | unwind rows |
//   the targets':  | counts | process table | slot table | frame tables | slot 0: control page, ring | slot 1 ... |
//   exact sums | trace rings |
//
// What a target wrote is believed by nobody: the collector checks what it reads there
// (collect/shared/shared.h), and keeps what it must know again in memory of its own.
//
// A process maps the collector's file, what comes before the slots, and of these its own threads'
// (sigsafe/base/places.c). The tables are dense, so that looking for a free or a busy entry touches
// no pages of unused slots.
//
// A slot belongs to one thread while it lives: claimed by compare-and-swap at the thread's first
// sample, given back by the collector when the thread is gone and the ring is drained. One writer
// (the thread, at signal time), one reader (the collector). A full ring drops the newest sample and
// counts it: older stacks stay whole.
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "wire/exact.h"

#define FM_WIRE_MAGIC 0x314d485441460000u // "FATHM1" in the high bytes
#define FM_WIRE_VERSION 1

// 1024 threads running at one time; the next one is counted in n_no_slot. 1 MiB of ring holds 100
// ms of 10 kHz sampling at 100 new frames a sample. All of it is sparse: untouched pages cost
// nothing.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define FM_WIRE_N_SLOTS 256
#define FM_WIRE_N_PROCESSES 64
#else
#define FM_WIRE_N_SLOTS 1024
#define FM_WIRE_N_PROCESSES 1024
#endif
#define FM_WIRE_RING_BYTES (1u << 20)
#define FM_WIRE_CONTROL_BYTES 4096u
#define FM_WIRE_SLOT_BYTES (FM_WIRE_CONTROL_BYTES + FM_WIRE_RING_BYTES)
#define FM_WIRE_HEADER_BYTES 4096u
#define FM_WIRE_COUNTS_BYTES 4096u
#define FM_WIRE_PROCESS_BYTES 64u
// Unwind rows of images that cannot be unwound from what is mapped (collect/shared/rows.h). 64 MiB
// are 4 million rows.
#define FM_WIRE_N_ROW_IMAGES 2048
#define FM_WIRE_ROWS_BYTES (64u << 20)
#define FM_WIRE_ROW_IMAGES_OFFSET FM_WIRE_HEADER_BYTES
#define FM_WIRE_ROWS_OFFSET (FM_WIRE_ROW_IMAGES_OFFSET + FM_WIRE_N_ROW_IMAGES * 48u)
#define FM_WIRE_PUBLISHED_BYTES (FM_WIRE_ROWS_OFFSET + (uint64_t)FM_WIRE_ROWS_BYTES)
// Unwind tables that programs registered for code of their own making (__register_frame).
#define FM_WIRE_N_FRAME_TABLES 16384
#define FM_WIRE_PROCESSES_OFFSET FM_WIRE_COUNTS_BYTES
#define FM_WIRE_SLOT_TABLE_OFFSET (FM_WIRE_PROCESSES_OFFSET + FM_WIRE_N_PROCESSES * FM_WIRE_PROCESS_BYTES)
#define FM_WIRE_FRAME_TABLES_OFFSET (FM_WIRE_SLOT_TABLE_OFFSET + FM_WIRE_N_SLOTS * 16u)
// Up to here every process maps it; whole pages.
#define FM_WIRE_COMMON_BYTES ((FM_WIRE_FRAME_TABLES_OFFSET + FM_WIRE_N_FRAME_TABLES * 16ull + 4095) & ~4095ull)
#define FM_WIRE_SLOTS_OFFSET FM_WIRE_COMMON_BYTES
#define FM_WIRE_SLOTS_END (FM_WIRE_SLOTS_OFFSET + (uint64_t)FM_WIRE_N_SLOTS * FM_WIRE_SLOT_BYTES)
// Sums by site (wire/exact.h), mapped in exact mode only.
#define FM_WIRE_EXACT_OFFSET FM_WIRE_SLOTS_END
#define FM_WIRE_EXACT_END (FM_WIRE_EXACT_OFFSET + FM_WIRE_N_EXACT * FM_WIRE_EXACT_BYTES)

// Environment variable that names the collector's file ("/proc/PID/fd/N"); the agent stays inert
// without it.
#define FM_WIRE_ENV "FATHOM_RING"
#define FM_WIRE_ENV_GIVEN \
	"FATHOM_RING_GIVEN" // its parent was not to know: the agent takes what it was found by out again

// The collector stores the time at least this often, half as often while nothing runs, as long as
// it runs itself (header->beat_ns); sigsafe/base/quiet.h has what follows when it does not.
#define FM_WIRE_BEAT_NS 10000000u
// So much without a beat, and CPU time of the program was used that no sample stands for: the next
// one leaves it out.
#define FM_WIRE_GAP_NS 1000000000u

// The ticker's signal. Its default action is to be ignored, so one that races with an exec does no
// harm.
#define FM_TICK_SIGNAL SIGURG
// The same for a program with a handler of its own for that one. A signal that is already on its
// way is not sent a second time: what the program sends would be lost in a tick.
#define FM_OTHER_TICK_SIGNAL SIGWINCH

enum fm_engine {
	FM_ENGINE_NONE = 0,   // of a process that left: none is wanted
	FM_ENGINE_TICKER = 1, // the collector signals threads that run
	FM_ENGINE_PERF = 2,   // perf_event task-clock with sigtrap, inherited by threads
};

// The engine perf's event, asked for by the agent and tried out by the collector: bits of
// perf_event_attr's flag word (the sixth) and the size of the first layout that has them (Linux
// 5.13), for older headers.
#define FM_PERF_ATTR_SIZE 128u
#define FM_PERF_FLAG_WORD 5
#define FM_PERF_SIG_DATA_WORD 15 // from Linux 5.13 on, as sigtrap is
#define FM_PERF_INHERIT_THREAD (1ull << 35)
#define FM_PERF_REMOVE_ON_EXEC (1ull << 36)
#define FM_PERF_SIGTRAP (1ull << 37)

enum fm_wire_flags {
	FM_WIRE_NO_NATIVE = 1,   // Python frames only
	FM_WIRE_NO_CHILDREN = 2, // the first process only
};

enum fm_wire_memory {
	FM_WIRE_MEMORY_OFF = 0,
	FM_WIRE_MEMORY_SAMPLED = 1, // FM_WIRE_ALLOC and FM_WIRE_FREED of blocks drawn by their bytes
	FM_WIRE_MEMORY_EXACT = 2,   // every block, summed up by site (wire/exact.h); copies sampled
};

// The collector's word: settings and what it publishes. No target can write here.
struct fm_wire_header {
	uint64_t magic;
	uint32_t version;
	uint32_t collector_pid;
	uint32_t shared_fd; // the collector's descriptor of the targets' file
	uint32_t rate_hz;
	uint32_t engine;            // enum fm_engine asked for
	uint32_t flags;             // enum fm_wire_flags
	uint32_t memory;            // enum fm_wire_memory
	uint32_t n_slots;           // that may be claimed; fewer where the collector's address space is limited
	uint64_t alloc_mean_bytes;  // one allocated byte in so many is sampled
	uint32_t cycles_per_1024ns; // of the CPU's cycle counter
	uint32_t max_overhead_1024; // share of a thread's CPU time that may be spent on its samples, in 1/1024; 0 = any
	uint32_t trace_clock;       // enum fm_wire_trace_clock (wire/trace.h); 0 = there are no trace rings
	_Atomic uint32_t memory_log;      // exact mode: 1 = every event is told, too; 0 from the collector's limit on
	_Atomic uint32_t n_row_images;    // entries of the row image table in use
	_Atomic uint32_t rows_generation; // grows with each change of that table: what was not found may be there now
	_Atomic uint32_t n_gaps;          // times without a beat of FM_WIRE_GAP_NS and longer
	// When the collector last ran, by CLOCK_MONOTONIC; its ticker's thread, and its main one.
	// Far from what hooks read all the time.
	_Alignas(64) _Atomic uint64_t beat_ns;
};
static_assert(sizeof(struct fm_wire_header) <= FM_WIRE_HEADER_BYTES, "header fits its page");

// What processes count, and tell each other; all of it may be scribbled over by any of them.
struct fm_wire_counts {
	_Atomic uint32_t is_over;  // collector: no more samples wanted; a process that joined late: no more from here
	_Atomic uint32_t n_quiet;  // times that a process was left alone
	_Atomic uint64_t quiet_ns; // how long, where it was for a time only
	_Atomic uint64_t n_freed_unseen;          // ends of sampled blocks while it was quiet
	_Atomic uint32_t is_outside;              // the program is outside of the regions that are captured
	_Atomic uint64_t gap_cpu_ns;              // CPU time used in gaps, for which there are no samples
	_Atomic uint32_t n_traces_ended;          // traces that nobody read any more
	_Atomic uint32_t process_hint;            // where to look for a free entry of the process table first
	_Atomic uint32_t n_processes_claimed;     // grows with each claim: the collector's cue to scan the table
	_Atomic uint32_t n_sandboxed;             // processes that left before a filter of system calls stood
	_Atomic uint32_t n_no_room;               // processes without address space for what every process maps
	_Atomic uint64_t n_no_place;              // samples lost for want of address space for their thread
	_Atomic uint64_t n_no_slot;               // samples lost because all slots were taken
	_Atomic uint64_t n_no_process;            // processes that found the table full
	_Atomic uint32_t n_frame_tables;          // entries of the frame table list that were ever in use
	_Atomic uint32_t frame_tables_generation; // grows with each change of that list
	_Atomic uint32_t n_frame_tables_lost;     // it was full
	// What some process's memory hooks do not see.
	_Atomic uint32_t n_without_malloc, n_without_python; // processes: see enum fm_wire_hooks
	_Atomic uint32_t n_no_tables;         // processes whose memory is not watched, for want of address space
	_Atomic uint32_t n_no_exact;          // processes without a place in wire/exact.h, or room for tables
	_Atomic uint32_t own_allocator_state; // enum fm_wire_state of the name below
	char own_allocator[128];              // the first library found that brings an allocator of its own
};
static_assert(sizeof(struct fm_wire_counts) <= FM_WIRE_COUNTS_BYTES, "counts fit their page");

enum fm_wire_state {
	FM_WIRE_FREE = 0,
	FM_WIRE_CLAIMED = 1, // the owner is still writing who it is
	FM_WIRE_LIVE = 2,
};

enum fm_wire_python {
	FM_WIRE_PYTHON_NONE = 0,
	FM_WIRE_PYTHON_KNOWN = 1,
	FM_WIRE_PYTHON_UNKNOWN = 2, // a Python this build does not know: native frames only
};

// What of a process's memory the agent sees.
enum fm_wire_hooks {
	FM_WIRE_HOOKS_MALLOC = 1, // malloc and kin are ours; not so where another allocator was preloaded before us
	FM_WIRE_HOOKS_PYTHON = 2, // Python's own allocators
	FM_WIRE_HOOKS_COPY = 4,   // memcpy and kin
	FM_WIRE_HOOKS_ENDED = 8, // the end of a block is no longer told: the interpreter gives all of them back, or the
				 // capture is over
};

// One per process that runs the agent. Written by the process until LIVE, freed by the collector.
struct fm_wire_process {
	_Atomic uint32_t state; // enum fm_wire_state, published with release
	_Atomic uint32_t pid;   // as a slot's
	uint32_t parent_pid;
	_Atomic uint32_t engine;         // the engine in use; the collector takes over where it was lost
	_Atomic uint32_t python;         // enum fm_wire_python
	_Atomic uint32_t python_version; // PY_VERSION_HEX, or 0x030N0000 when only the minor is known
	uint64_t start_ns;
	_Atomic uint32_t tick_signal;      // what ticks are sent by: one of FM_TICK_SIGNAL and FM_OTHER_TICK_SIGNAL
	_Atomic uint32_t engine_errno;     // of the engine asked for, when another one is in use
	_Atomic uint32_t memory_hooks;     // enum fm_wire_hooks, while memory is watched
	_Atomic uint32_t perf_fd1;         // engine perf: its event's descriptor, plus 1; 0 = none
	_Atomic uint64_t python_pc;        // some address of the interpreter's code; 0 before one is found
	_Atomic uint32_t is_free_threaded; // the Python was built without a GIL
	_Atomic uint32_t is_quiet;         // the agent was left alone, and waits for a tick
};
static_assert(sizeof(struct fm_wire_process) == FM_WIRE_PROCESS_BYTES, "process entry size");

enum fm_wire_row_flags {
	FM_WIRE_ROWS_OF_CODE = 1, // no image: code made at run time lies there
	FM_WIRE_ROWS_NONE = 2,    // no rows: says only that what lies there can be executed
};

// A table given to __register_frame. owner is written last (release) by the process; the collector
// frees it.
enum fm_wire_frame_state { FM_WIRE_FRAME_CLAIMED = 1, FM_WIRE_FRAME_LIVE = 2, FM_WIRE_FRAME_GONE = 3 };
struct fm_wire_frame_table {
	_Atomic uint64_t owner; // (process index + 1) << 2 | enum fm_wire_frame_state; 0 = free
	uint64_t addr;          // of the table in that process
};
static_assert(sizeof(struct fm_wire_frame_table) == 16, "frame table entry size");

// Where the unwind rows of one image of one process are. Written by the collector; process_idx1
// last, with release.
struct fm_wire_row_image {
	_Atomic uint32_t process_idx1; // process index + 1; 0 = free
	uint32_t path_hash;            // fm_wire_path_hash: tells apart what is loaded at one address in turn
	uint64_t start, end, bias;
	uint32_t first_row, n_rows; // struct fm_unwind_row (image/unwind_row.h) at FM_WIRE_ROWS_OFFSET, sorted
	uint32_t flags;             // enum fm_wire_row_flags
	uint32_t epoch;             // collector: entries of run-time code that were published together
};
static_assert(sizeof(struct fm_wire_row_image) == 48, "row image entry size");

#define FM_WIRE_PATH_HASH 2166136261u // of an empty path

static inline uint32_t fm_wire_path_hash_add(uint32_t hash, uint8_t byte)
{
	return (hash ^ byte) * 16777619u;
}

static inline uint32_t fm_wire_path_hash(const char *path, uint32_t len)
{
	uint32_t hash = FM_WIRE_PATH_HASH;
	for (uint32_t i = 0; i < len; i++)
		hash = fm_wire_path_hash_add(hash, (uint8_t)path[i]);
	return hash;
}

// Handler time histogram: bucket = 4 * log2(cycles) with two fraction bits. 2^8 to 2^24 cycles is
// all that matters.
#define FM_WIRE_COST_BUCKETS 96

// The middle of a bucket, in cycles.
static inline uint64_t fm_wire_cost_cycles(unsigned bucket)
{
	bucket += 8;
	return (uint64_t)(9 + 2 * (bucket & 3)) << (bucket >> 2) >> 3;
}

static inline unsigned fm_wire_cost_bucket(uint64_t cycles)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll(cycles | 4);
	unsigned bucket = (log2 << 2 | (unsigned)(cycles >> (log2 - 2) & 3)) - 8;
	return bucket < FM_WIRE_COST_BUCKETS ? bucket : FM_WIRE_COST_BUCKETS - 1;
}

// Who owns a slot: one entry of the slot table.
struct fm_wire_owner {
	_Atomic uint32_t state; // enum fm_wire_state, published with release
	uint32_t process_idx;
	_Atomic uint32_t pid, tid; // cleared by the collector while its ticker looks
};
static_assert(sizeof(struct fm_wire_owner) == 16, "slot table entry size");
static_assert(FM_WIRE_SLOTS_OFFSET % 4096 == 0, "control blocks begin on pages");

// A slot's control block.
struct fm_wire_slot {
	uint64_t start_ns; // when it was claimed

	_Alignas(64) _Atomic uint64_t
		head;             // written by the owner (release) after the bytes, read by the collector (acquire)
	_Atomic uint64_t n_ticks; // signals answered, sampled or not; the ticker sends no second one before
	_Atomic uint64_t n_samples;
	_Atomic uint64_t n_dropped;    // ring full
	_Atomic uint64_t n_failed;     // samples whose stack carries an error frame
	_Atomic uint64_t n_restarted;  // system calls put back after our signal
	_Atomic uint64_t n_displaced;  // samples of code just before a system call, met at the call's end
	_Atomic uint64_t n_cut;        // samples whose stack was cut where its time was up
	_Atomic uint64_t n_unafforded; // ticks without a sample: earlier ones had taken more than may be spent
	_Atomic uint64_t n_no_stack;   // ticks without a sample: the signal stack has no room for one
	_Atomic uint64_t cpu_ns;       // the thread's CPU clock at its last sample
	_Atomic uint64_t n_alloc_samples;
	_Atomic uint64_t n_alloc_dropped; // ring or live table full: these blocks are not counted at all
	_Atomic uint64_t n_free_dropped;  // ring full: these blocks seem to live on
	_Atomic uint64_t alloc_cycles;    // spent in sampling allocations and copies
	_Atomic uint32_t cost[FM_WIRE_COST_BUCKETS];
	_Atomic uint32_t has_trace; // the owner writes to its trace ring (wire/trace.h)

	_Alignas(64) _Atomic uint64_t tail; // written by the collector (release), read by the owner (acquire)
	_Atomic uint64_t sent_ns; // when the ticker sent its last signal; written before it is sent, 0 = none yet
	// The last tick that was due while the thread ran, and what the scheduler knew then. A call
	// that holds the signal back may see several.
	_Atomic uint64_t due_ns;
	_Atomic uint64_t n_sched_in_at_due; // how often it had been given a CPU, 0 = not known
	_Atomic uint64_t cpu_ns_at_due;     // exact for a thread on no CPU, some milliseconds old for one that runs
	_Atomic uint32_t was_on_cpu;        // it was known to be on one
	_Atomic uint32_t was_preempted;     // the ticker had just taken it the CPU it was on
};
static_assert(sizeof(struct fm_wire_slot) <= FM_WIRE_CONTROL_BYTES, "control block fits its page");

// ---- records in a ring: 8-byte aligned, never split; a PAD record fills the end of the ring ----

enum fm_wire_type {
	FM_WIRE_PAD = 0,
	FM_WIRE_SAMPLE = 1,
	FM_WIRE_CODE = 2,
	FM_WIRE_IMAGE = 3,
	FM_WIRE_EXEC_NAME = 4, // who the process is: executable and arguments
	FM_WIRE_ALLOC = 5,     // 5 to 15: memory
	FM_WIRE_FREED = 6,
	FM_WIRE_SITE = 7,        // exact mode: the stack of a site
	FM_WIRE_BLOCK = 8,       // the same with a log: one block; its end is FM_WIRE_FREED
	FM_WIRE_TRACE_NAME = 16, // 16 to 31: traces (wire/trace.h)
};

struct fm_wire_record {
	uint32_t size; // with this header, a multiple of 8
	uint16_t type; // enum fm_wire_type
	uint16_t reserved;
};

// A frame in 8 bytes, by its top four bits:
//   0  native   pc
//   1  Python   code id (28 bits) | instruction byte offset + 1 (32 bits); offset part 0 = not started
//   2  error    enum fm_stack_error
//   3  syscall  number: the thread is in the kernel for it; innermost frame only
#define FM_WIRE_FRAME_SHIFT 60
#define FM_WIRE_FRAME_NATIVE 0ull
#define FM_WIRE_FRAME_PYTHON 1ull
#define FM_WIRE_FRAME_ERROR 2ull
#define FM_WIRE_FRAME_SYSCALL 3ull
#define FM_WIRE_N_SYSCALLS 1024 // larger numbers are no system calls
#define FM_WIRE_CODE_BITS 28
#define FM_WIRE_NO_CODE ((1u << FM_WIRE_CODE_BITS) - 1) // a Python function whose names did not fit the ring

struct fm_wire_sample {
	struct fm_wire_record rec;
	uint64_t time_ns;
	uint64_t weight_ns;
	uint32_t n_frames;    // of the whole stack
	uint32_t n_shared;    // outermost frames equal to those of the slot's previous sample, not repeated here
	uint32_t leaf_idx;    // where the interrupted native frame stands: its pc is exact, not a return address
	uint32_t precise_idx; // the same for a frame interrupted by another signal's handler; UINT32_MAX = none
	uint16_t cpu;
	uint8_t class; // enum fm_class
	uint8_t reserved[5];
	uint64_t frames[]; // n_frames - n_shared of them, innermost first
};

struct fm_wire_code {
	struct fm_wire_record rec;
	uint32_t id;
	uint32_t first_line;
	uint8_t line_table_kind; // enum fm_py_lines
	uint8_t reserved[3];
	uint32_t name_len, qualname_len, filename_len, line_table_len;
	uint32_t reserved2;
	uint8_t bytes[]; // name, qualname, filename (UTF-8), line table
};

struct fm_wire_image {
	struct fm_wire_record rec;
	uint64_t time_ns;    // when it was seen: what was at these addresses before, belongs to earlier samples
	uint64_t start, end; // mapped range
	uint64_t bias;       // pc - bias = ELF virtual address
	uint32_t flags;      // enum fm_image_flags
	uint32_t path_len, build_id_len;
	uint32_t reserved;
	uint8_t bytes[]; // path, build id
};

// A sampled allocation, or a sampled copy (domain FM_ALLOC_COPY). Its stack shares frames with the
// slot's previous stack, whichever record that was in; no frame is exact, all are return addresses.
struct fm_wire_alloc {
	struct fm_wire_record rec;
	uint64_t time_ns;
	uint64_t id;     // one of its own in this process, never 0; 0 for a copy, which is never freed
	uint64_t addr;   // of the block, for reading a surviving object's type; 0 for a copy
	uint64_t size;   // bytes asked for
	uint64_t weight; // bytes it stands for: size / probability that it was sampled
	uint32_t n_frames, n_shared;
	uint8_t domain; // enum fm_alloc_domain
	uint8_t reserved[7];
	uint64_t frames[]; // n_frames - n_shared, innermost first
};

struct fm_wire_free {
	struct fm_wire_record rec;
	uint64_t time_ns;
	uint64_t id; // of the allocation, which may stand in another thread's ring, and may be read later than this
};

// The first sight of a site of wire/exact.h. Its stack has Python frames only, and shares with the
// slot's previous one.
struct fm_wire_site_stack {
	struct fm_wire_record rec;
	uint64_t time_ns;
	uint32_t site;
	uint32_t n_frames, n_shared;
	uint8_t domain; // enum fm_alloc_domain
	uint8_t reserved[3];
	uint64_t frames[]; // n_frames - n_shared, innermost first
};

// A block of a site, which may be told in another thread's ring, and later.
struct fm_wire_block {
	struct fm_wire_record rec;
	uint64_t time_ns; // no two events of a process have the same
	uint64_t id;      // one of its own in this process, never 0
	uint64_t size;
	uint32_t site;
	uint32_t reserved;
};

struct fm_wire_exec_name {
	struct fm_wire_record rec;
	uint32_t exe_len, command_len;
	uint8_t bytes[]; // path, arguments joined by NUL
};
