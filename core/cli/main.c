// SPDX-License-Identifier: Apache-2.0
// The fathom program: one table of commands.
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"

static const struct fm_command commands[] = {
	{ "run", fm_cmd_run, "profile a script, module or program and print where the time went" },
	{ "record", fm_cmd_record, "capture a program into a file; takes py-spy's record flags" },
	{ "report", fm_cmd_report, "print where the time went; --json for machines" },
	{ "view", fm_cmd_view, "show a capture in the browser: flame graph, timeline, source" },
	{ "top", fm_cmd_top, "watch a running process, full screen: threads, hottest functions" },
	{ "live", fm_cmd_live, "watch a program that was started with --listen" },
	{ "diff", fm_cmd_diff, "what got slower, faster or bigger between two captures" },
	{ "check", fm_cmd_check, "the same as a gate for CI: exit code 1 beyond a limit" },
	{ "compare", fm_cmd_compare, "run two programs, or two states of one, in turns: what got slower" },
	{ "export", fm_cmd_export, "convert to speedscope, flame graph, collapsed stacks, ..." },
	{ "import", fm_cmd_import, "turn another tool's profile into a capture" },
	{ "query", fm_cmd_query, "query a capture with SQL: one SELECT over its tables" },
	{ "mcp", fm_cmd_mcp, "serve these commands to a coding agent: the Model Context Protocol" },
	{ "dump", fm_cmd_dump, "print the stacks of all threads of a running process, now" },
	{ "collect-for", fm_cmd_collect_for, NULL }, // not for people
	{ "serve-live", fm_cmd_serve_live, NULL },   // nor this
	{ "place", fm_cmd_place, NULL },             // nor this
	{ "doctor", fm_cmd_doctor, "what this machine allows and lacks, each with the remedy" },
	{ NULL, NULL, NULL },
};

bool fm_command_is_there(const char *name)
{
	for (size_t i = 0; commands[i].name; i++)
		if (!strcmp(name, commands[i].name))
			return true;
	return false;
}

static void print_help(FILE *out)
{
	fputs("usage: fathom COMMAND [options]\n\nCommands:\n", out);
	for (size_t i = 0; commands[i].name; i++)
		if (commands[i].summary)
			fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
	fputs("\n'fathom COMMAND --help' has options and examples.\n", out);
}

// What was asked for and could not be written was not given: /dev/full, a closed descriptor.
static int finish(int exit_code)
{
	bool is_bad = ferror(stdout); // stdio has forgotten why
	if (is_bad) {
		clearerr(stdout);
		fputc('\n', stdout);
	}
	if (fflush(stdout) || is_bad) {
		if (exit_code == FM_EXIT_OK)
			fm_say("cannot write standard output: %m");
		return exit_code == FM_EXIT_OK ? FM_EXIT_FAILED : exit_code;
	}
	return exit_code;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return FM_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		print_help(stdout);
		return finish(FM_EXIT_OK);
	}
	if (!strcmp(argv[1], "--version")) {
		puts("fathom " FM_VERSION);
		return finish(FM_EXIT_OK);
	}
	for (size_t i = 0; commands[i].name; i++)
		if (!strcmp(argv[1], commands[i].name)) {
			// These two hand signals on to the program, and pass on its exit status.
			bool is_for_program = commands[i].run == fm_cmd_run || commands[i].run == fm_cmd_record;
			if (!is_for_program)
				signal(SIGXFSZ, SIG_IGN); // a file that may not grow is an error with a reason
			int exit_code = commands[i].run(argc - 1, argv + 1);
			return is_for_program ? exit_code : finish(exit_code);
		}
	fm_say("no command named '%s'; 'fathom --help' lists them", argv[1]);
	return FM_EXIT_USAGE;
}
