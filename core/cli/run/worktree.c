// SPDX-License-Identifier: Apache-2.0
#include "cli/run/worktree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "base/utf8.h"

// What a call of git said: its output without the last newline, and of its errors the last line.
struct said {
	char out[4096];
	struct fm_diag error;
};

static _Noreturn void exec_git(const char *const *argv, const char *folder, const int pipes[2])
{
	// In a group of its own, so that Ctrl-C at the terminal does not end a checkout halfway, nor
	// its removal.
	setpgid(0, 0);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	dup2(null, STDIN_FILENO);
	dup2(pipes[0], STDOUT_FILENO);
	dup2(pipes[1], STDERR_FILENO);
	setenv("GIT_TERMINAL_PROMPT", "0", 1);
	setenv("GIT_SSH_COMMAND", "ssh -o BatchMode=yes", 0); // nobody could answer what ssh asks
	setenv("LC_ALL", "C", 1);
	if (folder && chdir(folder) != 0)
		_exit(127);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

// The last line that is not empty, without what would drive a terminal.
static void take_last_line(FILE *from, struct fm_diag *ret)
{
	char line[300];
	ret->text[0] = 0;
	rewind(from);
	while (fgets(line, sizeof(line), from)) {
		size_t len = strcspn(line, "\n");
		struct fm_buf clean = { 0 };
		fm_utf8_clean(&clean, (struct fm_str){ line, (uint32_t)len });
		if (len)
			snprintf(ret->text, sizeof(ret->text), "%s", (const char *)clean.data);
		fm_buf_deinit(&clean);
	}
}

// Runs git with these words, NULL-terminated, in `folder` (NULL: here). False: it did not end well.
static bool git(const char *const *argv, const char *folder, struct said *ret)
{
	*ret = (struct said){ 0 };
	_cleanup_fclose_ FILE *out = tmpfile(), *errors = tmpfile();
	if (!out || !errors) {
		fm_diag_set(&ret->error, FM_E_IO, "cannot make a temporary file: %m");
		return false;
	}
	int status, pipes[2] = { fileno(out), fileno(errors) };
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		exec_git(argv, folder, pipes);
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			pid = -1;
	if (pid < 0) {
		fm_diag_set(&ret->error, FM_E_REFUSED, "cannot start git: %m");
		return false;
	}
	rewind(out);
	size_t n = fread(ret->out, 1, sizeof(ret->out) - 1, out);
	while (n && ret->out[n - 1] == '\n')
		n--;
	ret->out[n] = 0;
	take_last_line(errors, &ret->error);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		fm_diag_set(&ret->error, FM_E_NOT_FOUND, "there is no git on PATH");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#define GIT(folder, ret, ...) git((const char *const[]){ "git", __VA_ARGS__, NULL }, folder, ret)

enum fm_err fm_worktree_root(char *ret, size_t cap, struct fm_diag *diag)
{
	struct said said;
	if (!GIT(NULL, &said, "rev-parse", "--show-toplevel"))
		return fm_diag_set(diag, FM_E_NOT_FOUND, "%s", said.error.text);
	snprintf(ret, cap, "%s", said.out);
	return FM_OK;
}

// Asked for as data: a name that begins with a dash is no option.
static enum fm_err resolve(const char *ref, char *ret, size_t cap, struct fm_diag *diag)
{
	char commit[300];
	struct said said;
	if (snprintf(commit, sizeof(commit), "%s^{commit}", ref) >= (int)sizeof(commit) ||
	    !GIT(NULL, &said, "rev-parse", "--verify", "--quiet", "--end-of-options", commit))
		return fm_diag_set(diag, FM_E_NOT_FOUND,
				   "git has no commit '%.100s'; in a shallow clone, fetch it first: git fetch --depth "
				   "1 origin NAME, then use FETCH_HEAD",
				   ref);
	if (snprintf(ret, cap, "%s", said.out) >= (int)cap)
		return fm_diag_set(diag, FM_E_CORRUPT, "git's answer is not a commit");
	return FM_OK;
}

static enum fm_err check_out(struct fm_worktree *w, const char *commit, const char *ref, struct fm_diag *diag)
{
	struct said said;
	char modules[4300];
	snprintf(modules, sizeof(modules), "%s/.gitmodules", w->folder);
	if (!GIT(NULL, &said, "worktree", "add", "--detach", "--force", w->folder, commit))
		return fm_diag_set(diag, FM_E_REFUSED, "cannot check out %.100s: %s", ref, said.error.text);
	if (access(modules, F_OK) == 0 && !GIT(w->folder, &said, "submodule", "update", "--init", "--recursive"))
		return fm_diag_set(diag, FM_E_REFUSED, "cannot check out the submodules of %.100s: %s", ref,
				   said.error.text);
	return FM_OK;
}

enum fm_err fm_worktree_add(struct fm_worktree *w, const char *ref, const char *folder, struct fm_diag *diag)
{
	char commit[100];
	struct said prefix, brief;
	struct fm_diag why;
	*w = (struct fm_worktree){ 0 };
	enum fm_err err = fm_worktree_root(w->root, sizeof(w->root), &why);
	if (err)
		return fm_diag_set(diag, err, "--base-ref is for a git repository: %.200s", why.text);
	if ((err = resolve(ref, commit, sizeof(commit), diag)))
		return err;
	snprintf(w->folder, sizeof(w->folder), "%s", folder);
	err = check_out(w, commit, ref, diag);
	if (!err && !GIT(NULL, &prefix, "rev-parse", "--show-prefix"))
		err = fm_diag_set(diag, FM_E_REFUSED, "%s", prefix.error.text);
	if (!err) {
		snprintf(w->here, sizeof(w->here), "%s/%s", w->folder, prefix.out);
		snprintf(w->commit, sizeof(w->commit), "%.12s",
			 GIT(NULL, &brief, "rev-parse", "--short", commit) ? brief.out : commit);
	}
	if (!err && access(w->here, X_OK) != 0)
		err = fm_diag_set(diag, FM_E_NOT_FOUND, "%.100s has no folder %.200s", ref, prefix.out);
	if (err)
		fm_worktree_remove(w);
	return err;
}

void fm_worktree_remove(struct fm_worktree *w)
{
	struct said said;
	if (w->folder[0]) // twice: also one that git locked while it was made
		(void)!GIT(w->root, &said, "worktree", "remove", "--force", "--force", w->folder);
	w->folder[0] = 0;
}
