// SPDX-License-Identifier: Apache-2.0
#include "cli/project/project.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/owner.h"

#define MAX_DEPTH 40 // of folders; deeper is a loop or generated

static bool is_there(const char *folder, const char *name)
{
	char path[PATH_MAX + 64];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

bool fm_project_root(char *ret, size_t cap, const char **ret_why_not)
{
	*ret_why_not = NULL;
	char here[PATH_MAX];
	if (!getcwd(here, sizeof(here)))
		snprintf(here, sizeof(here), ".");
	snprintf(ret, cap, "%s", here);
	for (;;) {
		if (is_there(here, ".git") || is_there(here, "pyproject.toml")) {
			struct stat st;
			snprintf(ret, cap, "%s", here);
			*ret_why_not = stat(here, &st) == 0 ? fm_distrust(&st, geteuid()) : "cannot be read";
			return !*ret_why_not;
		}
		char *slash = strrchr(here, '/');
		if (!slash || slash == here)
			return false;
		*slash = 0;
	}
}

struct search {
	struct fm_project_hits *hits;
	const char *name, *below; // below: the current folder with a slash, which hits are shown relative to
	struct stat output_dir;   // zeroed = none
};

static bool is_skipped(const struct search *s, const char *name, const char *path, const struct stat *st)
{
	static const char *const skipped[] = { ".git",
					       ".fathom", // of any folder: results hold copies of the scripts that ran
					       ".hg",           ".svn",         ".venv",       ".tox",
					       ".nox",          ".eggs",        ".mypy_cache", ".ruff_cache",
					       ".pytest_cache", "node_modules", "__pycache__", ".ipynb_checkpoints" };
	for (size_t i = 0; i < FM_ARRAY_LEN(skipped); i++)
		if (!strcmp(name, skipped[i]))
			return true;
	return (st->st_dev == s->output_dir.st_dev && st->st_ino == s->output_dir.st_ino) ||
	       is_there(path, "pyvenv.cfg");
}

static void look_into(struct search *s, const char *folder, unsigned depth)
{
	DIR *dir = depth < MAX_DEPTH ? opendir(folder) : NULL;
	size_t name_len = strlen(s->name), below_len = strlen(s->below);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char path[PATH_MAX];
		struct stat st;
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		int len = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (len >= (int)sizeof(path) || lstat(path, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode)) {
			if (!is_skipped(s, entry->d_name, path, &st))
				look_into(s, path, depth + 1);
			continue;
		}
		if ((size_t)len <= name_len || strcmp(path + len - name_len, s->name) ||
		    path[len - (int)name_len - 1] != '/')
			continue;
		if (S_ISLNK(st.st_mode) && (stat(path, &st) != 0 || S_ISDIR(st.st_mode)))
			continue;
		const char *shown = strncmp(path, s->below, below_len) ? path : path + below_len;
		fm_vec_push(&s->hits->paths, fm_strdup_n(shown, strlen(shown)));
	}
	if (dir)
		closedir(dir);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void fm_project_find(struct fm_project_hits *h, const char *root, const char *name, const char *output_dir)
{
	char here[PATH_MAX];
	*h = (struct fm_project_hits){ 0 };
	if (!getcwd(here, sizeof(here) - 1))
		return;
	strcat(here, "/");
	struct search s = { .hits = h, .name = name, .below = here };
	if (!output_dir || stat(output_dir, &s.output_dir) != 0)
		memset(&s.output_dir, 0, sizeof(s.output_dir));
	look_into(&s, root, 0);
	if (h->paths.n)
		qsort(h->paths.items, h->paths.n, sizeof(*h->paths.items), compare);
}

void fm_project_hits_deinit(struct fm_project_hits *h)
{
	for (size_t i = 0; i < h->paths.n; i++)
		free(h->paths.items[i]);
	fm_vec_deinit(&h->paths);
}

const char *fm_output_dir_usual(char *ret, size_t cap)
{
	char root[PATH_MAX], here[PATH_MAX];
	const char *why_not;
	size_t n = 0;
	ret[0] = 0;
	if (fm_project_root(root, sizeof(root), &why_not) && getcwd(here, sizeof(here)) &&
	    !strncmp(here, root, strlen(root)))
		for (const char *p = here + strlen(root); *p; p++)
			if (*p == '/' && n + 4 < cap)
				n += (size_t)snprintf(ret + n, cap - n, "../");
	snprintf(ret + n, cap - n, "%s", FM_OUTPUT_DIR);
	return ret;
}
