// SPDX-License-Identifier: Apache-2.0
#include "cli/run/nb_cells.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "format/writer.h"

bool fm_cells_tell(struct fm_writer *w, const char *results_dir)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/cells.tsv", results_dir);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	struct fm_buf rows = { 0 };
	if (!f || getline(&line, &cap, f) < 0) // the heading
		return false;
	for (ssize_t len; (len = getline(&line, &cap, f)) > 0;)
		fm_buf_bytes(&rows, line, (size_t)len);
	if (rows.len)
		fm_writer_meta(w, "notebook_cells", (struct fm_str){ (char *)rows.data, (uint32_t)rows.len });
	fm_buf_deinit(&rows);
	return true;
}
