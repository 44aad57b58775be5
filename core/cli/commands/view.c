// SPDX-License-Identifier: Apache-2.0
// fathom view: the viewer in the browser, or as one file to keep.
#include <limits.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/captures/captures.h"
#include "cli/options/options.h"
#include "cli/commands/commands.h"
#include "render/render.h"
#include "serve/serve.h"

int fm_cmd_view(int argc, char **argv)
{
	struct fm_serve_options serve = { .view = FM_VIEW_OPTIONS_DEFAULT, .opens_browser = true };
	const char *html = NULL;
	uint64_t port = 0;
	const struct fm_option options[] = {
		{ "html", 0, FM_OPT_TEXT, &html, "FILE", "write one self-contained page there instead of serving" },
		{ "no-open", 0, FM_OPT_NO_FLAG, &serve.opens_browser, NULL,
		  "only print the address, as without a display" },
		{ "port", 0, FM_OPT_UINT, &port, "PORT",
		  "listen on this port, such as for an SSH tunnel (default: any free port)" },
		{ "native-all", 0, FM_OPT_FLAG, &serve.view.native_all, NULL,
		  "show the interpreter's own native frames, which are otherwise folded away" },
		{ "no-inlines", 0, FM_OPT_FLAG, &serve.view.no_inlines, NULL,
		  "attribute inlined calls to the function that contains them" },
		{ "detailed", 0, FM_OPT_FLAG, &serve.view.detailed, NULL, "show the lines of libraries separately" },
		{ 0 },
	};
	const struct fm_usage usage = {
		.command = "view",
		.operands = "PROFILE | BASE NEW",
		.about = "Show a capture in the browser: flame graph, timeline, source, functions, call graph. Two "
			 "captures are compared. The page is served to this machine only, at an address with a "
			 "secret in it, until it is closed.",
		.options = options,
		.examples = "  fathom view profile.fathom\n"
			    "  fathom view --html report.html profile.fathom\n"
			    "  fathom view before.fathom after.fathom\n"
			    "  fathom view --no-open --port 8123 profile.fathom   # then, elsewhere: ssh -L "
			    "8123:127.0.0.1:8123 HOST\n",
		.min_operands = 1,
		.max_operands = 2,
		.missing_operand = "name the profile to show",
	};
	struct fm_operands ops;
	int exit_code;
	if (!fm_options_parse(&usage, argc, argv, &ops, &exit_code))
		return exit_code;
	if (port > UINT16_MAX) {
		fm_say("--port wants a number up to 65535, not %llu", (unsigned long long)port);
		return FM_EXIT_USAGE;
	}
	serve.port = (uint16_t)port;
	_cleanup_free_ char *path = NULL, *base_path = NULL;
	struct fm_diag diag;
	enum fm_err err = fm_captures_find_one(ops.v[ops.n - 1], &path, &diag);
	if (!err && ops.n == 2)
		err = fm_captures_find_one(ops.v[0], &base_path, &diag);
	if (!err && ops.n == 1)
		serve.view.called = fm_capture_called(path, ops.v[0]);
	serve.path = path;
	serve.base_path = base_path;
	if (!err)
		err = html ? fm_render_html(base_path, path, html, &serve.view, &diag) : fm_serve(&serve, &diag);
	if (err) {
		fm_say("%s", diag.text);
		return FM_EXIT_FAILED;
	}
	return FM_EXIT_OK;
}
