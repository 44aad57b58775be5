#include "cli/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/captures.h"
#include "render/facts.h"

// The totals of one capture: its events are counted, nothing is named.
static bool gather(const char *path, struct fm_facts *f, char exit_text[static 24])
{
	struct fm_analysis a = { 0 };
	if (fm_reader_open(path, &a.reader, NULL))
		return false;
	bool is_read = fm_tally_read(&a.tally, a.reader, NULL) == FM_OK;
	a.profile = fm_reader_profile(a.reader);
	if (is_read) {
		fm_facts_gather(f, &a);
		if (f->exit_signal)
			snprintf(exit_text, 24, "signal %d", f->exit_signal);
		else if (f->exit_code >= 0)
			snprintf(exit_text, 24, "%d", f->exit_code);
		else
			snprintf(exit_text, 24, "?");
	}
	fm_tally_deinit(&a.tally);
	fm_reader_close(a.reader);
	return is_read;
}

static void print_next(const char *base, const char *newer)
{
	fputs("\nNext:\n  fathom diff ", stdout);
	fm_utf8_print(stdout, fm_str_of(base));
	putchar(' ');
	fm_utf8_print(stdout, fm_str_of(newer));
	putchar('\n');
}

enum fm_err fm_history_print(const char *output_dir, const char *name, struct fm_diag *diag)
{
	struct fm_captures dated;
	enum fm_err err = fm_captures_dated(&dated, output_dir, name, diag);
	if (!err)
		printf("%11s %11s %11s %9s %-9s %5s  %s\n", "wall", "CPU", "RAM", "samples", "exit", "runs", "results");
	for (size_t i = 0; !err && i < dated.paths.n; i++) {
		struct fm_captures inside;
		double wall_s = 0, cpu_s = 0, rss = 0;
		uint64_t n_samples = 0;
		size_t n = 0;
		char exit_text[24] = "?";
		if (fm_captures_find(&inside, dated.paths.items[i], NULL) == FM_OK)
			for (size_t k = 0; k < inside.paths.n; k++) {
				struct fm_facts f;
				if (!gather(inside.paths.items[k], &f, exit_text))
					continue;
				n++;
				wall_s += f.wall_s, cpu_s += f.cpu_s, rss += (double)f.max_rss_bytes;
				n_samples += f.n_samples;
			}
		fm_captures_deinit(&inside);
		if (n)
			printf("%9.3f s %9.3f s %8.1f MB %9llu %-9s %5zu  ", wall_s / (double)n, cpu_s / (double)n,
			       rss / (double)n / 1e6, (unsigned long long)n_samples, exit_text, n);
		else
			printf("%61s  ", "");
		fm_utf8_print(stdout, fm_str_of(dated.paths.items[i]));
		puts(n ? "" : " (cannot be read)");
	}
	if (!err && dated.paths.n > 1)
		print_next(dated.paths.items[dated.paths.n - 2], dated.paths.items[dated.paths.n - 1]);
	fm_captures_deinit(&dated);
	return err;
}
