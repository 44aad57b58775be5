// SPDX-License-Identifier: Apache-2.0
// How a frame, a thread and a process are called in outputs for other tools (CLI.md, "Frames in
// text formats").
#pragma once

#include "aggregate/analysis/analysis.h"
#include "base/str.h"

// "qualname (file.py:12)", "symbol (file.c:12)", "symbol (libfoo.so)" without debug information,
// "symbol (inlined) (file.h:12)", "[no unwind information]". Raw bytes: the output escapes what it
// must.
void fm_label_frame(struct fm_buf *b, const struct fm_analysis *a, const struct fm_node *node);
// One more frame of a stack on one line, whose frames are separated by ';': fit for a line, and one
// frame whatever is in it.
void fm_label_collapsed(struct fm_buf *line, struct fm_str label);
// The name part alone: "symbol", "symbol (inlined)".
void fm_label_name(struct fm_buf *b, const struct fm_analysis *a, const struct fm_node *node);
// The function as people call it: "cell 17" for the body of a notebook's cell.
struct fm_str fm_label_function(const struct fm_function *f);
// The file part alone: "file.py", or the whole path when options say so; a library for native
// frames; "" when unknown.
struct fm_str fm_label_file(const struct fm_analysis *a, uint32_t function_id);
// "python", "native", "jit" or "error": the kind of a function in outputs for machines.
struct fm_str fm_label_kind(const struct fm_function *f);
// What follows the last slash; "package/__init__.py" for such.
struct fm_str fm_label_last_part(struct fm_str path);
// "thread (1234): name"
void fm_label_thread(struct fm_buf *b, const struct fm_analysis *a, uint32_t thread_id);
// "process 1234:"python x.py""
void fm_label_process(struct fm_buf *b, const struct fm_analysis *a, uint32_t process_id);

// The thread's process, or FM_NO_ID.
uint32_t fm_label_process_of(const struct fm_analysis *a, uint32_t thread_id);
// The process and its parents as far as the profile knows them, innermost first. Returns how many;
// deeper families than this come from damaged files and are cut off.
#define FM_LABEL_MAX_PROCESSES 64
unsigned fm_label_process_chain(const struct fm_analysis *a, uint32_t process_id,
				uint32_t ret[static FM_LABEL_MAX_PROCESSES]);

// What it is called among its like, in front of its command: "ForkPoolWorker-1: python x.py". The
// command alone where it has no name.
void fm_label_worker(struct fm_buf *b, const struct fm_process_info *info);
// Arguments joined by NUL bytes, as one line for a shell.
void fm_label_command(struct fm_buf *b, struct fm_str nul_joined);
// One argument, quoted when a shell would take it apart.
void fm_label_word(struct fm_buf *b, struct fm_str word);
