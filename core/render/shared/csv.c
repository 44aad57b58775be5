// SPDX-License-Identifier: Apache-2.0
#include "render/shared/csv.h"

#include "base/utf8.h"

void fm_csv_put(FILE *out, struct fm_str text)
{
	struct fm_buf clean = { 0 };
	if (text.len && memchr("=+-@", text.p[0], 4))
		fm_buf_u8(&clean, '\'');
	fm_utf8_clean(&clean, text);
	fputc('"', out);
	for (size_t i = 0; i < clean.len; i++) {
		if (clean.data[i] == '"')
			fputc('"', out);
		fputc(clean.data[i], out);
	}
	fputc('"', out);
	fm_buf_deinit(&clean);
}
