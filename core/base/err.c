// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

const char *fm_err_text(enum fm_err err)
{
	switch (err) {
#define X(name, number, text) \
	case name:            \
		return text;
		FM_ERRORS(X)
#undef X
	}
	return "unknown error";
}

enum fm_err fm_diag_set(struct fm_diag *diag, enum fm_err err, const char *fmt, ...)
{
	if (diag) {
		va_list args;
		va_start(args, fmt);
		vsnprintf(diag->text, sizeof(diag->text), fmt, args);
		va_end(args);
	}
	return err;
}
