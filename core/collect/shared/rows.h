// SPDX-License-Identifier: Apache-2.0
// Unwind rows for images that cannot be unwound from what is mapped: made from the file
// (image/unwind_rows.h) when the image is first seen, and published in the shared memory, where the
// agent finds them. docs/decisions/0002-unwind-rows-on-demand.md.
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "collect/shared/shared.h"
#include "image/unwind_row.h"
#include "wire/wire.h"

struct fm_rows;
struct fm_rows *fm_rows_create(struct fm_shared *shared);
void fm_rows_destroy(struct fm_rows *rows);

// Publishes the rows of an image of a process, if it needs any; what the process had at these
// addresses before goes.
void fm_rows_publish(struct fm_rows *rows, uint32_t process_idx, uint32_t pid, const struct fm_wire_image *image,
		     struct fm_str path);
// Rows of code made at run time, addresses counted from base. n 0: only says that [start, end) can
// be executed. False when full.
bool fm_rows_publish_code(struct fm_rows *rows, uint32_t process_idx, uint64_t start, uint64_t end, uint64_t base,
			  const struct fm_unwind_row *items, size_t n, uint32_t epoch);
// Takes back the rows of run-time code of a process that were not published in this epoch. New ones
// come before old ones go: a handler that looks in between finds either. Epoch 0: all.
void fm_rows_retract_code(struct fm_rows *rows, uint32_t process_idx, uint32_t epoch);

// Takes back what was published for a process that is gone.
void fm_rows_forget_process(struct fm_rows *rows, uint32_t process_idx);
// Images whose rows did not fit.
uint32_t fm_rows_n_left_out(const struct fm_rows *rows);
