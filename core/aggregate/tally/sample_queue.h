// SPDX-License-Identifier: Apache-2.0
// Samples on their way from the thread that reads them to the one that counts them and lets the
// observer see them, in blocks: one takes about as long as the other. Where no thread can be had,
// they are counted at once.
#pragma once

#include "aggregate/tally/tally.h"

struct fm_sample_queue;

// Counts into the tally from now on; nobody else may touch its samples until the end. observer may
// be NULL.
struct fm_sample_queue *fm_sample_queue_begin(struct fm_tally *t, const struct fm_observer *observer);
void fm_sample_queue_put(struct fm_sample_queue *q, const struct fm_sample *samples, uint32_t n);
void fm_sample_queue_end(struct fm_sample_queue *q); // when all are counted; frees it
