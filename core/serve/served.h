// SPDX-License-Identifier: Apache-2.0
// The captures being served: read once, read again when the file grew, and answers made from them
// one at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/analysis/filter.h"
#include "base/err.h"

// Bytes that the receiver frees.
struct fm_answer {
	char *data;
	size_t len;
};

// How an answer is packed: what the browser takes, and what costs least.
enum fm_packing { FM_PLAIN = 0, FM_GZIP = 1, FM_ZSTD = 2 };

struct fm_served;
// Looks whether the files are captures; they are read when the first answer needs them.
FM_MUST_CHECK enum fm_err fm_served_open(const char *path, const char *base_path, const struct fm_view_options *options,
					 struct fm_served **ret, struct fm_diag *diag);
void fm_served_close(struct fm_served *c); // NULL is fine
// The file is being written by somebody whom the caller knows. (Otherwise that is told by its last
// change.)
void fm_served_set_growing(struct fm_served *c, bool is_growing);

// What a question limits its answer to, as the page says it: seconds since the start, thread
// numbers.
struct fm_question {
	double from_s, to_s; // to 0 = no end
	bool has_threads;    // threads are those wanted; otherwise those unwanted
	FM_VEC(uint32_t) threads;
};

// Makes the answer that every page asks for first, so that it is there when the browser is. Whoever
// asks meanwhile waits for it; what goes wrong, they are told.
void fm_served_prepare(struct fm_served *c);

// All below may be called from any thread, one works at a time. packing: as the browser may have
// it.
FM_MUST_CHECK enum fm_err fm_served_bundle(struct fm_served *c, const struct fm_question *q, enum fm_packing packing,
					   struct fm_answer *ret, struct fm_diag *diag);
// Zones of a trace as a bundle of their own, at a width of so many pixels. FM_E_NOT_FOUND without a
// trace.
FM_MUST_CHECK enum fm_err fm_served_zones(struct fm_served *c, const struct fm_question *q, uint32_t pixels,
					  enum fm_packing packing, struct fm_answer *ret, struct fm_diag *diag);
// FM_E_NOT_FOUND without a second capture.
FM_MUST_CHECK enum fm_err fm_served_diff(struct fm_served *c, enum fm_packing packing, struct fm_answer *ret,
					 struct fm_diag *diag);
// The text that the capture keeps under exactly this name. FM_E_NOT_FOUND when there is none.
FM_MUST_CHECK enum fm_err fm_served_source(struct fm_served *c, const char *name, struct fm_answer *ret,
					   struct fm_diag *diag);
// A number that changes when the file does.
uint64_t fm_served_version(const struct fm_served *c);
