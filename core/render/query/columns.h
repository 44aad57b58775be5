// SPDX-License-Identifier: Apache-2.0
// Columns that several tables have.
#pragma once

#include "render/query/tables.h"

#define FM_INT(name, meaning)                    \
	{                                        \
		name, FM_COLUMN_INTEGER, meaning \
	}
#define FM_REAL(name, meaning)                \
	{                                     \
		name, FM_COLUMN_REAL, meaning \
	}
#define FM_TEXT(name, meaning)                \
	{                                     \
		name, FM_COLUMN_TEXT, meaning \
	}
#define FM_INT_OR_NULL(name, meaning)                  \
	{                                              \
		name, FM_COLUMN_INTEGER, meaning, true \
	}
#define FM_REAL_OR_NULL(name, meaning)              \
	{                                           \
		name, FM_COLUMN_REAL, meaning, true \
	}
#define FM_TEXT_OR_NULL(name, meaning)              \
	{                                           \
		name, FM_COLUMN_TEXT, meaning, true \
	}

// By fm_row_classes().
// clang-format off
#define FM_CLASS_COLUMNS                                                                          \
	FM_REAL("python_s", "CPU time in Python code"),                                           \
	FM_REAL("native_s", "CPU time in native code that Python called"),                        \
	FM_REAL("system_s", "CPU time in the kernel"),                                            \
	FM_REAL("gc_s", "CPU time of the garbage collector"),                                     \
	FM_REAL("gil_wait_s", "time waiting for the GIL"),                                        \
	FM_REAL("wait_s", "time waiting for anything else: sleep, input and output, locks")
// clang-format on

#define FM_COLUMNS(list) .columns = (list), .n_columns = FM_ARRAY_LEN(list)
