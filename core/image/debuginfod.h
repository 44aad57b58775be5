// SPDX-License-Identifier: Apache-2.0
// Debug files from a server, by build id: libdebuginfod, loaded at run time. Nothing is asked
// unless DEBUGINFOD_URLS is set.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

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
