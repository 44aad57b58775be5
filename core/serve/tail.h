// SPDX-License-Identifier: Apache-2.0
// The end of a capture that is still written: read on when somebody asks, answered in the words of
// fathom.live/1.
//
// Nothing is read while nobody asks, and several who ask share one answer. So viewers cost the
// machine what one of them costs, and one that reads slowly or not at all is never waited for by
// the others, nor by the collector, which only writes its file.
#pragma once

#include "serve/served.h"

struct fm_tail;
// The file need not be there yet.
struct fm_tail *fm_tail_create(const char *path);
void fm_tail_destroy(struct fm_tail *t); // NULL is fine
// What the program does now, as JSON in one line; at most FM_TAIL_FRESH_NS old. From any thread.
#define FM_TAIL_FRESH_NS 200000000u
struct fm_answer fm_tail_now(struct fm_tail *t);
// Nothing will follow: the capture is whole (known only after fm_tail_now()), or its collector is
// gone.
bool fm_tail_is_over(struct fm_tail *t);
void fm_tail_set_over(struct fm_tail *t); // the collector is gone; what it wrote last is still read
