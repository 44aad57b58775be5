// SPDX-License-Identifier: Apache-2.0
// Where what was found out is kept: $XDG_CACHE_HOME/fathom/symbols, or ~/.cache/fathom/symbols.
// What lies there is believed and removed as our own, so it has to be: the two folders of ours are
// no links, and they, the folder around them and the home belong to us (or root) and cannot be
// written by others. As root with somebody else's HOME there is no cache.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Its path. False: there is no place for a cache (no home). The folder need not exist yet.
bool fm_cache_folder(char *ret, size_t cap);

// A descriptor of it, made if is_made is true; -1 when there is none. *ret_why (may be NULL) says
// why one that is there is not used, as the end of a sentence, or becomes NULL.
int fm_cache_folder_open(bool is_made, const char **ret_why);
