// SPDX-License-Identifier: Apache-2.0
// An image with everything that can be found about it: its own file, its separate debug file, its
// packed symbols.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "image/debug_file.h"
#include "image/elf_file.h"

enum fm_object_state {
	FM_OBJECT_PRESENT = 0,
	FM_OBJECT_GONE = 1,    // no file there
	FM_OBJECT_CHANGED = 2, // another build lies there now
	FM_OBJECT_DAMAGED = 3, // no ELF file
};

struct fm_object_request {
	const char *path;
	struct fm_str build_id; // what must lie there; empty = anything
	bool is_vdso;           // the one that the kernel gives to this process; it has no file
	bool want_debug;        // look for the separate debug file, too
	bool may_ask_server;    // debuginfod, where DEBUGINFOD_URLS says so
};

struct fm_object {
	enum fm_object_state state;
	struct fm_elf main, debug, mini; // any may be FM_ELF_NONE; main is, unless PRESENT
	struct fm_debug_place place;
};

// An image whose file is gone or changed opens all the same when its debug file is found by build
// id. Otherwise FM_E_NOT_FOUND (gone or changed, see the diag) or FM_E_CORRUPT.
FM_MUST_CHECK enum fm_err fm_object_open(const struct fm_object_request *request, struct fm_object **ret,
					 struct fm_diag *diag);
void fm_object_close(struct fm_object *o); // NULL is fine

// What lies at the path now.
enum fm_object_state fm_object_look(const struct fm_object_request *request);
