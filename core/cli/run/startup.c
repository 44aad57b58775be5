// SPDX-License-Identifier: Apache-2.0
#include "cli/run/target.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "collect/capture/agent_path.h"

// The numbers of Python's logging.
static unsigned level_number(const char *name)
{
	static const char *const names[] = { "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL" };
	for (unsigned i = 0; i < FM_ARRAY_LEN(names); i++)
		if (!strcmp(name, names[i]))
			return 10 * (i + 1);
	return 30;
}

enum fm_err fm_startup_init(struct fm_startup *s, const struct fm_startup_options *options, struct fm_diag *diag)
{
	*s = (struct fm_startup){ 0 };
	char folder[PATH_MAX];
	enum fm_err err = fm_package_path_find("_startup", folder, sizeof(folder), diag);
	if (err)
		return err;
	if (strchr(folder, ':')) // PYTHONPATH knows no quoting
		return fm_diag_set(diag, FM_E_UNSUPPORTED,
				   "fathom is installed below a folder with ':' in its name: %s", folder);
	_cleanup_free_ char *results = realpath(options->results_dir, NULL); // the program may change its folder
	if (!results)
		return fm_diag_set(diag, FM_E_IO, "cannot find %s: %s", options->results_dir, strerror(errno));
	const char *theirs = getenv("PYTHONPATH");
	struct fm_buf path = { 0 }, settings = { 0 };
	fm_buf_printf(&path, "PYTHONPATH=%s%s%s", folder, theirs && *theirs ? ":" : "", theirs ? theirs : "");
	// Read by _fathom_hooks.py. Flags: p no plots, c children too, e PYTHONPATH was there but
	// empty, q no logs.
	fm_buf_printf(&settings, "FATHOM_STARTUP=1 %u -%s%s%s%s %s",
		      level_number(options->log_level ? options->log_level : "CRITICAL"), options->no_plots ? "p" : "",
		      options->children ? "c" : "", theirs && !*theirs ? "e" : "", options->log_level ? "" : "q",
		      results);
	s->env[0] = fm_strdup_n((char *)path.data, path.len);
	s->env[1] = fm_strdup_n((char *)settings.data, settings.len);
	char **next = &s->env[2];
	if (options->is_notebook) {
		settings.len = 0;
		fm_buf_printf(&settings, "FATHOM_NOTEBOOK=%s", results);
		*next++ = fm_strdup_n((char *)settings.data, settings.len);
	}
	char agent[PATH_MAX];
	if (options->trace && !(err = fm_agent_path_find(agent, sizeof(agent), diag))) {
		settings.len = 0;
		fm_buf_printf(&settings, "FATHOM_STARTUP_TRACE=%s", agent);
		*next++ = fm_strdup_n((char *)settings.data, settings.len);
	}
	fm_buf_deinit(&path);
	fm_buf_deinit(&settings);
	if (err)
		fm_startup_deinit(s);
	return err;
}

void fm_startup_deinit(struct fm_startup *s)
{
	for (char **variable = s->env; *variable; variable++)
		free(*variable);
	*s = (struct fm_startup){ 0 };
}
