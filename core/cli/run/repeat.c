// SPDX-License-Identifier: Apache-2.0
#include "cli/run/results.h"

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/run/apart.h"

enum fm_err fm_repeat_run(const struct fm_capture_options *options, unsigned n_runs, const char *dir,
			  int *ret_exit_code, struct fm_diag *diag)
{
	if (n_runs <= 1)
		return fm_capture_run(options, ret_exit_code, diag);
	struct fm_capture_options one = *options;
	for (unsigned i = 1; i <= n_runs; i++) {
		char path[4200];
		snprintf(path, sizeof(path), "%s/profile_%u.fathom", dir, i);
		one.output_path = path;
		if (isatty(STDERR_FILENO))
			fm_say("run %u of %u", i, n_runs);
		enum fm_err err = fm_apart_run(&(struct fm_apart){ .options = &one }, ret_exit_code, diag);
		if (err)
			return err;
		if (*ret_exit_code && i < n_runs) {
			fm_say("run %u of %u did not end well (exit code %d), so the rest were left out", i, n_runs,
			       *ret_exit_code);
			break;
		}
	}
	return FM_OK;
}
