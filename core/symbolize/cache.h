// SPDX-License-Identifier: Apache-2.0
// What was found out about images, kept on disk so that the next report need not read debug
// information again.
//
// In the cache's folder (below): one file per image, named by its build id (or by path,
// size and time of a file without one). Files are replaced by renaming, so that runs side by side
// see whole ones only; the last one wins. A file that is damaged or of another version is as good
// as none, a folder that cannot be written to is left alone. A file of somebody else's is not
// believed. When all files together pass FM_CACHE_MAX_BYTES, those unused for longest go; files
// that are not ours, or have other names than ours, stay.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "symbolize/chains.h"

#define FM_CACHE_MAX_BYTES ((uint64_t)256 << 20)
#define FM_CACHE_MAX_FILE_BYTES ((uint64_t)32 << 20) // an image beyond this starts afresh

#define FM_CACHE_KEY_BYTES 160

struct fm_cache_key {
	char name[FM_CACHE_KEY_BYTES]; // "" = not to be cached
};
// path may be gone when there is a build id.
struct fm_cache_key fm_cache_key_of(const char *path, struct fm_str build_id);

// FM_E_NOT_FOUND or FM_E_CORRUPT: go without.
FM_MUST_CHECK enum fm_err fm_cache_load(const struct fm_cache_key *key, struct fm_chains *ret);
void fm_cache_save(const struct fm_cache_key *key, const struct fm_chains *c);
// Removes the files unused for longest until at most max_bytes are left. fm_cache_save does so by
// itself.
void fm_cache_trim(uint64_t max_bytes);

// Where what was found out is kept: $XDG_CACHE_HOME/fathom/symbols, or ~/.cache/fathom/symbols.
// What lies there is believed and removed as our own, so it has to be: the two folders of ours are
// no links, and they, the folder around them and the home belong to us (or root) and cannot be
// written by others. As root with somebody else's HOME there is no cache.

// Its path. False: there is no place for a cache (no home). The folder need not exist yet.
bool fm_cache_folder(char *ret, size_t cap);

// A descriptor of it, made if is_made is true; -1 when there is none. *ret_why (may be NULL) says
// why one that is there is not used, as the end of a sentence, or becomes NULL.
int fm_cache_folder_open(bool is_made, const char **ret_why);
