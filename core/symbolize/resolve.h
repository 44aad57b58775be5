// SPDX-License-Identifier: Apache-2.0
// Addresses of one image to chains of functions: from the cache, from the image's files, or both.
//
// Files are read in a child process: half a gigabyte of debug information must not stay in ours,
// and a damaged file that crashes or stalls libdw costs its own names and nothing else.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "symbolize/chains.h"

struct fm_resolve_request {
	const char *path;
	struct fm_str build_id;
	bool is_vdso;
	bool symbols_only;    // function names only, nothing is looked for elsewhere, nothing is cached
	uint64_t deadline_ns; // CLOCK_MONOTONIC; 0 = FM_RESOLVE_SECONDS from now
};
#define FM_RESOLVE_SECONDS 60

enum fm_resolve_failure {
	FM_RESOLVE_OK = 0,
	FM_RESOLVE_CRASHED = 1, // the child died over the file
	FM_RESOLVE_LATE = 2,    // it took too long
};

// addrs are rising. Initialises ret: facts are always set; every address is in it that something is
// known about.
enum fm_resolve_failure fm_resolve(const struct fm_resolve_request *request, const uint64_t *addrs, size_t n,
				   struct fm_chains *ret);

// The same without cache and child: reads the files here and now.
void fm_resolve_here(const struct fm_resolve_request *request, const uint64_t *addrs, size_t n, struct fm_chains *ret);
