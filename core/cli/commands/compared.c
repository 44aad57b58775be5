// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/commands.h"

#include <string.h>

#include "base/log.h"
#include "cli/options/options.h"
#include "cli/captures/captures.h"

static enum fm_err load_side(struct fm_runs *ret, const char *path, const struct fm_view_options *view,
			     struct fm_diag *diag)
{
	struct fm_captures captures;
	enum fm_err err = fm_captures_find(&captures, path, diag);
	if (!err)
		err = fm_load_runs(ret, &captures, view, diag);
	fm_captures_deinit(&captures);
	return err;
}

enum fm_err fm_sides_read(struct fm_sides *s, const char *base, const char *new, const struct fm_view_options *view,
			  struct fm_diag *diag)
{
	enum fm_err err = load_side(&s->base, base, view, diag);
	if (!err)
		err = load_side(&s->new, new, view, diag);
	if (!err)
		fm_diff_build(&s->diff, &s->base, &s->new,
			      view->detailed || !fm_runs_has_users(&s->base) || !fm_runs_has_users(&s->new));
	return err;
}

static enum fm_err load(struct fm_sides *s, const struct fm_operands *ops, const char *output_dir,
			const struct fm_view_options *view, struct fm_diag *diag)
{
	struct fm_captures dated = { 0 };
	const char *base = ops->v[0], *new = ops->n > 1 ? ops->v[1] : NULL;
	enum fm_err err = FM_OK;
	size_t len = strlen(base);
	if (!new &&len > 7 && !strcmp(base + len - 7, ".fathom"))
		err = fm_diag_set(diag, FM_E_USAGE, "%s is one capture; also name the one to compare it with", base);
	else if (!new) {
		err = fm_captures_dated(&dated, output_dir, base, diag);
		if (!err && dated.paths.n < 2)
			err = fm_diag_set(diag, FM_E_NOT_FOUND, "there is only one run of %s so far: %s", base,
					  dated.paths.items[0]);
		if (!err) {
			base = dated.paths.items[dated.paths.n - 2];
			new = dated.paths.items[dated.paths.n - 1];
		}
	}
	if (!err)
		err = fm_sides_read(s, base, new, view, diag);
	fm_captures_deinit(&dated);
	return err;
}

const char *fm_sides_cut(const struct fm_sides *s)
{
	return s->base.n_cut ? "BASE" : s->new.n_cut ? "NEW" : NULL;
}

bool fm_sides_load(struct fm_sides *ret, const struct fm_usage *usage, int argc, char **argv,
		   const struct fm_view_options *view, const char *const *output_dir, int *ret_exit)
{
	struct fm_operands ops;
	struct fm_diag diag;
	*ret = (struct fm_sides){ 0 };
	if (!fm_options_parse(usage, argc, argv, &ops, ret_exit))
		return false;
	if (!load(ret, &ops, *output_dir, view, &diag))
		return true;
	fm_say("%s", diag.text);
	fm_sides_deinit(ret);
	*ret_exit = FM_EXIT_FAILED;
	return false;
}

void fm_sides_deinit(struct fm_sides *s)
{
	fm_diff_deinit(&s->diff);
	fm_runs_deinit(&s->base);
	fm_runs_deinit(&s->new);
}
