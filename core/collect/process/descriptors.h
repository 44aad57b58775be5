// SPDX-License-Identifier: Apache-2.0
// File descriptors, of which a limit ('ulimit -n') may leave few: files that are asked often are
// kept open only as long as enough others are left. What is not kept is opened, read and closed
// each time, which costs more and loses nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// For what must be open for a moment, or comes once a process: images, memory, lists of threads.
#define FM_DESCRIPTORS_SPARE 48

// Takes as many as the system lets us have. To be called once, before any other thread is there,
// and not before the target is on its way: it would inherit it.
void fm_descriptors_raise(void);
// From any thread: this one, which is open, may stay so. Counts those that may not.
bool fm_descriptors_may_keep(int fd);
// open() failed with this errno: counts it where there were too few. From any thread.
void fm_descriptors_note(int error);

// Files in /proc that were not kept open, and opens that failed for want of a descriptor.
struct fm_descriptors_counts {
	uint64_t n_unkept, n_refused;
};
struct fm_descriptors_counts fm_descriptors_count(void);
