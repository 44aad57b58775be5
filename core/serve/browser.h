// SPDX-License-Identifier: Apache-2.0
// The user's own browser.
#pragma once

#include <stdbool.h>

// Asks the desktop (xdg-open) to show an address or a file. False: there is no display. Does not
// wait for it.
bool fm_open_in_browser(const char *address);
