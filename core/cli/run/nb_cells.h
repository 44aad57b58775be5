// SPDX-License-Identifier: Apache-2.0
// cells.tsv in the results folder: the times of a notebook's cells, as _notebook.py writes them
// while they run.
#pragma once

#include <stdbool.h>

struct fm_writer;

// Puts the rows into the profile (meta notebook_cells). False when there is no file: the notebook
// could not even be read.
bool fm_cells_tell(struct fm_writer *w, const char *results_dir);
