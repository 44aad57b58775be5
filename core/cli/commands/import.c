// SPDX-License-Identifier: Apache-2.0
// fathom import: a profile that another tool wrote, kept as a capture.
#include "import/import.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"

static int list_formats(void)
{
	for (const struct fm_importer *i = fm_importers; i->name; i++)
		printf("%-13s %s\n", i->name, i->meaning);
	return FM_EXIT_OK;
}

static enum fm_import_unit unit_of(const char *word)
{
	static const char *const words[] = { "samples", "ns", "us", "ms", "bytes" }; // in the order of fm_import_unit
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i], word))
			return (enum fm_import_unit)i;
	return FM_UNIT_SAMPLES;
}

// What is there already is replaced by a capture, not by half of one or none.
static enum fm_err import_to(const char *path, const char *out, const struct fm_import_options *import,
			     struct fm_diag *diag)
{
	struct stat st, from;
	if (lstat(out, &st) != 0 || !S_ISREG(st.st_mode) ||
	    (stat(path, &from) == 0 && from.st_dev == st.st_dev && from.st_ino == st.st_ino))
		return fm_import_file(path, out, import, diag); // the last of these is refused there
	_cleanup_(fm_buf_deinit) struct fm_buf part = { 0 };
	fm_buf_printf(&part, "%s.part", out);
	enum fm_err err = fm_import_file(path, (const char *)part.data, import, diag);
	if (err && err != FM_E_TRUNCATED)
		unlink((const char *)part.data);
	else if (rename((const char *)part.data, out) != 0)
		return fm_diag_set(diag, FM_E_IO, "cannot rename %s to %s: %m", (const char *)part.data, out);
	return err;
}

int fm_cmd_import(int argc, char **argv)
{
	bool is_list = false;
	const char *out = "profile.fathom", *from = NULL, *unit = "samples";
	const struct fm_option options[] = {
		{ "output", 'o', FM_OPT_TEXT, &out, "FILE", "write the capture there (default: profile.fathom)" },
		{ "from", 0, FM_OPT_TEXT, &from, "FORMAT",
		  "the format, if the content fits several; --list lists them" },
		{ "unit", 0, FM_OPT_CHOICE, &unit, "samples|ns|us|ms|bytes",
		  "unit of the counts in collapsed stacks (default: samples, each shown as 1 ms)" },
		{ "list", 0, FM_OPT_FLAG, &is_list, NULL, "list the formats" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "import",
		.operands = "FOREIGN",
		.about = "Convert a profile of another tool into a capture. 'report', 'view', 'export', 'diff' and "
			 "'check' also read such a file directly. Fathom detects the format from the content.",
		.options = options,
		.examples = "  fathom import --list\n"
			    "  fathom import -o profile.fathom profile.speedscope.json\n"
			    "  fathom import --unit us -o profile.fathom stacks.txt\n"
			    "  fathom report stacks.txt\n",
		.min_operands = 0,
		.max_operands = 1,
	};
	struct fm_operands ops;
	struct fm_diag diag;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (is_list)
		return list_formats();
	if (ops.n != 1) {
		fm_say("name the profile to import; 'fathom import --help' has examples");
		return FM_EXIT_USAGE;
	}
	struct fm_import_options import = { .importer = from ? fm_importer_find(from) : NULL, .unit = unit_of(unit) };
	if (from && !import.importer) {
		fm_say("no format named '%s'; 'fathom import --list' names them", from);
		return FM_EXIT_USAGE;
	}
	enum fm_err err = import_to(ops.v[0], out, &import, &diag);
	if (err == FM_E_TRUNCATED)
		fm_say("%s; the part before it is in %s", diag.text, out);
	else if (err)
		fm_say("%s", diag.text);
	return err ? FM_EXIT_FAILED : FM_EXIT_OK;
}
