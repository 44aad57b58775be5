// SPDX-License-Identifier: Apache-2.0
// What a person sees of a stack: a prefix tree of named frames, with interpreter plumbing folded
// away.
//
// The rule, unless asked otherwise, for a stack that holds a Python frame:
//   - native frames of the interpreter's own image are left out (they are how Python calls, not what is called), and
//   those of the agent, whose
//     hooks stand in between;
//   - native frames of every other image, and every error frame, stay, also those outside the outermost Python frame: a
//   thread of a
//     library that calls Python, a program with Python inside. Where nothing but the interpreter and the C library is
//     outside of it (main, a thread's start), that is left out;
//   - Python frames of Fathom's own files are left out, as if whom they call were called by their caller. What they do
//   themselves, native
//     calls included, shows as one frame "[fathom]".
// A stack without any Python frame keeps all its frames. Every sample keeps a place: a fold never
// loses one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/tally/tally.h"
#include "base/hash.h"
#include "symbolize/symbolize.h"

// What stacks are weighted by. All but time are bytes.
enum fm_metric {
	FM_METRIC_TIME = 0,
	FM_METRIC_ALLOC, // allocated, freed or not
	FM_METRIC_PEAK,  // live when the program was at its peak
	FM_METRIC_LEAK,  // of places that look like leaks: what survives
	FM_METRIC_COPY,  // copied by memcpy and kin
};

// How much of the text report is wanted.
enum fm_text_form {
	FM_TEXT_WHOLE = 0, // every table
	FM_TEXT_SCREEN,    // what fits a screen or two
	FM_TEXT_TREE,      // the call tree of the user's code alone
};

// How stacks become frames. The names follow py-spy's flags where it has one.
struct fm_view_options {
	bool native_all;      // fold nothing
	bool python_only;     // hide every native frame of a stack that holds a Python frame
	bool by_function;     // one frame per function, shown at its first line (py-spy -F)
	bool no_line_numbers; // the same without any line (py-spy --nolineno)
	bool no_inlines;      // calls that the compiler inlined stay part of the function around them
	bool full_filenames;  // whole paths instead of their last part (py-spy --full-filenames)
	bool threads;         // the thread is the first frame (py-spy -t)
	bool processes;       // the chain of processes comes before it (py-spy -s)
	bool gil_only;        // only samples in the interpreter itself, which holds the GIL (py-spy -g)
	bool idle;            // waiting samples too (py-spy -i)
	bool detailed;        // lines of libraries too; without it their time goes to the user's line that called them
	enum fm_metric metric;
	const char *thread;     // of formats that hold one: its name or number; NULL = the busiest
	bool unit_us;           // collapsed stacks count microseconds instead of samples
	unsigned n_top;         // rows of a table in the text report; 0 = its default
	unsigned width;         // of the text report; 0 = the terminal's, or 100
	enum fm_text_form form; // of the text report
	const char *called;     // the file as the user named it, when what is read was made of it; NULL = its own path
	const char *first_line; // what the text report begins with; NULL = nothing before its own words
	int color;              // -1 = when the output is a terminal that may be coloured, 0 = never, 1 = always
	int utf8;               // -1 = as the locale says, 0 = ASCII, 1 = always
};

#define FM_VIEW_OPTIONS_DEFAULT ((struct fm_view_options){ .color = -1, .utf8 = -1 })

// True when samples of the class belong into stack outputs (collapsed, speedscope, ...).
bool fm_view_shows_class(const struct fm_view_options *options, unsigned class);

struct fm_node {
	uint32_t parent;      // < own id; node 0 is the empty stack
	uint32_t function_id; // of the symbolizer
	uint32_t line;        // 0 = unknown or not asked for
	uint32_t depth;       // node 0 has 0
	bool is_inlined;      // the compiler inlined it into its parent
};

// What tells a node from its siblings, as one number.
static inline uint64_t fm_place_key(uint32_t function_id, uint32_t line, bool is_inlined)
{
	return (uint64_t)function_id << 32 | (line & INT32_MAX) << 1 | is_inlined;
}

struct fm_view {
	FM_VEC(struct fm_node) nodes; // each is followed by all that is below it
	uint32_t *stack_node;         // by stack id; 0 for stacks that no sample ends in or goes through
	uint8_t *stack_flags;         // by stack id
	size_t n_stacks;
};

enum fm_stack_flags {
	FM_STACK_USED = 1,       // a sample or a memory event ends in it or in a stack above it
	FM_STACK_HAS_PYTHON = 2, // a Python frame is in it
	FM_STACK_HAS_ERROR = 4,  // an error frame is in it
	FM_STACK_IS_WHOLE = 8,   // a sample without any Python frame goes through it: shown with every frame
	FM_STACK_IS_END = 16,    // a sample or a memory event ends in it
	FM_STACK_HAS_HOST = 128, // code that is neither the interpreter's nor the C library's is in it
	FM_STACK_IS_WORKER = 64, // of a thread that works for the Python frame in it (aggregate/tally/workers.h)
	FM_STACK_IS_OURS = 32,   // its innermost frame, but for hidden ones, is Fathom's own
};

// Names only the frames that samples and memory events went through.
void fm_view_build(struct fm_view *v, const struct fm_profile *profile, const struct fm_tally *tally,
		   struct fm_symbolizer *symbolizer, const struct fm_view_options *options);
void fm_view_deinit(struct fm_view *v);

// Walking from stack to stack along the tree, touching only the frames that change. For outputs
// that stream.
struct fm_path {
	FM_VEC(uint32_t) nodes; // outermost first
};

void fm_path_deinit(struct fm_path *p);
// Makes the path end in node (0 = empty). Returns how many of the outermost frames stayed as they
// were.
uint32_t fm_path_move(struct fm_path *p, const struct fm_view *view, uint32_t node);

// The node of a sample's stack; 0 when the id is out of range.
static inline uint32_t fm_view_node(const struct fm_view *v, uint32_t stack_id)
{
	return stack_id < v->n_stacks ? v->stack_node[stack_id] : 0;
}
