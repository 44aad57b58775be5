// SPDX-License-Identifier: Apache-2.0
#include "render/shared/xml.h"

#include "base/utf8.h"

void fm_xml_put(FILE *out, struct fm_str text)
{
	struct fm_buf clean = { 0 };
	fm_utf8_clean(&clean, text);
	for (size_t i = 0; i < clean.len; i++) {
		switch (clean.data[i]) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			putc_unlocked(clean.data[i], out);
		}
	}
	fm_buf_deinit(&clean);
}
