// SPDX-License-Identifier: Apache-2.0
// What the compiler can be told, under one name each. Includes nothing.
#pragma once

#define FM_MUST_CHECK __attribute__((warn_unused_result))
#define FM_PRINTF(fmt_idx, arg_idx) __attribute__((format(printf, fmt_idx, arg_idx)))
#define FM_NORETURN __attribute__((noreturn))
// Of a declaration: the variable is in this library, and is read without asking where.
#define FM_HIDDEN __attribute__((visibility("hidden")))
// Of a function that others find in this library by its name.
#define FM_EXPORT __attribute__((visibility("default")))
#define FM_ALWAYS_INLINE inline __attribute__((always_inline))
#define FM_LIKELY(x) __builtin_expect(!!(x), 1)
#define FM_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define FM_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define FM_MIN(a, b) ((a) < (b) ? (a) : (b))
#define FM_MAX(a, b) ((a) > (b) ? (a) : (b))
// As comparison functions answer: below 0, 0, above 0.
#define FM_ORDER(a, b) (((a) > (b)) - ((a) < (b)))
