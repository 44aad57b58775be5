// SPDX-License-Identifier: Apache-2.0
#include "cli/run/target.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/project/project.h"
#include "collect/capture/agent_path.h"

static char *copy(const char *s)
{
	return fm_strdup_n(s, strlen(s));
}

// The path of a program as the shell would find it, or NULL.
static char *search_path(const char *name)
{
	const char *path = getenv("PATH");
	while (path && *path) {
		const char *end = strchrnul(path, ':');
		char full[4096];
		struct stat st;
		int n = snprintf(full, sizeof(full), "%.*s/%s", (int)(end - path), path, name);
		if (n < (int)sizeof(full) && access(full, X_OK) == 0 && stat(full, &st) == 0 && S_ISREG(st.st_mode))
			return copy(full);
		path = *end ? end + 1 : end;
	}
	return NULL;
}

static void set_stem(struct fm_target *t, const char *name)
{
	const char *base = strrchr(name, '/');
	base = base ? base + 1 : name;
	snprintf(t->stem, sizeof(t->stem), "%s", base);
	char *dot = strrchr(t->stem, '.');
	if (dot && dot != t->stem && (!strcmp(dot, ".py") || !strcmp(dot, ".ipynb")))
		*dot = 0;
	if (!t->stem[0])
		snprintf(t->stem, sizeof(t->stem), "program");
}

static bool is_notebook(const char *path)
{
	size_t len = strlen(path);
	return len > 6 && !strcmp(path + len - 6, ".ipynb");
}

// A Python script by its name or its first line; anything else that may be executed is a program.
static bool is_python_script(const char *path)
{
	size_t len = strlen(path);
	if ((len > 3 && !strcmp(path + len - 3, ".py")) || (len > 4 && !strcmp(path + len - 4, ".pyz")))
		return true;
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[256] = "";
	if (!f || !fgets(line, sizeof(line), f))
		return false;
	return !strncmp(line, "#!", 2) && strstr(line, "python") != NULL;
}

// Version managers put a shell script in an interpreter's place, which starts a dozen processes on
// its way to the real one. Ask it once which that is, so that the profile is of the program and not
// of the search.
static void see_through_wrapper(struct fm_target *t)
{
	char start[2] = "", command[4200], answer[4096] = "";
	_cleanup_fclose_ FILE *f = fopen(t->python, "re");
	if (!f || fread(start, 1, 2, f) != 2 || memcmp(start, "#!", 2) || strchr(t->python, '\''))
		return;
	snprintf(command, sizeof(command), "'%s' -c 'import sys; print(sys.executable)' 2>/dev/null", t->python);
	FILE *pipe = popen(command, "re");
	if (!pipe)
		return;
	bool has_answer = fgets(answer, sizeof(answer), pipe) != NULL;
	if (pclose(pipe) != 0 || !has_answer)
		return;
	answer[strcspn(answer, "\n")] = 0;
	if (answer[0] == '/' && access(answer, X_OK) == 0) {
		free(t->python);
		t->python = copy(answer);
	}
}

// The interpreter of a virtual environment's folder, or NULL.
static char *python_of(const char *environment)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/bin/python", environment ? environment : "");
	return environment && *environment && access(path, X_OK) == 0 ? copy(path) : NULL;
}

// The interpreter's path, or NULL with a line in diag.
static char *choose_python(const char *python, struct fm_diag *diag)
{
	struct stat st;
	// An active environment is first on PATH as a rule; a shell that sets PATH anew on the way
	// here has lost that.
	char *found = python_of(python ? python : getenv("VIRTUAL_ENV"));
	if (found)
		return found;
	if (!python || !strchr(python, '/')) {
		const char *name = python ? python : "python3";
		found = search_path(name);
		if (!found)
			fm_diag_set(diag, FM_E_NOT_FOUND, "no %s on PATH; name the interpreter with --python PATH",
				    name);
		return found;
	}
	if (stat(python, &st) == 0 && S_ISDIR(st.st_mode))
		fm_diag_set(diag, FM_E_NOT_FOUND,
			    "%s is a folder without bin/python; name a virtual environment or an interpreter", python);
	else if (access(python, X_OK) != 0)
		fm_diag_set(diag, FM_E_NOT_FOUND, "cannot run the Python %s: %s", python, strerror(errno));
	else
		found = copy(python);
	return found;
}

static enum fm_err find_python(struct fm_target *t, const char *python, struct fm_diag *diag)
{
	t->python = choose_python(python, diag);
	if (!t->python)
		return FM_E_NOT_FOUND;
	see_through_wrapper(t);
	return FM_OK;
}

