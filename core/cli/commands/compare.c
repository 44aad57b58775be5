// SPDX-License-Identifier: Apache-2.0
// fathom compare: two commands, or one in two states of a repository, run in turns in one job, and
// what got slower. A gate for CI, as check is one for captures that are there.
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/owner.h"
#include "cli/commands/commands.h"
#include "cli/options/groups.h"
#include "cli/options/options.h"
#include "cli/project/project.h"
#include "cli/run/apart.h"
#include "cli/run/instructions.h"
#include "cli/run/pairs.h"
#include "cli/run/two_commands.h"
#include "cli/run/worktree.h"
#include "render/shared/comparison.h"

// What the command line says. A program runs one command once.
static struct {
	struct fm_capture_flags flags;
	struct fm_view_options view;
	struct fm_text_flags text;
	const char *base, *head, *base_ref;
	const char *metric, *markdown, *json, *junit, *keep;
	double max_slowdown, max_growth;
	bool is_for_github;
	uint64_t n_runs;
} o = { .flags = FM_CAPTURE_FLAGS_DEFAULT, .metric = "cpu", .max_slowdown = 5, .max_growth = -1, .n_runs = 10 };

static const struct fm_option options[] = {
	{ "runs", 'n', FM_OPT_UINT, &o.n_runs, "N", "number of runs of each side, at least 6 (default 10)" },
	{ "base-ref", 0, FM_OPT_TEXT, &o.base_ref, "GITREF",
	  "the base is this commit, branch or tag of the git repository, in a temporary checkout; the head is the "
	  "working tree" },
	{ "base", 0, FM_OPT_TEXT, &o.base, "COMMAND", "the base command as one argument, which sh runs; needs --head" },
	{ "head", 0, FM_OPT_TEXT, &o.head, "COMMAND", "the head command as one argument, which sh runs" },
	{ "max-slowdown", 0, FM_OPT_REAL, &o.max_slowdown, "PCT", "how much slower the head may be (default 5%)" },
	{ "max-growth", 0, FM_OPT_REAL, &o.max_growth, "PCT",
	  "how much more memory (peak RAM) the head may use (default: no limit)" },
	{ "metric", 0, FM_OPT_CHOICE, &o.metric, "cpu|wall|instructions",
	  "what --max-slowdown limits: CPU time (default), wall time, or instructions if the machine counts them" },
	{ "markdown", 0, FM_OPT_OPTIONAL_TEXT, &o.markdown, "FILE",
	  "Markdown for the summary of a CI step or a comment: into FILE, or instead of the text" },
	{ "json", 0, FM_OPT_OPTIONAL_TEXT, &o.json, "FILE",
	  "JSON, schema fathom.compare/1: into FILE, or instead of the text" },
	{ "junit", 0, FM_OPT_TEXT, &o.junit, "FILE", "JUnit XML, for CI systems that show tests" },
	{ "github", 0, FM_OPT_FLAG, &o.is_for_github, NULL,
	  "lines on standard error that GitHub shows beside the source" },
	{ "keep", 0, FM_OPT_TEXT, &o.keep, "DIR",
	  "keep the captures in DIR/base and DIR/head, for fathom diff and view (default: remove them)" },
	{ "rate", 'r', FM_OPT_UINT, &o.flags.rate_hz, "HZ", "samples per second of CPU time (default 1000)" },
	FM_CAPTURE_OPTIONS(&o.flags),
	FM_MEMORY_OPTIONS(&o.flags,
			  "also record the memory of functions and lines: sampled, or =exact (default: time only)"),
	FM_REDACT_OPTIONS(&o.flags),
	{ "detailed", 0, FM_OPT_FLAG, &o.view.detailed, NULL, "include libraries and native functions" },
	FM_TEXT_OPTIONS(&o.text, "rows in each table (default 10)"),
	{ 0 },
};
// What the project may settle: how to capture.
static const struct fm_option settled[] = {
	{ "rate", 0, FM_OPT_UINT, &o.flags.rate_hz, NULL, NULL },
	{ "redact", 0, FM_OPT_FLAG, &o.flags.is_redacted, NULL, NULL },
	{ "redact-also", 0, FM_OPT_TEXT, &o.flags.redact_also, NULL, NULL },
	FM_CAPTURE_OPTIONS(&o.flags),
	{ 0 },
};
static const struct fm_usage usage = {
	.command = "compare",
	.operands = "-- BASE_COMMAND -- HEAD_COMMAND | --base-ref GITREF -- COMMAND",
	.about = "Run two commands, or one command in two states of a git repository, in turns and in random order, "
		 "and report what got slower, with 95% intervals. Exit code 1 if the head is slower by more than the "
		 "limit and chance does not explain it. If a command contains a --, give both with --base and --head.",
	.options = options,
	.examples = "  fathom compare -- python old.py -- python new.py\n"
		    "  fathom compare --base-ref origin/main -- python bench.py\n"
		    "  fathom compare --base-ref HEAD --runs 20 --max-slowdown 2% -- python -m pytest -q tests/perf\n"
		    "  fathom compare --base 'tool -- a' --head 'tool -- b'\n"
		    "  fathom compare --base-ref origin/main --github --junit perf.xml --markdown=perf.md -- python "
		    "bench.py\n",
	.stop_at_first_operand = true,
	.max_operands = UINT_MAX,
};

