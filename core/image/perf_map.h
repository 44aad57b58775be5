// SPDX-License-Identifier: Apache-2.0
// /tmp/perf-PID.map: one line for each piece of code, "start size name" in hexadecimal, the name
// with any blanks in it. Written by the program while it runs; untrusted.
#pragma once

#include "image/code_ranges.h"

// Takes the whole lines out of len bytes; returns how many bytes these were: the rest is the
// beginning of a line that is being written. Lines that are none are passed over and counted.
size_t fm_perf_map_parse(const char *text, size_t len, uint32_t owner, struct fm_code_ranges *ret,
			 uint32_t *n_bad_lines);
