// SPDX-License-Identifier: Apache-2.0
// The viewer over HTTP, for a browser on this machine: loopback only, a port of the system's
// choosing, a token that only the address printed carries, and a fixed table of addresses. Nothing
// from a request ever names a file.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/tree/view.h"
#include "base/err.h"

struct fm_serve_options {
	const char *path, *base_path; // base: the capture to compare with, or NULL
	struct fm_view_options view;
	uint16_t port; // 0 = any free one
	bool opens_browser;
};

// Runs until the page is closed or a minute after its browser is gone, or SIGINT or SIGTERM comes.
// Prints the address. One line in diag when it cannot begin.
FM_MUST_CHECK enum fm_err fm_serve(const struct fm_serve_options *o, struct fm_diag *diag);
