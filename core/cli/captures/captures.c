// SPDX-License-Identifier: Apache-2.0
#include "cli/captures/captures.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "render/render.h"
#include "render/shared/compare.h"

#define SUFFIX ".fathom"
#define MAX_NAMED 3 // in a message

static void push_copy(struct fm_captures *c, const char *path)
{
	fm_vec_push(&c->paths, fm_strdup_n(path, strlen(path)));
}

static bool push_if_there(struct fm_captures *c, const char *path)
{
	if (access(path, F_OK) != 0)
		return false;
	push_copy(c, path);
	return true;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// A folder of captures that are not runs of one program, as tests leave it: a single one is meant, of
// several one has to be named.
static enum fm_err find_others(struct fm_captures *c, const char *path, int len, struct fm_diag *diag)
{
	struct fm_captures found = { 0 };
	struct fm_buf names = { 0 };
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		size_t n = strlen(entry->d_name);
		if (n > strlen(SUFFIX) && !strcmp(entry->d_name + n - strlen(SUFFIX), SUFFIX))
			push_copy(&found, entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (found.paths.n)
		qsort(found.paths.items, found.paths.n, sizeof(*found.paths.items), compare_names);
	for (size_t i = 0; i < FM_MIN(found.paths.n, (size_t)MAX_NAMED); i++)
		fm_buf_printf(&names, "%s%.*s/%s", i ? ", " : "", len, path, found.paths.items[i]);
	if (found.paths.n > MAX_NAMED)
		fm_buf_printf(&names, " and %zu more", found.paths.n - MAX_NAMED);
	enum fm_err err = FM_OK;
	if (found.paths.n == 1)
		fm_vec_push(&c->paths, fm_strdup_n((const char *)names.data, names.len));
	else if (found.paths.n)
		err = fm_diag_set(diag, FM_E_NOT_FOUND, "%s holds %zu captures; name one of them: %.*s", path,
				  found.paths.n, (int)names.len, (const char *)names.data);
	else
		err = fm_diag_set(diag, FM_E_NOT_FOUND,
				  "%s is a folder without a profile.fathom; name a capture or the "
				  "results folder of one run",
				  path);
	fm_buf_deinit(&names);
	fm_captures_deinit(&found);
	return err;
}

enum fm_err fm_captures_find(struct fm_captures *c, const char *path, struct fm_diag *diag)
{
	*c = (struct fm_captures){ 0 };
	struct stat st;
	if (stat(path, &st) != 0 && errno == ENOENT)
		return fm_diag_set(
			diag, FM_E_NOT_FOUND,
			"there is no %s; name a capture (such as profile.fathom) or the results folder of a run", path);
	if (stat(path, &st) != 0)
		return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot open %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		char *capture;
		enum fm_err err = fm_foreign_capture(path, &capture, diag);
		if (!err)
			fm_vec_push(&c->paths, capture);
		return err;
	}
	char file[4200];
	int len = (int)strlen(path);
	while (len > 1 && path[len - 1] == '/') // as completion by the shell leaves it
		len--;
	snprintf(file, sizeof(file), "%.*s/profile.fathom", len, path);
	if (push_if_there(c, file))
		return FM_OK;
	do
		snprintf(file, sizeof(file), "%.*s/profile_%zu.fathom", len, path, c->paths.n + 1);
	while (push_if_there(c, file));
	return c->paths.n ? FM_OK : find_others(c, path, len, diag);
}

enum fm_err fm_captures_find_one(const char *path, char **ret, struct fm_diag *diag)
{
	struct fm_captures c;
	enum fm_err err = fm_captures_find(&c, path, diag);
	if (!err)
		err = fm_join_runs(&c, ret, diag);
	fm_captures_deinit(&c);
	return err;
}

enum fm_err fm_captures_dated(struct fm_captures *c, const char *output_dir, const char *name, struct fm_diag *diag)
{
	*c = (struct fm_captures){ 0 };
	const char *base = strrchr(name, '/');
	base = base ? base + 1 : name;
	size_t len = strlen(base);
	if (len > 3 && !strcmp(base + len - 3, ".py"))
		len -= 3;
	else if (len > 6 && !strcmp(base + len - 6, ".ipynb"))
		len -= 6;
	char folder[4096];
	snprintf(folder, sizeof(folder), "%s/%.*s", output_dir, (int)len, base);
	DIR *dir = opendir(folder);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char path[4500];
		struct fm_captures inside;
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (fm_captures_find(&inside, path, NULL) == FM_OK)
			push_copy(c, path);
		fm_captures_deinit(&inside);
	}
	if (dir)
		closedir(dir);
	if (!c->paths.n)
		return fm_diag_set(diag, FM_E_NOT_FOUND,
				   "no runs of %.*s in %s; 'fathom run' keeps them there, or name the "
				   "folder with --output-dir",
				   (int)len, base, output_dir);
	qsort(c->paths.items, c->paths.n, sizeof(*c->paths.items), compare_names); // dates sort as text
	return FM_OK;
}

void fm_captures_deinit(struct fm_captures *c)
{
	for (size_t i = 0; i < c->paths.n; i++)
		free(c->paths.items[i]);
	fm_vec_deinit(&c->paths);
}

enum fm_err fm_load_runs(struct fm_runs *ret, const struct fm_captures *captures, const struct fm_view_options *options,
			 struct fm_diag *diag)
{
	for (size_t i = 0; i < captures->paths.n; i++) {
		struct fm_analysis *a;
		enum fm_err err = fm_render_open(captures->paths.items[i], options, FM_ANALYSIS_STACKS, &a, diag);
		if (err) {
			fm_runs_deinit(ret);
			return err;
		}
		fm_compare_add(ret, a);
		fm_analysis_close(a);
	}
	return FM_OK;
}

enum fm_err fm_report_runs(FILE *out, const struct fm_captures *captures, const struct fm_view_options *options,
			   struct fm_diag *diag)
{
	struct fm_runs runs = { 0 };
	enum fm_err err = fm_load_runs(&runs, captures, options, diag);
	if (err)
		return err;
	fm_compare_repeat(out, &runs, options);
	fm_runs_deinit(&runs);
	return FM_OK;
}
