// SPDX-License-Identifier: Apache-2.0
// The box that the line tables are set in: which columns there are, and how they are drawn.
#pragma once

#include "render/shared/style.h"

enum fm_table_column {
	FM_TABLE_PYTHON,
	FM_TABLE_NATIVE,
	FM_TABLE_SYSTEM,
	FM_TABLE_WAITING,
	FM_TABLE_MEMORY_PYTHON,
	FM_TABLE_PEAK,
	FM_TABLE_TIMELINE,
	FM_TABLE_COPY,
	FM_TABLE_N_COLUMNS,
};

struct fm_table {
	const struct fm_style *style;
	unsigned width;
	bool has[FM_TABLE_N_COLUMNS];
	unsigned source_cells; // what is left for the source
};

struct fm_table_row {
	uint32_t line;                      // 0 = none
	bool is_gap;                        // "...": lines were skipped
	char cells[FM_TABLE_N_COLUMNS][48]; // "" = nothing to say
	struct fm_str text;                 // the source
};

// Columns for which there is no room at this width are left out, the least useful first.
void fm_table_init(struct fm_table *t, const struct fm_style *style, unsigned width, bool has_system, bool has_waiting,
		   bool has_memory);
void fm_table_head(const struct fm_table *t, struct fm_str title);
void fm_table_row(const struct fm_table *t, const struct fm_table_row *row);
void fm_table_divide(const struct fm_table *t); // between lines and functions
void fm_table_foot(const struct fm_table *t);
