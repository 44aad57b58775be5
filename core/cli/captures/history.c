// SPDX-License-Identifier: Apache-2.0
#include "cli/captures/captures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "render/render.h"
#include "render/shared/facts.h"
#include "render/shared/label.h"

// One results folder: the means of its runs.
struct entry {
	const char *path;
	double wall_s, cpu_s, rss_bytes; // sums
	uint64_t n_samples;
	size_t n;
	char exit_text[24];
	struct fm_buf command; // as a line for a shell
};

// The totals of one capture: its events are counted, nothing is named.
static void gather(struct entry *e, const char *path)
{
	struct fm_analysis *a;
	if (fm_render_open(path, &FM_VIEW_OPTIONS_DEFAULT, FM_ANALYSIS_TOTALS, &a, NULL))
		return;
	struct fm_facts f;
	fm_facts_gather(&f, a);
	if (f.exit_signal)
		snprintf(e->exit_text, sizeof(e->exit_text), "signal %d", f.exit_signal);
	else if (f.exit_code >= 0)
		snprintf(e->exit_text, sizeof(e->exit_text), "%d", f.exit_code);
	else
		snprintf(e->exit_text, sizeof(e->exit_text), "?");
	if (!e->n++)
		fm_label_command(&e->command, fm_facts_own_command(a->profile));
	e->wall_s += f.wall_s;
	e->cpu_s += f.cpu_s;
	e->rss_bytes += (double)f.max_rss_bytes;
	e->n_samples += f.n_samples;
	fm_analysis_close(a);
}

static void print_next(const char *base, const char *newer)
{
	fputs("\nNext:\n  fathom diff ", stdout);
	fm_utf8_print(stdout, fm_str_of(base));
	putchar(' ');
	fm_utf8_print(stdout, fm_str_of(newer));
	putchar('\n');
}

static struct fm_str command_of(const struct entry *e)
{
	return (struct fm_str){ (const char *)e->command.data, (uint32_t)e->command.len };
}

static bool is_one_command(const struct entry *entries, size_t n)
{
	const struct entry *first = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!entries[i].command.len)
			continue;
		if (first && !fm_str_eq(command_of(first), command_of(&entries[i])))
			return false;
		first = &entries[i];
	}
	return true;
}

static void print_entry(const struct entry *e, bool has_command)
{
	double n = (double)e->n;
	if (e->n)
		printf("%9.3f s %9.3f s %8.1f MB %9llu %-9s %5zu  ", e->wall_s / n, e->cpu_s / n,
		       e->rss_bytes / n / 1e6, (unsigned long long)e->n_samples, e->exit_text, e->n);
	else
		printf("%61s  ", "");
	fm_utf8_print(stdout, fm_str_of(e->path));
	if (e->n && has_command) {
		fputs("  ", stdout);
		fm_utf8_print(stdout, command_of(e));
	}
	puts(e->n ? "" : " (cannot be read)");
}

enum fm_err fm_history_print(const char *output_dir, const char *name, struct fm_diag *diag)
{
	struct fm_captures dated;
	enum fm_err err = fm_captures_dated(&dated, output_dir, name, diag);
	if (err)
		return err;
	struct entry *entries = fm_alloc(dated.paths.n * sizeof(*entries));
	for (size_t i = 0; i < dated.paths.n; i++) {
		struct fm_captures inside;
		entries[i] = (struct entry){ .path = dated.paths.items[i], .exit_text = "?" };
		if (fm_captures_find(&inside, dated.paths.items[i], NULL) == FM_OK)
			for (size_t k = 0; k < inside.paths.n; k++)
				gather(&entries[i], inside.paths.items[k]);
		fm_captures_deinit(&inside);
	}
	bool is_one = is_one_command(entries, dated.paths.n);
	printf("%11s %11s %11s %9s %-9s %5s  %s\n", "wall", "CPU", "RAM", "samples", "exit", "runs",
	       is_one ? "results" : "results, and the command");
	for (size_t i = 0; i < dated.paths.n; i++) {
		print_entry(&entries[i], !is_one);
		fm_buf_deinit(&entries[i].command);
	}
	if (!is_one)
		puts("\nThe command lines differ: compare runs of the same one.");
	if (dated.paths.n > 1)
		print_next(dated.paths.items[dated.paths.n - 2], dated.paths.items[dated.paths.n - 1]);
	free(entries);
	fm_captures_deinit(&dated);
	return FM_OK;
}
