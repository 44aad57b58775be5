// --trace: how it went in the Pythons of the program, by the note that each of them left in the results folder
// (python/fathom/_startup/_fathom_trace.py).
#pragma once

struct fm_writer;

// Says in the coverage whose calls are missing and why, and takes the notes away. why_none: for when no Python left a note.
void fm_traced_tell(struct fm_writer *w, const char *results_dir, const char *why_none);
