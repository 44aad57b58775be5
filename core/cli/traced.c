#include "cli/traced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "format/writer.h"

void fm_traced_tell(struct fm_writer *w, const char *results_dir, const char *why_none)
{
	char path[4200], what[64];
	snprintf(path, sizeof(path), "%s/traced", results_dir);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL, *reason = NULL; // of the first that failed
	size_t cap = 0;
	unsigned n = 0, n_failed = 0;
	for (ssize_t len; f && (len = getline(&line, &cap, f)) > 0; n++) {
		if (len == 1) // nothing to complain of
			continue;
		line[len - 1] = 0;
		if (n_failed++ == 0)
			reason = strdup(line);
	}
	if (n == 0)
		fm_writer_coverage(w, FM_STR_LIT("calls: none was traced"), fm_str_of(why_none));
	else if (n_failed == n)
		fm_writer_coverage(w, FM_STR_LIT("calls: none was traced"), fm_str_of(reason ? reason : ""));
	else if (n_failed) {
		snprintf(what, sizeof(what), "the calls of %u of %u Pythons", n_failed, n);
		fm_writer_coverage(w, fm_str_of(what), fm_str_of(reason ? reason : ""));
	}
	unlink(path);
}
