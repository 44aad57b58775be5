// SPDX-License-Identifier: Apache-2.0
#include "cli/run/target.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

// Cuts the next word off; NULL at the end.
static char *next_word(char **rest)
{
	char *word;
	do
		word = strsep(rest, " \t\r\n");
	while (word && !*word);
	return word;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool fm_shebang_read(const char *script, struct fm_shebang *ret)
{
	*ret = (struct fm_shebang){ 0 };
	_cleanup_fclose_ FILE *f = fopen(script, "re");
	char line[1024] = "";
	if (!f || !fgets(line, sizeof(line), f) || strncmp(line, "#!", 2))
		return false;
	char *rest = line + 2, *program = next_word(&rest);
	bool is_env = program && !strcmp(base_of(program), "env");
	while (is_env && (program = next_word(&rest)) && (program[0] == '-' || strchr(program, '=')))
		; // env's own options, and variables
	if (!program || (strncmp(base_of(program), "python", 6) && strncmp(base_of(program), "pypy", 4)))
		return false;
	// "env python3" is what everybody writes, and means the one that is active.
	if (!is_env || (strcmp(program, "python") && strcmp(program, "python3")))
		snprintf(ret->python, sizeof(ret->python), "%s", program);
	const char *option = next_word(&rest);
	snprintf(ret->option, sizeof(ret->option), "%s", option ? option : "");
	return true;
}
