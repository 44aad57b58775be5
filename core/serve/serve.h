// SPDX-License-Identifier: Apache-2.0
// The viewer over HTTP, for a browser on this machine: loopback only, a port of the system's
// choosing, a token that only the address printed carries, and a fixed table of addresses. Nothing
// from a request ever names a file. And the same beside a program that lets itself be watched.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/tree/view.h"
#include "base/err.h"
#include "serve/guard.h"

struct fm_serve_options {
	const char *path, *base_path; // base: the capture to compare with, or NULL
	struct fm_view_options view;
	uint16_t port; // 0 = any free one
	bool opens_browser;
};

// Runs until the page is closed or a minute after its browser is gone, or SIGINT or SIGTERM comes.
// Prints the address. One line in diag when it cannot begin.
FM_MUST_CHECK enum fm_err fm_serve(const struct fm_serve_options *o, struct fm_diag *diag);

// A program that runs lets itself be watched: the place to listen at, taken before it starts, and
// the server, which is a process of its own beside the collector and is fed by the file alone.
#define FM_LISTEN_PORT 8086 // by convention

// "[HOST:]PORT", "[::1]:PORT" for numbers of the new kind. Without a host: loopback.
struct fm_listen_place {
	char host[256];
	uint16_t port;
	bool is_loopback;
};
FM_MUST_CHECK enum fm_err fm_listen_parse(const char *text, struct fm_listen_place *ret, struct fm_diag *diag);

// A socket that listens; place->port 0 becomes the one that the system chose. One line in diag:
// taken already, not ours to have.
FM_MUST_CHECK enum fm_err fm_listen_bind(struct fm_listen_place *place, int *ret_socket, struct fm_diag *diag);

// The name by which other machines ask for it: the host it was told, or this machine's own name
// when it listens at all addresses.
void fm_listen_name(const struct fm_listen_place *place, char *ret, size_t cap);

struct fm_listen_options {
	const char *path;             // the capture, which is there already
	struct fm_listen_place place; // what the socket listens at
	const char *token;
	int socket;
	int collector; // a pipe whose other end the collector has: its end is the collector's
};
// Serves until the capture is over and those who watched have been told.
FM_MUST_CHECK enum fm_err fm_listen_serve(const struct fm_listen_options *o, struct fm_diag *diag);

// The user's own browser.

// Asks the desktop (xdg-open) to show an address or a file. False: there is no display. Does not
// wait for it.
bool fm_open_in_browser(const char *address);
