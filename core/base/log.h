// SPDX-License-Identifier: Apache-2.0
// What the fathom program says on stderr: "fathom: one true sentence". Not for the agent, which
// stays silent.
#pragma once

#include "base/compiler.h"

// Something failed or is worth knowing. One line, no trailing newline in fmt.
void fm_say(const char *fmt, ...) FM_PRINTF(1, 2);
