// SPDX-License-Identifier: Apache-2.0
// fathom serve-live: the server beside the collector of a program that was started with --listen.
// Not for people.
//
// A process of its own, so that what viewers ask for, however much it is, costs the collector
// nothing: the two share the file and nothing else.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "serve/serve.h"

int fm_cmd_serve_live(int argc, char **argv)
{
	uint64_t socket = 0, collector = 0;
	const struct fm_option options[] = {
		{ "socket", 0, FM_OPT_UINT, &socket, "FD", "that listens" },
		{ "collector", 0, FM_OPT_UINT, &collector, "FD", "a pipe that ends with the collector" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "serve-live",
		.operands = "HOST:PORT FILE",
		.about = "Serve a capture that is being written. The token is in FATHOM_LIVE_TOKEN.",
		.options = options,
		.min_operands = 2,
		.max_operands = 2,
		.missing_operand = "name the place and the file",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	const char *token = getenv("FATHOM_LIVE_TOKEN");
	struct fm_diag diag;
	struct fm_listen_options o = {
		.path = ops.v[1], .token = token ? token : "", .socket = (int)socket, .collector = (int)collector
	};
	if (fm_listen_parse(ops.v[0], &o.place, &diag) || fm_listen_serve(&o, &diag)) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	return FM_EXIT_OK;
}
