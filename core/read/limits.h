// SPDX-License-Identifier: Apache-2.0
// What a reader takes of one file. Captures come from strangers, too, and zstd makes megabytes of a
// hundred bytes: without these, 200 kB become as many gigabytes as their writer likes. Beyond them
// reading stops, what was read stays, and the profile's line on damage says why.
//
// Each limit grows with the bytes of the file that were read, so that no honest capture meets it
// however long it is. Measured per byte of the file: unpacked 1 to 8 bytes, charged 17 for a trace
// of one call over and over, 32 for a log of one allocation over and over; and a small file has the
// floor besides.
#pragma once

#include <stdint.h>

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define FM_READ_FLOOR_BYTES ((uint64_t)8 << 20) // or a single input takes a second
#else
#define FM_READ_FLOOR_BYTES ((uint64_t)256 << 20)
#endif

// Unpacked bytes: what it costs to look at them.
#define FM_READ_UNPACKED_RATIO 1024u
// Charged bytes: what is kept of them, here and by those who count and draw.
#define FM_READ_CHARGED_RATIO 128u

// What one of each is charged with beside its own size and text.
#define FM_READ_RECORD_CHARGE 8u
#define FM_READ_STACK_CHARGE 32u  // a node in every tree that is made of them
#define FM_READ_THREAD_CHARGE 512 // a row, a course over time
#define FM_READ_SAMPLE_CHARGE 16u
#define FM_READ_MEMORY_EVENT_CHARGE 64u // a block while it lives
#define FM_READ_TRACE_EVENT_CHARGE 8u

// Facts about the whole capture, and what it did not see: a few dozen of each are known, and all
// are shown.
#define FM_READ_MAX_METAS 4096u
#define FM_READ_MAX_COVERAGES 1024u
