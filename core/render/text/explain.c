// SPDX-License-Identifier: Apache-2.0
#include "render/text/text.h"

#include <string.h>

#include "render/shared/style.h"

#define MAX_WIDTH 100

static const struct entry {
	const char *term, *text; // text NULL = a section begins
} entries[] = {
	{ "The first lines", NULL },
	{ "Finished in",
	  "Wall time from the start of the program to its end, waiting included. \"Ended with exit code\", \"Ended by "
	  "signal\" and \"Interrupted\" mean that it did not end well; the report covers what ran until then." },
	{ "MB of RAM", "The most physical memory that the first process held at one time, as the kernel counts it "
		       "(maximum resident set "
		       "size): the interpreter, its libraries and all data. Fathom's own part in it is one or two MB, "
		       "and up to one more for "
		       "each thread. 1 MB is a million bytes." },
	{ "Check logs",
	  "Warnings and log records of the program, counted by level; the named file has them with their times "
	  "and source lines." },

	{ "Top Functions by Total Runtime", NULL },
	{ "share",
	  "CPU time with this function anywhere on the stack, as a percentage of the CPU time of all threads and "
	  "processes: its own work and that of everything it calls. A recursive function counts once. The shares of a "
	  "caller and of what it calls overlap, so the list does not add up to 100%." },
	{ "plus-minus", "Half of the 95% interval, in percentage points. 37.0% with 1.0 means that the true share is "
			"between 36.0% and 38.0%, 19 times out of 20. Four times as many samples halve it. It covers "
			"the error of sampling, not how much runs differ: for that, use --repeat." },
	{ "which functions", "Those of your own code: Python files outside the standard library and outside of "
			     "installed packages. --detailed also lists libraries and native functions." },

	{ "Top Functions by Memory Usage", NULL },
	{ "memory", "The most bytes that were allocated by this function and alive at one time. Each function has its "
		    "peak at its own moment, so the figures do not add up to the program's peak. In blocks of 1 MiB "
		    "and more, memory that was requested but never used does not count." },

	{ "Functions by Module", NULL },
	{ "share of a function",
	  "The CPU time while one of its own lines was executing or waiting for a library or native function that it "
	  "called. Time in other functions of your code counts for those functions. So the shares add up: functions to "
	  "their file, files to their folder." },
	{ "func",
	  "How many functions below this file or folder are shown: those with at least 1% (0.1% with --detailed)." },
	{ "outside your code", "CPU time with none of your functions on the stack: starting and ending the "
			       "interpreter, threads of libraries that cannot be tied to a line, programs that "
			       "are not Python." },

	{ "Top Functions by Own Time", NULL },
	{ "own time", "The CPU time while this function itself was executing, without anything it calls. The list "
		      "includes native functions and libraries, so it shows where the CPU spent its time." },

	{ "Top Functions by Waiting", NULL },
	{ "seconds", "How long threads slept or waited in a line of this function, or in a library that it called, "
		     "added up over all threads. The list appears if the total is at least a tenth of the run." },

	{ "Time by Kind", NULL },
	{ "Python", "The interpreter was executing bytecode, with all that its instructions need: attributes, "
		    "operators, iteration, entering Python functions, memory for objects." },
	{ "native", "A function that is not Python's was executing for the line that called it: C, C++, Rust, Fortran, "
		    "Cython, code made at run time, and the interpreter's own ones (sorted, str.join, json, re)." },
	{ "system", "The kernel was working for the program: reading, writing, mapping memory." },
	{ "garbage collection", "The interpreter's search for unreachable cycles. Line tables count it as Python." },
	{ "waiting for the GIL", "A thread was ready to run Python but another one held the interpreter's lock." },
	{ "waiting", "A thread slept or waited for input, a lock, a child or a timer. It is wall time, not CPU time, "
		     "so no percentage includes it." },
	{ "CPU time sampled",
	  "The CPU time that all samples stand for; percentages refer to it. \"% of one core\" is the CPU time of all "
	  "threads divided by the wall time: above 100%, more than one core was busy." },
	{ "no CPU was free",
	  "How long the main thread was ready to run while other programs, or other threads of this one, had the CPUs, "
	  "or while a limit of its container held it back. The row appears if that is at least a tenth of the run." },

	{ "Threads, processes, cells", NULL },
	{ "CPU", "The CPU time that samples of this thread or process stand for, and its share of the whole." },
	{ "exit",
	  "How the process ended: its exit code, or the signal that ended it; ? if Fathom did not see the end." },
	{ "cell", "In a notebook: the wall time and CPU time of each code cell, in the order they ran." },

	{ "How Sure, and at What Cost", NULL },
	{ "samples", "How often a running thread was sampled. Each sample stands for the CPU time since the thread's "
		     "previous sample." },
	{ "dropped", "Samples that were lost because Fathom could not keep up. Their time goes to the next sample." },
	{ "incomplete stack", "Samples whose callers could not all be found. They count for what was found, with a "
			      "frame in [brackets] that says "
			      "why." },
	{ "Fathom's own work",
	  "CPU time that sampling took inside the program. The program was slower by about this much." },
	{ "Not Seen, and Why",
	  "What the figures do not cover: processes, threads, samples or names, each with the reason." },

	{ "Line tables", NULL },
	{ "% of time",
	  "The file's share of the CPU time: the sum of its lines. Files below 1% are left out unless --detailed." },
	{ "Time Python", "Share of the CPU time in which this line was executed by the interpreter." },
	{ "Time native", "Share in which native code that this line called was executing." },
	{ "worker threads", "The part of the line's shares that native threads (BLAS, OpenMP, thread pools) used while "
			    "a thread that runs Python was inside a call of their library in this line, waiting for "
			    "them or busy. They appear below the line as [worker threads]." },
	{ "Time system", "Share in which the kernel worked for this line." },
	{ "Time waiting",
	  "Seconds that threads spent waiting in this line, added up. The column appears only if there is any." },
	{ "Memory Python", "The share of this line's allocations that came from Python's own allocators; the rest came "
			   "from native code." },
	{ "peak", "The most bytes allocated by this line that were alive at one time." },
	{ "timeline/%", "The line's live memory over the run, from start to end, and its share of all bytes that were "
			"ever allocated." },
	{ "Copy (MB/s)", "Megabytes copied by this line (memcpy and its kin) per second of the run." },
	{ "...", "Lines without a figure worth showing." },
	{ "function summary", "The same columns for whole functions: each is the sum of its lines." },
	{ "Top AVERAGE memory consumption", "The lines whose memory was largest on average over the run." },
	{ "Top PEAK memory consumption", "The lines whose memory was largest at one time." },
	{ "Memory", "The most memory that was alive at one time, and what is notable: leaks, growth that a short run "
		    "cannot judge, memory that was requested but never used." },
	{ "Possible memory leak",
	  "Memory of this line kept growing and was not freed. The likelihood is the probability that a block that has "
	  "grown old is never freed; the velocity is how fast the memory grows." },
	{ "Memory usage", "The live heap over the run. The growth rate is the part of all allocated bytes that was "
			  "still held at the end: 0% when everything was freed, 100% when nothing was." },

	{ "Repeated runs", NULL },
	{ "mean", "The average over the runs of --repeat." },
	{ "spread", "How much single runs differ: the standard deviation." },
	{ "interval", "Half of the 95% interval of the mean: from the spread (Student's t), or from the sampling where "
		      "that is less "
		      "sure. More runs make it smaller." },
};

void fm_explain_write(FILE *out, const struct fm_view_options *options)
{
	struct fm_style s;
	fm_style_init(&s, out, options);
	s.width = FM_MIN(s.width, (unsigned)MAX_WIDTH);
	for (size_t i = 0; i < FM_ARRAY_LEN(entries); i++) {
		const struct entry *e = &entries[i];
		if (!e->text) {
			fputs(i ? "\n" : "", out);
			fm_style_paint(&s, FM_PAINT_BOLD);
			fprintf(out, "%s\n", e->term);
			fm_style_paint(&s, FM_PAINT_NONE);
			continue;
		}
		fprintf(out, "  %s\n      ", e->term);
		fm_style_wrap(&s, fm_str_of(e->text), 6, 6);
	}
}