// A file of that name in the project, when it is the only one; FM_OK with t->found NULL when there
// is none.
static enum fm_err search_project(struct fm_target *t, const char *name, const char *output_dir, struct fm_diag *diag)
{
	char root[4096];
	const char *why_not;
	struct fm_project_hits hits = { 0 };
	// Without a project the whole of a home folder, or of the disk, could be below.
	if (name[0] == '/' || name[0] == '.' || !fm_project_root(root, sizeof(root), &why_not))
		return FM_OK;
	fm_project_find(&hits, root, name, output_dir);
	enum fm_err err = FM_OK;
	if (hits.paths.n == 1) {
		t->found = hits.paths.items[0];
		hits.paths.n = 0;
	} else if (hits.paths.n > 1) {
		struct fm_buf list = { 0 };
		for (size_t i = 0; i < hits.paths.n && list.len < 300; i++)
			fm_buf_printf(&list, "%s%s", i ? ", " : "", hits.paths.items[i]);
		err = fm_diag_set(diag, FM_E_USAGE, "%zu files are named %s; give the path of one of them: %.*s%s",
				  hits.paths.n, name, (int)FM_MIN(list.len, (size_t)380), (const char *)list.data,
				  list.len >= 300 ? ", ..." : "");
		fm_buf_deinit(&list);
	}
	fm_project_hits_deinit(&hits);
	return err;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && !strcmp(s + n - m, end);
}

enum fm_err fm_target_find(struct fm_target *t, const char *module, const char *python, const char *output_dir,
			   char **operands, int n_operands, struct fm_diag *diag)
{
	*t = (struct fm_target){ 0 };
	enum fm_err err = FM_OK;
	if (module) {
		if ((err = find_python(t, python, diag)))
			return err;
		set_stem(t, module);
		fm_vec_push(&t->argv, copy(t->python));
		fm_vec_push(&t->argv, copy("-m"));
		fm_vec_push(&t->argv, copy(module));
	} else {
		const char *name = operands[0];
		struct stat st;
		bool is_there = stat(name, &st) == 0;
		// A program on PATH comes before a file of the project, unless the name can only be
		// a script's.
		_cleanup_free_ char *program = is_there || strchr(name, '/') ? NULL : search_path(name);
		if (!is_there && (!program || ends_with(name, ".py") || ends_with(name, ".ipynb"))) {
			if ((err = search_project(t, name, output_dir, diag)))
				return err;
			if (t->found) {
				name = t->found;
				is_there = stat(name, &st) == 0;
			}
		}
		set_stem(t, name);
		if (is_there && S_ISDIR(st.st_mode)) {
			char main_py[4096];
			snprintf(main_py, sizeof(main_py), "%s/__main__.py", name);
			if (access(main_py, R_OK) != 0)
				return fm_diag_set(diag, FM_E_NOT_FOUND,
						   "%s is a folder without a __main__.py; name a script in it", name);
		} else if (is_there && access(name, R_OK) != 0 && access(name, X_OK) != 0) {
			return fm_diag_set(diag, FM_E_NOT_FOUND, "cannot read %s: %s", name, strerror(errno));
		}
		if (is_there &&
		    (S_ISDIR(st.st_mode) || is_notebook(name) || is_python_script(name) || access(name, X_OK) != 0)) {
			// What may be started by itself says by its first line which Python it
			// wants; anything else is what "python FILE" would make of it.
			struct fm_shebang shebang = { 0 };
			if (!python && S_ISREG(st.st_mode) && access(name, X_OK) == 0 &&
			    fm_shebang_read(name, &shebang) && shebang.python[0])
				python = shebang.python;
			if ((err = find_python(t, python, diag)))
				return err;
			t->script = S_ISDIR(st.st_mode) ? NULL : name;
			fm_vec_push(&t->argv, copy(t->python));
			if (shebang.option[0])
				fm_vec_push(&t->argv, copy(shebang.option));
			if ((t->is_notebook = is_notebook(name))) {
				char runner[PATH_MAX];
				if ((err = fm_package_path_find("_notebook.py", runner, sizeof(runner), diag)))
					return err;
				fm_vec_push(&t->argv, copy(runner));
			}
			fm_vec_push(&t->argv, copy(name));
		} else if (is_there) { // a program, here or by its path
			char path[4096];
			snprintf(path, sizeof(path), "%s%s", strchr(name, '/') ? "" : "./", name);
			fm_vec_push(&t->argv, copy(path));
		} else {
			if (!program)
				return fm_diag_set(diag, FM_E_NOT_FOUND,
						   "there is no file or program named %s, here or in the project",
						   name);
			fm_vec_push(&t->argv, copy(name));
		}
		operands++;
		n_operands--;
	}
	for (int i = 0; i < n_operands; i++)
		fm_vec_push(&t->argv, copy(operands[i]));
	fm_vec_push(&t->argv, NULL);
	return FM_OK;
}

void fm_target_deinit(struct fm_target *t)
{
	for (size_t i = 0; i < t->argv.n; i++)
		free(t->argv.items[i]);
	fm_vec_deinit(&t->argv);
	free(t->python);
	free(t->found);
}
