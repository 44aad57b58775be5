// SPDX-License-Identifier: Apache-2.0
// The programs in unwind tables, looked over before libdw runs them: it makes room for every
// register they name, and for all of them again with every state that they remember. A damaged one
// names the hundred-millionth.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// True when all instructions are known and whole, every register is one that a CPU of this kind may
// have, and neither the program nor what it remembers at a time is longer than a compiler would
// make it.
bool fm_cfa_program_is_sane(const uint8_t *start, const uint8_t *end);
