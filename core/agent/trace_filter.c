// SPDX-License-Identifier: Apache-2.0
// Which functions are traced, by their file, and which of them line by line. Asked once per code
// object and thread, not per call. The time of a function that is left out is its caller's.
#include "agent/trace_filter.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

#include "agent/trace.h"

#define MAX_PATTERNS 64
#define MAX_PATTERN_BYTES 512

static char patterns[MAX_PATTERNS][MAX_PATTERN_BYTES]; // the first character says what it does: + or - or @
static unsigned n_patterns;

bool fm_trace_filter_allows(const char *file)
{
	bool has_includes = false, is_included = false;
	for (unsigned i = 0; i < n_patterns; i++) {
		if (patterns[i][0] == '@')
			continue;
		bool is_include = patterns[i][0] == '+', matches = fnmatch(patterns[i] + 1, file, 0) == 0;
		if (matches && !is_include)
			return false;
		has_includes |= is_include;
		is_included |= is_include && matches;
	}
	return !has_includes || is_included;
}

// Up to 3.10 a code object does not know its class: then the function's own name has to do.
static bool is_chosen(const char *pattern, const char *file, const char *name, bool is_qualified)
{
	const char *wanted = strrchr(pattern, ':');
	if (!wanted)
		return false;
	char file_pattern[MAX_PATTERN_BYTES] = "";
	memcpy(file_pattern, pattern, (size_t)(wanted++ - pattern));
	const char *last = strrchr(wanted, '.');
	if (last && !is_qualified)
		wanted = last + 1;
	return fnmatch(file_pattern, file, 0) == 0 && fnmatch(wanted, name, 0) == 0;
}

bool fm_trace_filter_has_choice(void)
{
	for (unsigned i = 0; i < n_patterns; i++)
		if (patterns[i][0] == '@')
			return true;
	return false;
}

bool fm_trace_filter_has_lines(const char *file, const char *name, bool is_qualified)
{
	for (unsigned i = 0; i < n_patterns; i++)
		if (patterns[i][0] == '@' && is_chosen(patterns[i] + 1, file, name, is_qualified))
			return true;
	return !fm_trace_filter_has_choice();
}

// trace_filter("+FILE", "-FILE", "@FILE:NAME", ...): replaces all patterns. Wildcards as in a
// shell, where * matches a / as well.
struct py_object *fm_trace_filter_set(struct py_object *self, struct py_object *const *args, intptr_t n)
{
	(void)self;
	if (atomic_load(&fm_trace.is_on))
		return PyErr_Format(PyExc_RuntimeError, "the filter cannot be changed while calls are traced");
	if (n > MAX_PATTERNS)
		return PyErr_Format(PyExc_RuntimeError, "%zd patterns are too many; %d can be given", n, MAX_PATTERNS);
	n_patterns = 0;
	fm_trace_forget_codes();
	for (intptr_t i = 0; i < n; i++) {
		intptr_t len = 0;
		const char *text = PyUnicode_AsUTF8AndSize(args[i], &len);
		if (!text)
			return NULL;
		if (len < 2 || len >= MAX_PATTERN_BYTES || !strchr("+-@", *text))
			return PyErr_Format(PyExc_RuntimeError, "a pattern is + or - or @ and up to 510 bytes, not %R",
					    args[i]);
		memcpy(patterns[n_patterns++], text, (size_t)len + 1);
	}
	return py_none();
}
