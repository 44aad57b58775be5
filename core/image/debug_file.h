// SPDX-License-Identifier: Apache-2.0
// Where the debug information of a stripped image lies. The places, in this order:
//   <folder>/.build-id/xx/yyyy.debug               for each debug folder
//   the name in .gnu_debuglink, in the image's own folder, its .debug/ folder, and <debug folder>/<image's folder>/
//   debuginfod, when DEBUGINFOD_URLS is set
// Debug folders are those of FATHOM_DEBUG_PATH (separated by colons), then /usr/lib/debug. A file
// found by debuglink counts only when its build id, or without one its CRC, is the right one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct fm_elf;

enum fm_debug_origin {
	FM_DEBUG_NONE = 0,
	FM_DEBUG_OWN = 1, // in the image itself
	FM_DEBUG_BUILD_ID = 2,
	FM_DEBUG_LINK = 3,
	FM_DEBUG_SERVER = 4,
};

struct fm_debug_place {
	enum fm_debug_origin origin;
	char path[4096];
	char link[256];        // the name in .gnu_debuglink; "" without one
	bool is_server_silent; // it was asked and did not answer; another time it may
};

// main may be NULL when the image is gone. On FM_OK *ret is open and place says where;
// FM_E_NOT_FOUND: there is none (place->link is filled all the same).
FM_MUST_CHECK enum fm_err fm_debug_file_find(const char *image_path, const struct fm_elf *main, struct fm_str build_id,
					     bool may_ask_server, struct fm_elf *ret, struct fm_debug_place *place);

// True when a file lies in one of the places now: what a cache that knows of none asks. Opens
// nothing.
bool fm_debug_file_may_exist(const char *image_path, struct fm_str build_id, const char *link);

// The functions of a stripped image, LZMA-packed in .gnu_debugdata (Fedora and its kin). Needs
// liblzma at run time.
FM_MUST_CHECK enum fm_err fm_debug_file_unpack_mini(const struct fm_elf *main, struct fm_elf *ret);

// Debug files from a server, by build id: libdebuginfod, loaded at run time. Nothing is asked
// unless DEBUGINFOD_URLS is set.

// DEBUGINFOD_URLS names a server.
bool fm_debuginfod_is_wanted(void);
// The library can be loaded.
bool fm_debuginfod_is_there(void);
// The path of the file in libdebuginfod's own cache. FM_E_NOT_FOUND: the server has none; FM_E_IO:
// it cannot be reached or took too long (FM_DEBUGINFOD_SECONDS for all files of this process
// together); FM_E_UNSUPPORTED: no library or no server.
#define FM_DEBUGINFOD_SECONDS 30
// Starts that clock, unless it runs: call it before forking, or each child has its own.
void fm_debuginfod_start_clock(void);
FM_MUST_CHECK enum fm_err fm_debuginfod_find(struct fm_str build_id, char *ret_path, size_t cap);
