// SPDX-License-Identifier: Apache-2.0
// Profiles that other tools wrote become captures; nothing behind that knows of it.
//
// A format is a file of this room with one function that reads front to back and hands what it
// finds to the sink (sink.h), and a row in the table of import.c.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fm_import; // sink.h
typedef enum fm_err fm_import_fn(struct fm_import *in);

struct fm_importer {
	const char *name, *meaning;
	// By content alone, never by name: the first n bytes, unpacked.
	bool (*recognise)(const uint8_t *head, size_t n);
	fm_import_fn *run;
};
extern const struct fm_importer fm_importers[]; // ends with a row of NULLs

// What recognise() is given of a file that is longer.
#define FM_IMPORT_HEAD_BYTES ((size_t)256 << 10)

enum fm_import_unit { FM_UNIT_SAMPLES, FM_UNIT_NS, FM_UNIT_US, FM_UNIT_MS, FM_UNIT_BYTES };

struct fm_import_options {
	const struct fm_importer *importer; // NULL = recognised
	enum fm_import_unit unit;           // of counts whose file does not say what they count
};

const struct fm_importer *fm_importer_find(const char *name); // NULL: none
// FM_E_NOT_FOUND: cannot be opened. FM_E_BAD_MAGIC: no format has this content, or several have;
// diag names them.
FM_MUST_CHECK enum fm_err fm_import_recognise(const char *path, const struct fm_importer **ret, struct fm_diag *diag);

// Writes PATH as a capture to OUT. FM_E_TRUNCATED: the file is damaged; diag says where, and OUT
// holds what came before. With any other error there is no OUT.
FM_MUST_CHECK enum fm_err fm_import_file(const char *path, const char *out, const struct fm_import_options *options,
					 struct fm_diag *diag);
