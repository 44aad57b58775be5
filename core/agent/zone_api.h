// Zones, marks and plots of C and C++ code (include/fathom.h), which finds the table here at run time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Shows the table to a library that looked for it before the agent was there.
void fm_zone_api_offer(uintptr_t start, uintptr_t end, uintptr_t bias);

// True while a thread writes an event through the table, perhaps without the GIL: its ring must stay. After is_recording is 0.
bool fm_zone_api_is_busy(void);
