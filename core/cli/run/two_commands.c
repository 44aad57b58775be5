// SPDX-License-Identifier: Apache-2.0
#include "cli/run/two_commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "format/redact.h"
#include "render/shared/label.h"

static enum fm_err wrong(struct fm_diag *diag, const char *what)
{
	return fm_diag_set(diag, FM_E_USAGE, "%s; 'fathom compare --help' has examples", what);
}

static enum fm_err split(struct fm_two_commands *t, const struct fm_operands *ops, struct fm_diag *diag)
{
	int at = -1, n_dashes = 0;
	for (int i = 0; i < ops->n; i++)
		if (!strcmp(ops->v[i], "--")) {
			at = i;
			n_dashes++;
		}
	if (n_dashes == 0)
		return wrong(diag, "there is only one command: give the other one after a second --, or a state of the "
				   "repository with --base-ref");
	if (n_dashes > 1)
		return wrong(diag, "it is not clear which -- is between the commands: give them with --base 'COMMAND' "
				   "and --head 'COMMAND'");
	if (at == 0 || at == ops->n - 1)
		return wrong(diag, "there is a command on only one side of --");
	ops->v[at] = NULL;
	t->argv[FM_BASE] = ops->v;
	t->argv[FM_HEAD] = ops->v + at + 1;
	return FM_OK;
}

static void take_shell(struct fm_two_commands *t, enum fm_side side, const char *command)
{
	static char sh[] = "/bin/sh", option[] = "-c";
	char *const words[] = { sh, option, (char *)command, NULL };
	memcpy(t->shells[side], words, sizeof(words));
	t->argv[side] = t->shells[side];
}

enum fm_err fm_two_commands_take(struct fm_two_commands *t, const struct fm_two_words *words,
				 const struct fm_operands *ops, struct fm_diag *diag)
{
	*t = (struct fm_two_commands){ .has_shells = words->base || words->head };
	if (ops->n > 0 && t->has_shells)
		return wrong(diag, "give the commands with --base and --head, or after --, not both");
	if (words->base_ref && t->has_shells)
		return wrong(diag, "with --base-ref, give one command, after --");
	if (t->has_shells && !(words->base && words->head))
		return wrong(diag, "--base and --head belong together");
	if (!ops->n && !t->has_shells)
		return wrong(diag, words->base_ref ? "give the command to run after --" : "name the two commands");
	if (t->has_shells) {
		take_shell(t, FM_BASE, words->base);
		take_shell(t, FM_HEAD, words->head);
		return FM_OK;
	}
	if (!words->base_ref)
		return split(t, ops, diag);
	t->argv[FM_BASE] = t->argv[FM_HEAD] = ops->v;
	return FM_OK;
}

void fm_two_commands_find_program(struct fm_two_commands *t, const char *base_folder)
{
	char there[8400];
	_cleanup_free_ char *cwd = getcwd(NULL, 0);
	char *first = t->argv[FM_BASE][0];
	if (!strchr(first, '/') || first[0] == '/' || !cwd ||
	    snprintf(there, sizeof(there), "%s/%s", base_folder, first) >= (int)sizeof(there))
		return;
	if (access(there, X_OK) == 0 || access(first, X_OK) != 0 ||
	    snprintf(t->program, sizeof(t->program), "%s/%s", cwd, first) >= (int)sizeof(t->program))
		return;
	size_t n = 0;
	while (t->argv[FM_BASE][n])
		n++;
	char **words = fm_alloc((n + 1) * sizeof(*words)); // for as long as the program runs
	memcpy(words, t->argv[FM_BASE], n * sizeof(*words));
	words[0] = t->program;
	t->argv[FM_BASE] = words;
}

void fm_two_commands_name(const struct fm_two_commands *t, enum fm_side side, const struct fm_redact *redact,
			  struct fm_buf *ret)
{
	char *const *words = t->has_shells ? &t->shells[side][2] : t->argv[side];
	_cleanup_(fm_buf_deinit) struct fm_buf joined = { 0 };
	_cleanup_(fm_buf_deinit) struct fm_buf masked = { 0 };
	for (char *const *word = words; *word; word++)
		fm_buf_bytes(&joined, *word, strlen(*word) + (word[1] != NULL));
	struct fm_str text = { (const char *)joined.data, (uint32_t)joined.len };
	if (redact) {
		fm_redact_command(redact, text, &masked);
		text = (struct fm_str){ (const char *)masked.data, (uint32_t)masked.len };
	}
	if (t->has_shells)
		fm_buf_bytes(ret, text.p, text.len);
	else
		fm_label_command(ret, text);
}

static struct fm_str script_name(const char *word)
{
	const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word, *dot = strrchr(name, '.');
	return dot && !strcmp(dot, ".py") ? fm_str_of(name) : FM_STR_LIT("");
}

bool fm_two_commands_renamed(const struct fm_two_commands *t, struct fm_str *ret_base, struct fm_str *ret_head)
{
	char *const *base = t->argv[FM_BASE], *const *head = t->argv[FM_HEAD];
	unsigned n_differ = 0;
	for (; *base && *head; base++, head++) {
		struct fm_str of_base = script_name(*base), of_head = script_name(*head);
		if (!of_base.len || !of_head.len || fm_str_eq(of_base, of_head))
			continue;
		*ret_base = of_base;
		*ret_head = of_head;
		n_differ++;
	}
	return n_differ == 1 && !*base && !*head;
}
