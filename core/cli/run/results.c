// SPDX-License-Identifier: Apache-2.0
#include "cli/run/results.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/owner.h"
#include "base/utf8.h"
#include "cli/captures/captures.h"
#include "render/render.h"
#include "serve/serve.h"

#define FILE_WIDTH 130 // room for every column of the line tables and 65 for the source

// One capture, read once for all that is made of it.
struct results {
	const struct fm_captures *captures;
	struct fm_analysis *analysis;
	struct fm_diag diag;
};

static enum fm_err print_summary(struct results *r, const char *format, struct fm_view_options view)
{
	if (strcmp(format, "text") != 0)
		putchar('\n'); // the program's last line may have no end
	enum fm_err err = fm_render_as(fm_format_find(format), r->analysis, NULL, &view, &r->diag);
	if (!err && r->captures->paths.n > 1 && !strcmp(format, "text"))
		err = fm_report_runs(stdout, r->captures, &view, &r->diag);
	return err;
}

static enum fm_err write_file(struct results *r, const char *path, const char *command, struct fm_view_options view)
{
	view.first_line = command;
	view.form = FM_TEXT_WHOLE;
	view.color = 0;
	view.utf8 = 1; // a file is read anywhere, not in this terminal
	view.width = FILE_WIDTH;
	enum fm_err err = fm_render_as(fm_format_find("text"), r->analysis, path, &view, &r->diag);
	if (err || r->captures->paths.n < 2)
		return err;
	_cleanup_fclose_ FILE *out = fm_fopen_private(path, true);
	if (!out)
		return fm_diag_set(&r->diag, FM_E_IO, "cannot write %s: %s", path, strerror(errno));
	return fm_report_runs(out, r->captures, &view, &r->diag);
}

// The viewer with the capture inside. A program without the page says so only to who asked for it.
static void leave_page(struct results *r, const char *dir, const struct fm_view_options *view, bool is_open)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/report.html", dir);
	enum fm_err err = fm_render_as(fm_format_find("html"), r->analysis, path, view, &r->diag);
	if (!err && is_open && !fm_open_in_browser(path))
		fm_say("cannot open the page: there is no display; the page is %s", path);
	if (err && (is_open || err != FM_E_UNSUPPORTED))
		fm_say("%s", r->diag.text);
}

void fm_results_tell(const char *dir, const char *command, const struct fm_view_options *view, const char *printed,
		     bool is_open)
{
	struct fm_captures captures;
	struct results r = { .captures = &captures };
	char path[4200];
	snprintf(path, sizeof(path), "%s/profile_results.txt", dir);
	_cleanup_free_ char *profile = NULL;
	enum fm_err err = fm_captures_find(&captures, dir, &r.diag);
	if (!err)
		err = fm_join_runs(&captures, &profile, &r.diag);
	if (!err)
		err = fm_render_open(profile, view, FM_ANALYSIS_STACKS | FM_ANALYSIS_CALLS, &r.analysis, &r.diag);
	if (!err && printed)
		err = print_summary(&r, printed, *view);
	if (err)
		fm_say("%s", r.diag.text);
	else if (write_file(&r, path, command, *view))
		fm_say("%s", r.diag.text);
	else if (printed)
		printf("%sAll of it is in ", strcmp(printed, "markdown") ? "" : "\n"),
			fm_utf8_print(stdout, fm_str_of(path)), putchar('\n');
	if (!err)
		leave_page(&r, dir, view, is_open);
	fm_analysis_close(r.analysis);
	fm_captures_deinit(&captures);
}
