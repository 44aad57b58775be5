// SPDX-License-Identifier: Apache-2.0
// The fixed parts of the flame graph's SVG: style and behaviour. No external requests, no foreign
// code.
#pragma once

#define FM_FLAME_ROW 17     // pixels per frame
#define FM_FLAME_TOP 62     // where the first row begins
#define FM_FLAME_WIDTH 1200 // before the script fits it to the window

extern const char fm_flame_style[], fm_flame_script[];
