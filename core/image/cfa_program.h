// The programs in unwind tables, looked over before libdw runs them: it makes room for every register they name, and a damaged one names the
// hundred-millionth.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// True when all instructions are known and whole, and every register is one that a CPU of this kind may have.
bool fm_cfa_program_is_sane(const uint8_t *start, const uint8_t *end);
