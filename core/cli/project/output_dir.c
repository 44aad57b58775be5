// SPDX-License-Identifier: Apache-2.0
#include "cli/project/output_dir.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/project/project.h"

const char *fm_output_dir_usual(char *ret, size_t cap)
{
	char root[PATH_MAX], here[PATH_MAX];
	const char *why_not;
	size_t n = 0;
	ret[0] = 0;
	if (fm_project_root(root, sizeof(root), &why_not) && getcwd(here, sizeof(here)) &&
	    !strncmp(here, root, strlen(root)))
		for (const char *p = here + strlen(root); *p; p++)
			if (*p == '/' && n + 4 < cap)
				n += (size_t)snprintf(ret + n, cap - n, "../");
	snprintf(ret + n, cap - n, "%s", FM_OUTPUT_DIR);
	return ret;
}
