// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/attribution.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

// What millions of nodes ask of their functions, small enough for the cache.
enum { PYTHON = 1, OWN = 2, HAS_FILE = 4, IN_COMMAND = 8 };

static uint8_t *kinds_of_functions(const struct fm_symbolizer *symbolizer)
{
	uint32_t n = fm_symbolizer_n_functions(symbolizer);
	uint8_t *kinds = fm_alloc(n + 1);
	for (uint32_t i = 0; i < n; i++) {
		const struct fm_function *f = fm_symbolizer_function(symbolizer, i);
		if (f->kind != FM_FRAME_PYTHON ||
		    f->is_ours) // for what Fathom itself does its caller pays, if there is one
			continue;
		kinds[i] = PYTHON | (f->is_library ? 0 : OWN);
		if (!f->file.len || f->file.p[0] != '<')
			kinds[i] |= HAS_FILE;
		else if (fm_str_eq(f->file, FM_STR_LIT("<string>")))
			kinds[i] |= IN_COMMAND;
	}
	return kinds;
}

// The code that a Python was given by -c. Empty: none was.
static struct fm_str given_code(const struct fm_process_info *process)
{
	enum { OPTION, VALUE, CODE } next = OPTION;
	const char *end = process->command.p + process->command.len;
	const char *at = process->python_version.len ? memchr(process->command.p, 0, process->command.len) : NULL;
	while (at && ++at < end) {
		const char *nul = memchr(at, 0, (size_t)(end - at)); // arguments are joined by NUL bytes
		struct fm_str arg = { at, (uint32_t)((nul ? nul : end) - at) };
		if (next == CODE)
			return arg;
		if (next == OPTION && (!arg.len || arg.p[0] != '-' || fm_str_eq(arg, FM_STR_LIT("-m"))))
			break;
		bool has_value = fm_str_eq(arg, FM_STR_LIT("-X")) || fm_str_eq(arg, FM_STR_LIT("-W"));
		next = next == VALUE ? OPTION : fm_str_eq(arg, FM_STR_LIT("-c")) ? CODE : has_value ? VALUE : OPTION;
		at = nul;
	}
	return FM_STR_LIT("");
}

// Pools of processes start theirs with a line of code that calls the library; it is nobody's own,
// and has all that they do below it. True when no other code was given to a Python here.
static bool starts_workers_only(const struct fm_profile *profile)
{
	static const char *const starts[] = { "from multiprocessing.", "from joblib.", "from loky.", "from billiard.",
					      "import sys;exec(eval(sys.stdin.readline()))" };
	bool is_any = false;
	for (size_t i = 0; i < profile->processes.n; i++) {
		struct fm_str code = given_code(&profile->processes.items[i].info);
		bool is_start = false;
		for (size_t k = 0; k < FM_ARRAY_LEN(starts); k++)
			is_start |= code.len >= strlen(starts[k]) && !memcmp(code.p, starts[k], strlen(starts[k]));
		if (code.len && !is_start)
			return false;
		is_any |= is_start;
	}
	return is_any;
}

// Parents come first, so one pass inherits downwards.
struct fm_attribution *fm_attribution_find(const struct fm_profile *profile, const struct fm_tally *tally,
					   const struct fm_view *view, const struct fm_symbolizer *symbolizer)
{
	uint8_t not_own = starts_workers_only(profile) ? IN_COMMAND : 0;
	struct fm_attribution *payers = fm_alloc(view->nodes.n * sizeof(*payers));
	uint8_t *kinds = kinds_of_functions(symbolizer);
	bool *is_programs = fm_package_find_main(view, tally, symbolizer);
	for (uint32_t i = 0; is_programs && i < fm_symbolizer_n_functions(symbolizer); i++)
		kinds[i] |= is_programs[i] ? OWN | HAS_FILE : 0;
	free(is_programs);
	for (uint32_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		struct fm_attribution caller = payers[node->parent];
		uint8_t kind = kinds[node->function_id];
		payers[i] = caller;
		if (kind & PYTHON)
			payers[i].own = i + 1;
		// What start-up files and libraries generate and execute has no file of its own
		// either.
		if (kind & OWN && (kind & HAS_FILE || (caller.own ? caller.own == caller.user : !(kind & not_own))))
			payers[i].user = i + 1;
	}
	free(kinds);
	return payers;
}
