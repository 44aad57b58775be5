// SPDX-License-Identifier: Apache-2.0
// A file as a stream of whole, checked, unpacked chunks. What is damaged or cut off is stepped over
// and counted.
//
// The file is read, not mapped: a mapped file that somebody shortens kills its reader with SIGBUS,
// and reading works for pipes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/chunk.h"

struct fm_chunk {
	uint8_t type;       // enum fm_chunk_type, or one that this version does not know
	const uint8_t *raw; // lives until the next call
	size_t len;
};

struct fm_chunks {
	int fd;
	uint8_t *window; // bytes read and not yet used: window[pos..len)
	size_t pos, len, cap;
	bool at_eof;
	bool is_followed; // the file still grows: its end is only where it ends so far
	int read_errno;   // why reading stopped before the end, or 0
	uint64_t offset;  // of window[pos] in the file
	uint64_t size;    // of the file when it was opened; 0 for pipes
	ZSTD_DCtx *zstd;
	uint8_t *raw;
	size_t raw_cap;
	uint64_t next_seq;
	bool in_garbage; // bytes were stepped over since the last header

	uint64_t unpacked_bytes; // of all chunks so far
	bool is_too_large;       // reading stopped: no profile is so large (read/tables.h)
	bool has_end;            // the end mark was reached
	uint64_t n_damaged;      // chunks lost or left out
	uint64_t n_cut_bytes;    // at the file's end, after the last whole chunk or after the end mark
};

FM_MUST_CHECK enum fm_err fm_chunks_open(struct fm_chunks *s, const char *path, struct fm_diag *diag);
void fm_chunks_close(struct fm_chunks *s);
// FM_OK, or FM_E_END: at the end mark's far side, at the end of the file, or where it cannot be
// read on.
FM_MUST_CHECK enum fm_err fm_chunks_next(struct fm_chunks *s, struct fm_chunk *ret);
