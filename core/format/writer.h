// SPDX-License-Identifier: Apache-2.0
// Writes a .fathom file as a stream: append-only chunks, each whole and checksummed
// (docs/format.md).
//
// Everything is interned here, so callers hand over what they see and keep the ids. One thread at a
// time. Errors are sticky: the first failed write (a full disk, say) is kept, later calls do
// nothing, and the file is cut back to its last whole chunk so that it stays readable. Ask
// fm_writer_error() when it suits. A file that somebody removed or changed, a file size limit or a
// closed pipe is such an error, too: SIGXFSZ and SIGPIPE are held back while writing. After an
// error, calls that give ids give 0.
//
// Ids that the writer never gave out do not reach the file: a sample of an unknown thread or class,
// or a fact about an unknown process, thread or image, is left out; an unknown stack becomes the
// empty one, an unknown frame FM_STACK_LOST, an unknown code or image FM_NO_ID, a thread's unknown
// process 0. Strings are cut at 8 MiB.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "format/model.h"
#include "format/zones.h"

struct fm_writer;

// The file is locked until it is closed. FM_E_REFUSED: somebody writes to it at the moment.
FM_MUST_CHECK enum fm_err fm_writer_open(const char *path, struct fm_writer **ret, struct fm_diag *diag);

// Ends the open chunk and writes it out. Cheap when nothing is pending. Chunks also end by
// themselves at 256 KiB of records or 32 Ki samples.
enum fm_err fm_writer_flush(struct fm_writer *w);
// Flushes, marks the file as complete, closes and frees. Returns the sticky error, with its line in
// diag.
enum fm_err fm_writer_close(struct fm_writer *w, struct fm_diag *diag);
// FM_E_IO: no room, or no way to write; what was written is there. FM_E_NOT_FOUND: somebody removed
// or changed the file, and that is lost.
enum fm_err fm_writer_error(const struct fm_writer *w);
// After an error: what went wrong and what is left, in one line.
void fm_writer_describe_error(const struct fm_writer *w, struct fm_diag *diag);
// The file was renamed while it was written, and is whole: its name now.
bool fm_writer_has_moved(const struct fm_writer *w, char *ret, size_t cap);
// From here on, command lines and sources are masked where they look like secrets; how much that
// was is said in the coverage section. The rules outlive the writer.
struct fm_redact;
void fm_writer_redact(struct fm_writer *w, const struct fm_redact *rules);

uint64_t fm_writer_bytes(const struct fm_writer *w); // bytes on disk so far

// Facts about the whole capture, as text: "command", "rate_hz", "engine", "host", ... A later value
// replaces an earlier one. The known keys are listed in docs/format.md.
void fm_writer_meta(struct fm_writer *w, const char *key, struct fm_str value);

// A message for the coverage section: what was not seen, and why.
void fm_writer_coverage(struct fm_writer *w, struct fm_str what, struct fm_str why);

struct fm_process_info {
	uint32_t pid, parent_pid;
	uint64_t start_ns;
	struct fm_str exe;            // path of the executable
	struct fm_str command;        // arguments joined by NUL bytes
	struct fm_str python_version; // "3.11.7", or "" when no Python was found in it
	struct fm_str engine;         // "perf", "ticker"
	struct fm_str name; // that it gave itself or has among its like: "ForkPoolWorker-1", "rank 3"; "" = none
};
// Ids of processes and threads are dense, from 0. fm_writer_process_update replaces what was said
// of one.
uint32_t fm_writer_process(struct fm_writer *w, const struct fm_process_info *info);
void fm_writer_process_update(struct fm_writer *w, uint32_t process_id, const struct fm_process_info *info);
// exit_code is -1 when unknown, exit_signal 0 when none.
void fm_writer_process_end(struct fm_writer *w, uint32_t process_id, uint64_t time_ns, int exit_code, int exit_signal);

