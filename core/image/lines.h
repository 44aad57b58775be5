// SPDX-License-Identifier: Apache-2.0
// Source lines and inlined calls of native code, from DWARF 2 to 5 (libdw), for many addresses of
// one image at once.
//
// Debug information of one library may be half a gigabyte. So: which compilation units hold wanted
// addresses is told by .debug_aranges or each unit's own ranges; only those units are walked, each
// once, for all their addresses together.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct fm_elf;
struct fm_object;
struct fm_lines;

// FM_E_NOT_FOUND: the image has no debug information; FM_E_UNSUPPORTED: it is compressed with zstd,
// and this libdw knows zlib only; FM_E_CORRUPT: it cannot be read. The object must outlive it.
FM_MUST_CHECK enum fm_err fm_lines_open(const struct fm_object *o, struct fm_lines **ret);
// The same of one file, for this room only; it must outlive the lines.
FM_MUST_CHECK enum fm_err fm_lines_open_elf(const struct fm_elf *file, struct fm_lines **ret);
void fm_lines_close(struct fm_lines *l); // NULL is fine

// -gsplit-dwarf leaves functions and inlined calls in files of their own (.dwo), which may be
// packed into one beside the image (IMAGE.dwp). The first such file that resolving wanted and did
// not find; NULL: none is missing. Lines are known without them.
const char *fm_lines_missing_split(const struct fm_lines *l);
// Whether this libdw looks into packages (elfutils does from 0.191 on), and which one it is.
bool fm_lines_reads_packages(void);
const char *fm_lines_libdw_version(void);

// One function of a chain. Strings live as long as the call; NULL = unknown.
struct fm_line_frame {
	const char *name; // as the linker knows it, where the debug information says
	const char *file; // where the function is written
	uint32_t first_line;
	uint32_t line;   // where in `file` the address, or the call of the next inner function, is. 0 = unknown
	bool is_inlined; // into the one before it
};

// frames[0] is the function itself, each next one is inlined into the one before. n is at least 1.
typedef void (*fm_lines_fn)(void *ctx, size_t addr_idx, const struct fm_line_frame *frames, size_t n);

// addrs are rising ELF virtual addresses. Calls each() once for every address about which something
// is known, in any order.
void fm_lines_resolve(struct fm_lines *l, const uint64_t *addrs, size_t n, fm_lines_fn each, void *ctx);

// The same for all of the functions that hold the addresses, piece by piece (image/pieces.h): what
// is told holds from start to before end. Of a function of which that cannot be said, for the
// addresses alone.
typedef void (*fm_lines_piece_fn)(void *ctx, uint64_t start, uint64_t end, const struct fm_line_frame *frames,
				  size_t n);
void fm_lines_resolve_functions(struct fm_lines *l, const uint64_t *addrs, size_t n, fm_lines_piece_fn each, void *ctx);
