// Where CPython keeps what an object is: the same in all of 3.8 to 3.15 with a GIL. Builds without one have other headers;
// nothing there passes the checks of collect/survivor_types.c.
#pragma once

// struct _object
#define FM_PY_OB_REFCNT 0
#define FM_PY_OB_TYPE 8
// struct _typeobject
#define FM_PY_TP_NAME 24
#define FM_PY_TP_BASICSIZE 32
#define FM_PY_TP_FLAGS 168
#define FM_PY_TYPE_BYTES 176 // up to and with tp_flags

#define FM_PY_TPFLAGS_READY (1ull << 12)
#define FM_PY_TPFLAGS_HAVE_GC (1ull << 14)
// From 3.11 on two more words lie before the collector's, for the object's dictionary and weak references. The bits meant
// nothing before.
#define FM_PY_TPFLAGS_PREHEADER (1ull << 3 | 1ull << 4)
#define FM_PY_GC_HEAD_BYTES 16
#define FM_PY_PREHEADER_BYTES 16
