// SPDX-License-Identifier: Apache-2.0
#include "cli/run/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/captures/name_frames.h"
#include "cli/project/project.h"
#include "collect/capture/capture.h"
#include "format/writer.h"

void fm_traced_tell(struct fm_writer *w, const char *notes_dir, const char *why_none)
{
	char path[4200], what[64];
	snprintf(path, sizeof(path), "%s/traced", notes_dir);
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

static void tell(struct fm_writer *w, void *arg)
{
	const struct fm_traced *t = arg;
	fm_name_frames(w, NULL);
	fm_traced_tell(w, t->dir,
		       t->has_startup ? "it ran no Python that reads its start-up files" : t->no_startup.text);
}

enum fm_err fm_traced_begin(struct fm_traced *t, struct fm_capture_options *capture, struct fm_diag *diag)
{
	*t = (struct fm_traced){ 0 };
	enum fm_err err = fm_temporary_folder(t->dir, sizeof(t->dir), diag);
	if (err)
		return err;
	struct fm_startup_options wishes = { .results_dir = t->dir, .children = capture->children, .trace = true };
	t->has_startup = fm_startup_init(&t->startup, &wishes, &t->no_startup) == FM_OK;
	capture->env = t->startup.env;
	capture->has_calls = true;
	capture->at_end = tell;
	capture->at_end_arg = t;
	return FM_OK;
}

void fm_traced_end(struct fm_traced *t)
{
	fm_startup_deinit(&t->startup);
	if (t->dir[0])
		rmdir(t->dir);
}
