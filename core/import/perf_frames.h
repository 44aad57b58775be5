// SPDX-License-Identifier: Apache-2.0
// Python in profiles of perf: CPython (-X perf) gives each Python function a trampoline of native
// code, which calls the evaluator and is called "py::name:file".
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "import/sink.h"

// The Python frame that a symbol means. False: it is the name of native code.
bool fm_perf_python_frame(struct fm_import *in, struct fm_str symbol, uint32_t *ret);
// What a thread with these frames, innermost first, was doing.
uint8_t fm_perf_class_of(const struct fm_import *in, const uint32_t *frames, size_t n);
