// SPDX-License-Identifier: Apache-2.0
// Text inside XML and HTML.
#pragma once

#include <stdio.h>

#include "base/str.h"

// Every character that means something there is escaped, control characters and undecodable bytes
// are replaced.
void fm_xml_put(FILE *out, struct fm_str text);
