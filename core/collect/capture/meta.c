// SPDX-License-Identifier: Apache-2.0
#include "collect/capture/meta.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "format/writer.h"

void fm_meta_uint(struct fm_writer *w, const char *key, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	fm_writer_meta(w, key, fm_str_of(text));
}

void fm_meta_origin(struct fm_writer *w)
{
	char text[256];
	time_t now = time(NULL);
	struct tm utc;
	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	fm_writer_meta(w, "started", fm_str_of(text));
	if (gethostname(text, sizeof(text)) == 0)
		fm_writer_meta(w, "host", fm_str_of(text));
	fm_writer_meta(w, "fathom_version", fm_str_of(FM_VERSION));
	fm_writer_meta(w, "clock", FM_STR_LIT("monotonic"));
}
