// SPDX-License-Identifier: Apache-2.0
// Where CPython keeps what an object is: the same in all of 3.8 to 3.15, but that builds without a
// GIL have longer heads and no links of the collector's before an object.
#pragma once

#include <stddef.h>

struct fm_py_type_layout {
	// struct _object. A count of references takes the whole word, or half a word and the rest
	// of another.
	size_t ob_type, head_bytes;
	// struct _typeobject
	size_t tp_name, tp_basicsize, tp_flags, type_bytes; // type_bytes: up to and with tp_flags
	size_t gc_head_bytes;
};

static const struct fm_py_type_layout fm_py_type_layouts[2] = {
	{ .ob_type = 8,
	  .head_bytes = 16,
	  .tp_name = 24,
	  .tp_basicsize = 32,
	  .tp_flags = 168,
	  .type_bytes = 176,
	  .gc_head_bytes = 16 },
	// free-threaded
	{ .ob_type = 24,
	  .head_bytes = 32,
	  .tp_name = 40,
	  .tp_basicsize = 48,
	  .tp_flags = 184,
	  .type_bytes = 192,
	  .gc_head_bytes = 0 },
};
#define FM_PY_HEAD_MAX_BYTES 32
#define FM_PY_TYPE_MAX_BYTES 192

#define FM_PY_OB_REFCNT 0
// Free-threaded: 32 bits of the owner's references, and a word of everybody else's, above two bits
// of state.
#define FM_PY_OB_REF_LOCAL 12
#define FM_PY_OB_REF_SHARED 16
#define FM_PY_REF_SHARED_SHIFT 2

#define FM_PY_TPFLAGS_READY (1ull << 12)
#define FM_PY_TPFLAGS_HAVE_GC (1ull << 14)
// From 3.11 on two more words lie before the collector's, for the object's dictionary and weak
// references. The bits meant nothing before.
#define FM_PY_TPFLAGS_PREHEADER (1ull << 3 | 1ull << 4)
#define FM_PY_PREHEADER_BYTES 16
