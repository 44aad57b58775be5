// SPDX-License-Identifier: Apache-2.0
// The first line of a script: which Python it wants.
#pragma once

#include <stdbool.h>

struct fm_shebang {
	char python[1024]; // a path, or a name to be looked for on PATH; "" = whichever there is
	char option[256];  // "-u"; "" = none
};

// False: no such line, or none that names a Python.
bool fm_shebang_read(const char *script, struct fm_shebang *ret);