uint32_t fm_writer_thread(struct fm_writer *w, uint32_t process_id, uint32_t tid, uint64_t start_ns);
void fm_writer_thread_name(struct fm_writer *w, uint32_t thread_id, struct fm_str name);
// Known when a thread is gone (or at the end of the capture). A later call replaces an earlier one.
struct fm_thread_totals {
	uint64_t end_ns, cpu_ns, n_dropped;
	uint64_t ready_ns1; // how long it was ready and had no CPU, by the kernel's account, plus 1; 0 = not known
};
void fm_writer_thread_end(struct fm_writer *w, uint32_t thread_id, const struct fm_thread_totals *totals);

// An image is a file's content; equal (path, build id) give equal ids whatever the process.
uint32_t fm_writer_image(struct fm_writer *w, struct fm_str path, struct fm_str build_id, uint32_t flags);
// The image's file, for who names its functions at the end and cannot have it by its path. The
// writer closes it.
void fm_writer_keep_file(struct fm_writer *w, uint32_t image_id, int fd);
// Where a process has it mapped: pc - bias is the ELF virtual address.
void fm_writer_mapping(struct fm_writer *w, uint32_t process_id, uint32_t image_id, uint64_t start, uint64_t end,
		       uint64_t bias);

struct fm_code_info {
	struct fm_str name, qualname, filename;
	uint32_t first_line;
	uint8_t line_table_kind; // enum fm_py_lines of pyabi/row.h
	struct fm_str line_table;
};
uint32_t fm_writer_code(struct fm_writer *w, const struct fm_code_info *code); // equal infos give equal ids

// A native frame's value is the address to look names up by: an ELF virtual address of its image
// (or the raw pc when ref is FM_NO_ID); the interrupted instruction itself for the leaf, the return
// address minus one for callers. Frame 0 is given: the error frame FM_STACK_LOST.
uint32_t fm_writer_frame(struct fm_writer *w, enum fm_frame_kind kind, uint32_t ref, uint64_t value);
// Stacks are a prefix tree: a stack is its caller's stack plus one frame. parent = FM_ROOT_STACK
// for the outermost frame.
uint32_t fm_writer_stack(struct fm_writer *w, uint32_t parent, uint32_t frame_id);

struct fm_sample {
	uint32_t thread_id;
	uint32_t stack_id;
	uint64_t time_ns;   // CLOCK_MONOTONIC
	uint64_t weight_ns; // CPU time (or waiting time for the wait classes) this sample stands for
	uint16_t cpu;
	uint8_t class; // enum fm_class
};
// Samples of one thread come in order of time; those of different threads may interleave in any
// way.
void fm_writer_sample(struct fm_writer *w, const struct fm_sample *sample);

// A sampled allocation (or a copy: domain FM_ALLOC_COPY, id 0) and the end of one. Any order
// between threads; the freeing event may come before the allocation it names.
struct fm_alloc {
	uint32_t thread_id, stack_id;
	uint64_t time_ns;
	uint64_t id;           // its own within the process; 0 = never freed
	uint64_t size, weight; // bytes asked for; bytes it stands for
	uint8_t domain;        // enum fm_alloc_domain
};
struct fm_free {
	uint32_t thread_id; // who freed it; tells the process
	uint64_t time_ns;
	uint64_t id;
};
void fm_writer_alloc(struct fm_writer *w, const struct fm_alloc *alloc);
void fm_writer_free(struct fm_writer *w, const struct fm_free *event);

// Exact mode: every allocation of one stack and domain, summed up. A later one of the same
// (process, stack, domain) replaces it.
struct fm_site {
	uint32_t process_id, stack_id;
	uint8_t domain;
	uint64_t alloc_bytes, n_allocs, n_frees, live_bytes;
	uint64_t peak_bytes;    // its own highest live bytes
	uint64_t at_peak_bytes; // live when the process was at its peak
	uint8_t held; // its live bytes averaged over the process's life, in 255ths of peak_bytes; 0 = next to nothing
};
void fm_writer_site(struct fm_writer *w, const struct fm_site *site);

