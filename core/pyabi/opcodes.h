// SPDX-License-Identifier: Apache-2.0
// Which of a version's instructions call something that need not be Python: specialised and
// instrumented ones included, those that only ever enter a Python function left out. Plain data,
// read by sigsafe at signal time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct fm_py_opcodes {
	uint8_t minor, first, last;
};

static const struct fm_py_opcodes fm_py_calls[] = {
	{ 8, 131, 131 },  // CALL_FUNCTION
	{ 8, 141, 142 },  // CALL_FUNCTION_KW, _EX
	{ 8, 161, 161 },  // CALL_METHOD
	{ 9, 131, 131 },  // as 3.8
	{ 9, 141, 142 },  //
	{ 9, 161, 161 },  //
	{ 10, 131, 131 }, // as 3.8
	{ 10, 141, 142 }, //
	{ 10, 161, 161 }, //
	{ 11, 22, 22 },   // CALL_ADAPTIVE
	{ 11, 64, 64 },   // PRECALL_ADAPTIVE
	{ 11, 66, 67 },   // PRECALL_BUILTIN_*
	{ 11, 72, 73 },   // PRECALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS, _NO_KW_BUILTIN_FAST
	{ 11, 76, 81 },   // PRECALL_NO_KW_*
	{ 11, 113, 113 }, // PRECALL_NO_KW_METHOD_DESCRIPTOR_O
	{ 11, 121, 121 }, // PRECALL_NO_KW_STR_1
	{ 11, 127, 127 }, // PRECALL_NO_KW_TUPLE_1
	{ 11, 141, 142 }, // PRECALL_NO_KW_TYPE_1, CALL_FUNCTION_EX
	{ 11, 166, 166 }, // PRECALL
	{ 11, 171, 171 }, // CALL
	{ 12, 29, 29 },   // CALL_BUILTIN_CLASS
	{ 12, 34, 34 },   // CALL_BUILTIN_FAST_WITH_KEYWORDS
	{ 12, 38, 48 },   // CALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS, CALL_NO_KW_*
	{ 12, 56, 56 },   // CALL_NO_KW_TYPE_1
	{ 12, 142, 142 }, // CALL_FUNCTION_EX
	{ 12, 171, 171 }, // CALL
	{ 12, 241, 241 }, // INSTRUMENTED_CALL
	{ 12, 244, 244 }, // INSTRUMENTED_CALL_FUNCTION_EX
	{ 13, 53, 54 },   // CALL, CALL_FUNCTION_EX
	{ 13, 57, 57 },   // CALL_KW
	{ 13, 165, 176 }, // CALL_BUILTIN_CLASS to CALL_NON_PY_GENERAL
	{ 13, 179, 181 }, // CALL_STR_1, _TUPLE_1, _TYPE_1
	{ 13, 244, 246 }, // INSTRUMENTED_CALL, _KW, _FUNCTION_EX
	{ 14, 4, 4 },     // CALL_FUNCTION_EX
	{ 14, 52, 52 },   // CALL
	{ 14, 55, 55 },   // CALL_KW
	{ 14, 146, 150 }, // CALL_BUILTIN_CLASS to CALL_ISINSTANCE
	{ 14, 152, 152 }, // CALL_KW_NON_PY
	{ 14, 154, 160 }, // CALL_LEN to CALL_NON_PY_GENERAL
	{ 14, 163, 165 }, // CALL_STR_1, _TUPLE_1, _TYPE_1
	{ 14, 250, 252 }, // INSTRUMENTED_CALL, _KW, _FUNCTION_EX
	{ 15, 4, 4 },     // CALL_FUNCTION_EX
	{ 15, 50, 50 },   // CALL
	{ 15, 53, 53 },   // CALL_KW
	{ 15, 147, 151 }, // CALL_BUILTIN_CLASS to CALL_EX_NON_PY_GENERAL
	{ 15, 153, 153 }, // CALL_ISINSTANCE
	{ 15, 155, 155 }, // CALL_KW_NON_PY
	{ 15, 157, 163 }, // CALL_LEN to CALL_NON_PY_GENERAL
	{ 15, 166, 168 }, // CALL_STR_1, _TUPLE_1, _TYPE_1
	{ 15, 249, 251 }, // INSTRUMENTED_CALL, _KW, _FUNCTION_EX
};

static FM_ALWAYS_INLINE bool fm_py_is_call(uint8_t minor, uint8_t opcode)
{
	for (unsigned i = 0; i < FM_ARRAY_LEN(fm_py_calls); i++)
		if (fm_py_calls[i].minor == minor && opcode >= fm_py_calls[i].first && opcode <= fm_py_calls[i].last)
			return true;
	return false;
}
