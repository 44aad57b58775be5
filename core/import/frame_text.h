// SPDX-License-Identifier: Apache-2.0
// Frames, threads and processes as text formats write them.
#pragma once

#include "import/sink.h"

// The frame that a text means: "func (file.py:12)", "symbol (lib.so)", "symbol (file.c:3)",
// "py::func:/path/file.py", "file.py:func:12", "symbol_[k]", or a bare name. Never fails: what has
// none of the forms is the name of native code.
uint32_t fm_frame_of_text(struct fm_import *in, struct fm_str text);
// The same of its parts: what stands in the parentheses is a file, or without a line perhaps a
// library. line 0 = none.
uint32_t fm_frame_of_parts(struct fm_import *in, struct fm_str name, struct fm_str inside, uint32_t line);

// "process 12:"python x.py"" and "thread (34): name", as fathom export and py-spy write them, or
// "Thread 34 "name"". False: the text is neither.
bool fm_process_of_text(struct fm_import *in, struct fm_str text, uint32_t *ret_id);
bool fm_thread_of_text(struct fm_import *in, uint32_t process_id, struct fm_str text, uint32_t *ret_id);

// "12" at the end of a text, after that character: the text becomes what stands before it.
bool fm_text_take_number(struct fm_str *text, char before, uint32_t *ret);

// "py::func:/path/file.py", as CPython tells perf.
bool fm_text_perf_name(struct fm_str text, struct fm_str *ret_name, struct fm_str *ret_file);
