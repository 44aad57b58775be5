// SPDX-License-Identifier: Apache-2.0
// DWARF's register numbers, as unwind information has them. The return address is a register of its
// own on x86-64.
#pragma once

#if defined(__x86_64__)
enum { FM_DW_RBX = 3, FM_DW_RBP = 6, FM_DW_RSP = 7, FM_DW_RA = 16 };
// What a called function gives back as it was, beside the stack pointer.
#define FM_DW_CALLEE_SAVED (1u << FM_DW_RBX | 1u << FM_DW_RBP | 0xfu << 12)
#else // x19, x29, sp, x30: what stands for the same
enum { FM_DW_RBX = 19, FM_DW_RBP = 29, FM_DW_RSP = 31, FM_DW_RA = 30 };
#define FM_DW_CALLEE_SAVED (0x3ffu << 19 | 1u << FM_DW_RBP)
#endif
