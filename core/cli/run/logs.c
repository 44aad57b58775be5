// SPDX-License-Identifier: Apache-2.0
#include "cli/run/results.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "format/writer.h"

static const char *const level_names[FM_N_LOG_LEVELS] = { "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL" };

static void count_line(const char *line, struct fm_log_counts *ret)
{
	const char *level = line[0] == ' ' ? NULL : strchr(line, ' ');
	for (unsigned i = 0; level && i < FM_N_LOG_LEVELS; i++) {
		size_t len = strlen(level_names[i]);
		if (!strncmp(level + 1, level_names[i], len) && level[1 + len] == ' ')
			ret->n[i]++;
	}
}

bool fm_logs_count(const char *path, struct fm_log_counts *ret)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	*ret = (struct fm_log_counts){ 0 };
	if (!f)
		return false;
	while (getline(&line, &cap, f) > 0)
		count_line(line, ret);
	return true;
}

void fm_logs_tell(struct fm_writer *w, const char *results_dir, const char *why_not)
{
	char path[4200], key[32], value[24];
	struct fm_log_counts counts;
	snprintf(path, sizeof(path), "%s/logs.log", results_dir);
	if (!fm_logs_count(path, &counts)) {
		fm_writer_coverage(w, FM_STR_LIT("warnings and log records"), fm_str_of(why_not));
		return;
	}
	fm_writer_meta(w, "logs_path", fm_str_of(path));
	for (unsigned i = 0; i < FM_N_LOG_LEVELS; i++) {
		int len = snprintf(key, sizeof(key), "logs_count_%s", level_names[i]);
		for (int at = (int)strlen("logs_count_"); at < len; at++)
			key[at] = (char)tolower(key[at]);
		snprintf(value, sizeof(value), "%llu", (unsigned long long)counts.n[i]);
		fm_writer_meta(w, key, fm_str_of(value));
	}
}
