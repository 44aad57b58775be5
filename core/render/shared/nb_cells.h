// SPDX-License-Identifier: Apache-2.0
// The cells of a notebook run (python/fathom/_notebook.py), as meta notebook_cells keeps them: a
// line each, fields by tabs.
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct fm_json;
struct fm_profile;

struct fm_nb_cell {
	unsigned number;
	struct fm_str status; // ok, failed, skipped, exit
	double wall_s, cpu_s;
	struct fm_str first_line;
};

// Takes the next row off *rest. False at the end; rows that are not as they should be are passed
// over.
bool fm_nb_cells_next(struct fm_str *rest, struct fm_nb_cell *ret);

void fm_json_cells(struct fm_json *j, const struct fm_profile *profile); // "cells": [...], when it was a notebook