// What of a site was seen at some times of the run, in order: how its live bytes went. Of site only
// process, stack and domain count.
struct fm_history_point {
	uint64_t time_ns, alloc_bytes, live_bytes; // allocated until then, and live of it
};
void fm_writer_site_history(struct fm_writer *w, const struct fm_site *site, const struct fm_history_point *points,
			    uint32_t n);

// What the kernel and the allocator say of a process's memory at a time; 0 = not known.
struct fm_memory_level {
	uint32_t process_id;
	uint64_t time_ns;
	uint64_t heap_bytes, heap_high_bytes; // exact mode: live then, highest since the level before; else 0
	uint64_t rss_bytes, rss_anon_bytes, rss_file_bytes, rss_shmem_bytes, pss_bytes, swap_bytes;
	uint64_t cgroup_bytes, cgroup_limit_bytes;
};
void fm_writer_memory_level(struct fm_writer *w, const struct fm_memory_level *level);

// The type of the Python object that a surviving allocation holds.
void fm_writer_alloc_type(struct fm_writer *w, uint32_t process_id, uint64_t alloc_id, struct fm_str type_name);

// Of a large block, so many bytes have been used. Again for the same block: replaces.
void fm_writer_alloc_touched(struct fm_writer *w, uint32_t process_id, uint64_t alloc_id, uint64_t bytes);

struct fm_symbol_link {
	struct fm_str name, file;  // "" = unknown; the name is as the linker knows it
	uint32_t first_line, line; // 0 = unknown
	bool is_inlined;           // into the one before
};
// What an address of an image means, for when the file is not there any more: its functions,
// outermost first.
#define FM_SYMBOL_MAX_LINKS 256
void fm_writer_symbol(struct fm_writer *w, uint32_t image_id, uint64_t addr, const struct fm_symbol_link *links,
		      uint32_t n);

// What was written so far. FM_E_NOT_FOUND beyond the last. Strings live until the next call that
// writes.
struct fm_written_image {
	struct fm_str path, build_id;
	uint32_t flags;
	int fd; // fm_writer_keep_file(); -1 = none
};
FM_MUST_CHECK enum fm_err fm_writer_get_image(const struct fm_writer *w, uint32_t image_id,
					      struct fm_written_image *ret);
FM_MUST_CHECK enum fm_err fm_writer_get_frame(const struct fm_writer *w, uint32_t frame_id, uint8_t *ret_kind,
					      uint32_t *ret_ref, uint64_t *ret_value);

// What a trace calls something that is no code object; the same kind and name give the same id.
uint32_t fm_writer_trace_name(struct fm_writer *w, enum fm_trace_name_kind kind, struct fm_str name);
// The same with where it begins; two places are two names. File "" and line 0: not known.
uint32_t fm_writer_trace_place(struct fm_writer *w, enum fm_trace_name_kind kind, struct fm_str name,
			       struct fm_str file, uint32_t line);
// A batch of a thread's trace as fm_zone_encoder_take() made it.
void fm_writer_trace(struct fm_writer *w, uint32_t thread_id, const void *body, size_t len);

// Calls that nobody kept the times of, only their sums: of a function, whoever called it, or of what
// one function called of another. Several of the same add up.
struct fm_call_sum {
	bool is_pair;
	fm_zone_ref caller; // of a pair
	fm_zone_ref callee;
	uint64_t n_calls, n_recursive; // n_recursive: of the calls, while it was on the stack already
	uint64_t own_ns, total_ns;     // of the callee, without and with what it called; or meta calls_unit
};
void fm_writer_call_sum(struct fm_writer *w, const struct fm_call_sum *sum);

// The text of a source file as it was at capture time. Once per file name.
void fm_writer_source(struct fm_writer *w, struct fm_str filename, struct fm_str text);
