// SPDX-License-Identifier: Apache-2.0
// Facts about a capture that each of its kinds states in the same way (docs/format.md, "Known meta
// keys").
#pragma once

#include <stdint.h>

struct fm_writer;

void fm_meta_uint(struct fm_writer *w, const char *key, uint64_t value);
// When, where and by what it is made.
void fm_meta_origin(struct fm_writer *w);
