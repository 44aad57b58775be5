// Samples on their way from the thread that reads them to the one that counts them, in blocks: reading and counting take about
// as long as each other. Where no thread can be had, they are counted at once.
#pragma once

#include "aggregate/tally.h"

struct fm_sample_queue;

// Counts into the tally from now on; nobody else may touch its samples until the end.
struct fm_sample_queue *fm_sample_queue_begin(struct fm_tally *t);
void fm_sample_queue_put(struct fm_sample_queue *q, const struct fm_sample *sample);
void fm_sample_queue_end(struct fm_sample_queue *q); // when all are counted; frees it
