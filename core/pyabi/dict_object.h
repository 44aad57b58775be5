// SPDX-License-Identifier: Apache-2.0
// Where CPython keeps what is in a dictionary, and an object's attributes. Linux on 64-bit
// machines, 3.8 to 3.15; offsets are from the head's end where an object is meant, for heads are
// longer in builds without a GIL (type_object.h).
#pragma once

// PyDictObject, behind its head. A dictionary with values has its keys in common with others, and
// values beside them in their order.
#define FM_PY_DICT_KEYS 16
#define FM_PY_DICT_VALUES 24
// PyModuleObject, behind its head.
#define FM_PY_MODULE_DICT 0

// PyDictKeysObject up to 3.10: a table of indices, of 1, 2, 4 or 8 bytes each as their number
// needs, and then the entries.
#define FM_PY_KEYS_38_SIZE 8 // of the table of indices
#define FM_PY_KEYS_38_N 32
#define FM_PY_KEYS_38_INDICES 40
// From 3.11 on: the logarithm of the table's bytes, and a kind.
#define FM_PY_KEYS_311_LOG2_INDEX_BYTES 9
#define FM_PY_KEYS_311_KIND 10
#define FM_PY_KEYS_311_N 24
#define FM_PY_KEYS_311_INDICES 32
#define FM_PY_KEYS_GENERAL 0 // entries have a hash, too, as all up to 3.10 do

// Attributes. Up to 3.10 the type says where an object's dictionary is. From 3.11 on it may be kept
// in words before the object, and be there only when somebody has asked for it: until then the
// values alone are, whose keys the type has.
#define FM_PY_TPFLAGS_INLINE_VALUES (1ull << 2) // 3.13+: behind the object
#define FM_PY_TPFLAGS_MANAGED_DICT (1ull << 4)  // 3.11+
#define FM_PY_TPFLAGS_UNICODE_SUBCLASS (1ull << 28)
#define FM_PY_TP_DICTOFFSET_BEHIND_FLAGS 120
#define FM_PY_VALUES_BEFORE 32     // 3.11
#define FM_PY_DICT_BEFORE 24       // 3.11 and later; in 3.12 it is the values plus one when it is odd
#define FM_PY_DICT_BEFORE_NO_GIL 8 // free-threaded
#define FM_PY_VALUES_VALID 3       // 3.13+: a byte of the values' own head
#define FM_PY_VALUES_HEAD_BYTES 8  // 3.13+
// ht_cached_keys: in a type that Python code made.
#define FM_PY_CACHED_KEYS_311 872
#define FM_PY_CACHED_KEYS_312 880 // and 3.13, 3.14
#define FM_PY_CACHED_KEYS_315 888
#define FM_PY_CACHED_KEYS_NO_GIL_MORE 16

// PyLongObject, behind its head: a number below 2^30 has one digit. Before it the count of digits,
// from 3.12 on shifted, with its sign below.
#define FM_PY_LONG_DIGIT 8
#define FM_PY_LONG_312_SHIFT 3