// One comparison, and what has to go with it.
struct comparing {
	struct fm_pairs pairs;
	struct fm_worktree tree;
	struct fm_sides sides;
	struct fm_comparison result;
	char dir[4096]; // where everything is; "" = nothing is there yet
	char side_dirs[FM_N_SIDES][4200];
	char root[4096]; // of the repository, else the current folder
	struct fm_two_commands commands;
	struct fm_diag doubt; // what speaks against the result; "" = nothing
	struct fm_buf names[FM_N_SIDES];
};

static enum fm_err check_options(struct fm_diag *diag)
{
	if (o.n_runs < FM_PAIRED_LEAST || o.n_runs > FM_PAIRED_MOST)
		return fm_diag_set(
			diag, FM_E_USAGE,
			"--runs must be from %u to %u: with fewer pairs, no difference is significant at 95%%",
			FM_PAIRED_LEAST, FM_PAIRED_MOST);
	if (o.markdown && !*o.markdown && o.json && !*o.json)
		return fm_diag_set(
			diag, FM_E_USAGE,
			"--markdown and --json both write to standard output; give one of them a file: --json=FILE");
	if (o.base_ref && !*o.base_ref)
		return fm_diag_set(diag, FM_E_USAGE, "--base-ref wants a commit, a branch or a tag");
	return FM_OK;
}

static enum fm_err make_folder(const char *path, struct fm_diag *diag)
{
	if (mkdir(path, FM_PRIVATE_FOLDER) == 0)
		return FM_OK;
	return fm_diag_set(diag, FM_E_IO, "cannot make the folder %s: %s", path,
			   errno == EEXIST ? "it already exists, with the captures kept last" : strerror(errno));
}

static enum fm_err make_folders(struct comparing *c, struct fm_diag *diag)
{
	static const char *const names[] = { [FM_BASE] = "base", [FM_HEAD] = "head" };
	char real[PATH_MAX];
	enum fm_err err = FM_OK;
	if (o.keep && mkdir(o.keep, FM_PRIVATE_FOLDER) != 0 && errno != EEXIST)
		return fm_diag_set(diag, FM_E_IO, "cannot make the folder %s: %s", o.keep, strerror(errno));
	if ((err = fm_temporary_folder(c->dir, sizeof(c->dir), diag)))
		return err;
	const char *root = realpath(o.keep ? o.keep : c->dir, real);
	if (!root)
		return fm_diag_set(diag, FM_E_IO, "cannot find %s: %s", o.keep ? o.keep : c->dir, strerror(errno));
	for (unsigned side = 0; side < FM_N_SIDES && !err; side++) {
		snprintf(c->side_dirs[side], sizeof(c->side_dirs[side]), "%s/%s", root, names[side]);
		err = make_folder(c->side_dirs[side], diag);
	}
	return err;
}

