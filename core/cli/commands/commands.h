// SPDX-License-Identifier: Apache-2.0
// The commands of the table in main.c, one file each, and what two of them share.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "aggregate/compare/diff.h"
#include "cli/options/options.h"

int fm_cmd_check(int argc, char **argv);
int fm_cmd_compare(int argc, char **argv);
int fm_cmd_diff(int argc, char **argv);
int fm_cmd_collect_for(int argc, char **argv);
int fm_cmd_doctor(int argc, char **argv);
int fm_cmd_dump(int argc, char **argv);
int fm_cmd_export(int argc, char **argv);
int fm_cmd_import(int argc, char **argv);
int fm_cmd_live(int argc, char **argv);
int fm_cmd_mcp(int argc, char **argv);
int fm_cmd_top(int argc, char **argv);
int fm_cmd_place(int argc, char **argv);
int fm_cmd_query(int argc, char **argv);
int fm_cmd_record(int argc, char **argv);
int fm_cmd_report(int argc, char **argv);
int fm_cmd_run(int argc, char **argv);
int fm_cmd_serve_live(int argc, char **argv);
int fm_cmd_view(int argc, char **argv);

// Whether main.c's table has the command.
bool fm_command_is_there(const char *name);

// The two sides of a comparison, as diff and check are given them on the command line.
struct fm_sides {
	struct fm_runs base, new;
	struct fm_diff diff;
};

// Parses the command line and loads what it names: two captures or results folders, or (with one
// operand) the two latest runs of that name below *output_dir. view and output_dir are targets of
// the options, so they are read afterwards. False: it is over, a line has said why, and *ret_exit
// is the exit code.
bool fm_sides_load(struct fm_sides *ret, const struct fm_usage *usage, int argc, char **argv,
		   const struct fm_view_options *view, const char *const *output_dir, int *ret_exit);
// Reads both, each a capture or a folder of some, and compares them. *s is zeroed, and fm_sides_deinit is due
// also on failure.
FM_MUST_CHECK enum fm_err fm_sides_read(struct fm_sides *s, const char *base, const char *new,
					const struct fm_view_options *view, struct fm_diag *diag);
// "BASE" or "NEW" when one of its captures lacks its end; else NULL.
const char *fm_sides_cut(const struct fm_sides *s);
void fm_sides_deinit(struct fm_sides *s);

// Between `fathom live`, which has the screen, and `fathom top`, which starts a recording to be
// watched there.
struct fm_top {
	uint16_t port;     // where the recording lets itself be watched
	pid_t recorder;    // the process that records
	bool is_over;      // it has ended, and was reaped
	char pids[64];     // of the first processes; "" = a program that was started
	bool is_file_kept; // the recording is to stay
	const char *path;  // of it
};

// Until the user has seen enough, or the recording ends. Returns the exit code.
int fm_live_watch(struct fm_top *top);
