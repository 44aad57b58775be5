// SPDX-License-Identifier: Apache-2.0
// Who is told of every event of a capture, and the two ways to be told: on the one pass over the
// file, or from the file once more.
#pragma once

#include "read/reader.h"

struct fm_observer {
	// In order, of one thread of the capture or several. NULL: it wants none.
	void (*on_samples)(void *ctx, const struct fm_sample *samples, uint32_t n);
	// Everything but samples. NULL: it wants none.
	void (*on_event)(void *ctx, const struct fm_profile *profile, struct fm_event *event);
	bool (*is_done)(void *ctx); // of a replay, asked now and then: it wants no more. NULL = never
	void *ctx;
};

// Hands everything that the reader still has to the observers, each event to each of them in this
// order. FM_OK at its end. Samples are handed out by a thread of their own, in blocks, as counting
// them takes about as long as reading them: what an observer keeps of samples and of other events
// must not meet before the end. Where no thread can be had, all is done by the caller's.
FM_MUST_CHECK enum fm_err fm_reader_run(struct fm_reader *r, const struct fm_observer *observers, size_t n);

// The events of a file that was read to its end, once more, in the order of the file and by the
// caller's thread: those that were handed out the first time and no others, even where the file has
// grown since. (Of a chunk whose content is impossible what comes after that is handed out now, as
// tables are not read again: they are those of the first time.) One line in diag on failure.
FM_MUST_CHECK enum fm_err fm_reader_replay(const struct fm_reader *r, const struct fm_observer *observer,
					   struct fm_diag *diag);

// How samples get from the thread that reads them to the one that hands them out; for tests.
struct fm_sample_queue;
struct fm_sample_queue *fm_sample_queue_begin(const struct fm_observer *observers, size_t n);
void fm_sample_queue_put(struct fm_sample_queue *q, const struct fm_sample *samples, uint32_t n);
void fm_sample_queue_end(struct fm_sample_queue *q); // when all are handed out; frees it