static enum fm_err prepare(struct comparing *c, struct fm_diag *diag)
{
	char folder[4200];
	enum fm_err err = make_folders(c, diag);
	snprintf(folder, sizeof(folder), "%s/checkout", c->dir);
	if (!err && o.base_ref)
		err = fm_worktree_add(&c->tree, o.base_ref, folder, diag);
	if (err)
		return err;
	if (o.base_ref) {
		fm_two_commands_find_program(&c->commands, c->tree.here);
		snprintf(c->root, sizeof(c->root), "%s", c->tree.root);
		fm_buf_printf(&c->names[FM_BASE], "%s (%s)", o.base_ref, c->tree.commit);
		fm_buf_str(&c->names[FM_HEAD], "the working tree");
	} else {
		fm_two_commands_name(&c->commands, FM_BASE, c->pairs.capture->redact, &c->names[FM_BASE]);
		fm_two_commands_name(&c->commands, FM_HEAD, c->pairs.capture->redact, &c->names[FM_HEAD]);
		if (fm_worktree_root(c->root, sizeof(c->root), NULL) && !getcwd(c->root, sizeof(c->root)))
			c->root[0] = 0;
	}
	for (unsigned side = 0; side < FM_N_SIDES; side++)
		c->pairs.sides[side] = (struct fm_pairs_side){
			.argv = c->commands.argv[side],
			.folder = side == FM_BASE && o.base_ref ? c->tree.here : NULL,
			.dir = c->side_dirs[side],
		};
	return FM_OK;
}

// An installed package that leads into the working tree is the head's on both sides.
static void look_for_strays(struct comparing *c)
{
	size_t root = strlen(c->tree.root), folder = strlen(c->tree.folder);
	const struct fm_runs *base = &c->sides.base;
	for (size_t i = 0; o.base_ref && i < base->functions.n && !c->doubt.text[0]; i++) {
		struct fm_str path = base->functions.items[i].path;
		bool is_here = path.len > root && !memcmp(path.p, c->tree.root, root) && path.p[root] == '/';
		bool is_there = path.len > folder && !memcmp(path.p, c->tree.folder, folder);
		if (base->functions.items[i].is_users && is_here && !is_there)
			fm_diag_set(&c->doubt, FM_E_USAGE,
				    "the base ran %.*s, which belongs to the working tree: an installed package, "
				    "PYTHONPATH or an absolute path leads there",
				    (int)FM_MIN(path.len, 200u), path.p);
	}
}

static enum fm_err judge(struct comparing *c, struct fm_diag *diag)
{
	struct fm_runs *base = &c->sides.base;
	if (!fm_two_commands_renamed(&c->commands, &base->renamed, &base->renamed_to))
		base->renamed = base->renamed_to = FM_STR_LIT("");
	enum fm_err err = fm_sides_read(&c->sides, c->side_dirs[FM_BASE], c->side_dirs[FM_HEAD], &o.view, diag);
	if (err)
		return err;
	const char *cut = fm_sides_cut(&c->sides);
	if (cut)
		return fm_diag_set(diag, FM_E_IO, "a capture of the %s was cut off, so there is nothing to compare",
				   cut[0] == 'B' ? "base" : "head");
	look_for_strays(c);
	struct fm_comparison *r = &c->result;
	*r = (struct fm_comparison){ .base_name = (const char *)c->names[FM_BASE].data,
				     .head_name = (const char *)c->names[FM_HEAD].data,
				     .base = &c->sides.base,
				     .head = &c->sides.new,
				     .diff = &c->sides.diff,
				     .is_head_first = c->pairs.is_head_first,
				     .no_instructions = c->pairs.no_instructions.text,
				     .doubt = c->doubt.text,
				     .root = c->root };
	enum fm_compared gated = o.metric[0] == 'c'   ? FM_COMPARED_CPU
				 : o.metric[0] == 'w' ? FM_COMPARED_WALL
						      : FM_COMPARED_INSTRUCTIONS;
	for (unsigned which = 0; which < FM_N_COMPARED; which++)
		r->figures[which].limit = which == gated ? o.max_slowdown / 100 : -1;
	r->figures[FM_COMPARED_RAM].limit = o.max_growth >= 0 ? o.max_growth / 100 : -1;
	fm_comparison_judge(r);
	for (unsigned which = 0; which < FM_N_COMPARED; which++)
		if (!r->figures[which].is_known && r->figures[which].limit >= 0)
			return fm_diag_set(diag, FM_E_UNSUPPORTED,
					   "the %s of some runs is not known, so nothing is compared",
					   fm_compared_kinds[which].name);
	return FM_OK;
}

