// SPDX-License-Identifier: Apache-2.0
// What a CPython's image exports, and what that tells. No version is guessed: a function that a
// release introduced tells.
#pragma once

#define FM_PY_EXPORT_RUNTIME "_PyRuntime"
#define FM_PY_EXPORT_CODE_TYPE "PyCode_Type"
#define FM_PY_EXPORT_VERSION "Py_Version" // since 3.11: its hexversion
#define FM_PY_EXPORT_EVALUATOR "_PyEval_EvalFrameDefault"

// Up to 3.10, by the youngest function that is there.
static const struct {
	unsigned minor;
	const char *name;
} fm_py_introduced[] = {
	{ 10, "PyModule_AddObjectRef" },
	{ 9, "PyFrame_GetCode" },
	{ 8, "PyCode_NewWithPosOnlyArgs" },
};
#define FM_PY_OLDER_MINOR 7u
#define FM_PY_HEXVERSION_OF(minor) (0x03000000u | (minor) << 16)
