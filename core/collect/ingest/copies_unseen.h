// SPDX-License-Identifier: Apache-2.0
// Which libraries of a capture copy memory by code of their own, where no hook is.
#pragma once

#include "format/writer.h"

// Says in the profile's coverage which of the images that were seen call none of libc's copying
// functions.
void fm_copies_unseen_tell(struct fm_writer *w);