static enum fm_err write_file(const char *path, void (*put)(FILE *, const struct fm_comparison *),
			      const struct fm_comparison *r, struct fm_diag *diag)
{
	FILE *f = fm_fopen_private(path, false);
	if (f)
		put(f, r);
	bool is_bad = f && ferror(f);
	if (!f || fclose(f) != 0 || is_bad)
		return fm_diag_set(diag, FM_E_IO, "cannot write %s: %s", path, strerror(errno));
	return FM_OK;
}

// All that was asked for, and the verdict: on standard error where it is a failure, as that of check.
static enum fm_err tell(const struct fm_comparison *r, struct fm_diag *diag)
{
	enum fm_err err = FM_OK;
	if (o.junit)
		err = write_file(o.junit, fm_comparison_junit, r, diag);
	if (!err && o.markdown && *o.markdown)
		err = write_file(o.markdown, fm_comparison_markdown, r, diag);
	if (!err && o.json && *o.json)
		err = write_file(o.json, fm_comparison_json, r, diag);
	if (err)
		return err;
	bool is_text = !(o.markdown && !*o.markdown) && !(o.json && !*o.json);
	if (o.markdown && !*o.markdown)
		fm_comparison_markdown(stdout, r);
	else if (o.json && !*o.json)
		fm_comparison_json(stdout, r);
	else
		fm_comparison_text(stdout, r, &o.view);
	fflush(stdout);
	if (o.is_for_github)
		fm_comparison_github(stderr, r);
	if (*r->doubt)
		fm_say("%s", r->doubt);
	_cleanup_(fm_buf_deinit) struct fm_buf verdict = { 0 };
	fm_comparison_verdict(&verdict, r);
	if (fm_comparison_is_beyond(r))
		fm_say("%s", (const char *)verdict.data);
	else if (is_text)
		printf("\n%s.\n", (const char *)verdict.data);
	return FM_OK;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st, (void)type, (void)where;
	remove(path);
	return 0;
}

static void clean_up(struct comparing *c)
{
	fm_worktree_remove(&c->tree);
	if (c->dir[0])
		nftw(c->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	fm_sides_deinit(&c->sides);
	for (unsigned side = 0; side < FM_N_SIDES; side++)
		fm_buf_deinit(&c->names[side]);
}

static enum fm_err run(struct comparing *c, struct fm_diag *diag)
{
	int counter;
	struct fm_diag why;
	if (o.metric[0] == 'i' && fm_instructions_open(&fm_counted_instructions, &counter, &why))
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "instructions cannot be counted: %.300s; leave --metric out",
				   why.text);
	if (o.metric[0] == 'i')
		close(counter);
	fm_apart_hold_signals();
	enum fm_err err = prepare(c, diag);
	if (!err)
		err = fm_pairs_run(&c->pairs, diag);
	if (!err)
		err = judge(c, diag);
	return err ? err : tell(&c->result, diag);
}

int fm_cmd_compare(int argc, char **argv)
{
	static struct comparing c;
	struct fm_capture_options capture = { 0 };
	struct fm_operands ops;
	struct fm_diag diag;
	int exit_code;
	o.view = FM_VIEW_OPTIONS_DEFAULT;
	o.text = FM_TEXT_FLAGS_DEFAULT;
	if (fm_defaults_apply(settled, false, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	const struct fm_two_words words = { o.base, o.head, o.base_ref };
	if (check_options(&diag) || fm_two_commands_take(&c.commands, &words, &ops, &diag) ||
	    fm_capture_flags_apply(&o.flags, &capture, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_USAGE;
	}
	fm_text_flags_apply(&o.text, &o.view);
	c.pairs.n = (unsigned)o.n_runs;
	c.pairs.capture = &capture;
	enum fm_err err = run(&c, &diag);
	if (err)
		fm_say("%s", diag.text);
	exit_code = err || fm_comparison_is_beyond(&c.result) ? FM_EXIT_FAILED : FM_EXIT_OK;
	clean_up(&c);
	return fm_apart_signal() ? 128 + fm_apart_signal() : exit_code;
}
