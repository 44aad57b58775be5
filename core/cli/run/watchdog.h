// SPDX-License-Identifier: Apache-2.0
// What all threads of a program do when it takes too long, or when nothing moves any more: their
// stacks with local variables, on the terminal and into a file of the results.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fm_watchdog {
	double after_s, hang_s; // 0 = not asked for
	bool ends;              // the program is asked to stop then
	const char *dir;        // where the file goes
	uint64_t looked_ns, moved_ns;
	uint64_t cpu_ticks, io_bytes; // when something last moved
	unsigned n_dumps;
	bool did_after, did_hang;
};

// Called often while the program runs (fm_capture_options.on_poll). True: it is to be asked to
// stop.
bool fm_watchdog_poll(uint32_t pid, uint64_t elapsed_ns, void *watchdog);
