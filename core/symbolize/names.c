// SPDX-License-Identifier: Apache-2.0
#include "symbolize/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct fm_str fm_name_base(struct fm_str path)
{
	const char *slash = memrchr(path.p, '/', path.len);
	if (!slash || slash + 1 == path.p + path.len)
		return path;
	return (struct fm_str){ slash + 1, (uint32_t)(path.p + path.len - slash - 1) };
}

// What follows the last ".../<word>/" in the path, or 0.
static size_t after_folder(struct fm_str path, const char *word)
{
	size_t n = strlen(word), found = 0;
	for (size_t i = 1; i + n < path.len; i++)
		if (path.p[i - 1] == '/' && path.p[i + n] == '/' && !memcmp(path.p + i, word, n))
			found = i + n + 1;
	return found;
}

// What follows ".../lib/python3.11/", or 0.
static size_t after_stdlib(struct fm_str path)
{
	static const char prefix[] = "/python3.";
	for (size_t i = 0; i + sizeof(prefix) <= path.len; i++) {
		if (memcmp(path.p + i, prefix, sizeof(prefix) - 1))
			continue;
		size_t end = i + sizeof(prefix) - 1, digits = end;
		while (end < path.len && path.p[end] >= '0' && path.p[end] <= '9')
			end++;
		if (end > digits && end < path.len && path.p[end] == 't') // free-threaded: python3.13t
			end++;
		bool in_lib = i >= 3 &&
			      (!memcmp(path.p + i - 3, "lib", 3) || (i >= 5 && !memcmp(path.p + i - 5, "lib64", 5)));
		if (end > digits && end < path.len && path.p[end] == '/' && in_lib)
			return end + 1;
	}
	return 0;
}

bool fm_name_is_agent(struct fm_str path)
{
	return fm_str_eq(fm_name_base(path), FM_STR_LIT("_agent.abi3.so"));
}

bool fm_name_is_ours(struct fm_str filename)
{
	// All of python/fathom (tests/e2e/test_house.py compares). Others may call a folder fathom,
	// too: whole names, and those that any package has only where packages of ours lie.
	static const char *const files[] = { "_agent_module.py", "_follow.py",     "_job.py",         "_jobs.py",
					     "_limits.py",       "_lines.py",      "_magics.py",      "_notebook.py",
					     "_private.py",      "_query.py",      "_session.py",     "_tables.py",
					     "_trace.py",        "_trace_main.py", "pytest_plugin.py" };
	static const char *const common[] = { "__init__.py", "__main__.py" };
	static const char *const homes[] = { "/python/fathom/", "-packages/fathom/" };
	size_t at = after_folder(filename, "fathom");
	if (!at)
		return false;
	struct fm_str rest = { filename.p + at, filename.len - (uint32_t)at }, home = { filename.p, (uint32_t)at };
	if (fm_str_starts_with(rest, "_startup/"))
		return true;
	for (size_t i = 0; i < FM_ARRAY_LEN(files); i++)
		if (fm_str_eq(rest, fm_str_of(files[i])))
			return true;
	bool is_common = false, is_home = false;
	for (size_t i = 0; i < FM_ARRAY_LEN(common); i++)
		is_common |= fm_str_eq(rest, fm_str_of(common[i]));
	for (size_t i = 0; i < FM_ARRAY_LEN(homes); i++)
		is_home |= fm_str_ends_with(home, homes[i]);
	return is_common && is_home;
}

bool fm_name_is_library(struct fm_str filename)
{
	return fm_str_starts_with(filename, "<frozen ") || fm_name_is_ours(filename) ||
	       after_folder(filename, "site-packages") || after_folder(filename, "dist-packages") ||
	       after_stdlib(filename);
}

struct fm_str fm_name_module(struct fm_arena *arena, struct fm_str filename)
{
	static const char frozen[] = "<frozen ";
	if (fm_str_starts_with(filename, frozen) && filename.p[filename.len - 1] == '>') {
		uint32_t skip = sizeof(frozen) - 1;
		return (struct fm_str){ filename.p + skip, filename.len - skip - 1 };
	}
	size_t skip = after_folder(filename, "site-packages");
	if (!skip)
		skip = after_folder(filename, "dist-packages");
	if (!skip)
		skip = after_stdlib(filename);
	struct fm_str rest =
		skip ? (struct fm_str){ filename.p + skip, filename.len - (uint32_t)skip } : fm_name_base(filename);
	static const char *const ends[] = { "/__init__.py", ".py" };
	for (size_t i = 0; i < FM_ARRAY_LEN(ends); i++) {
		size_t n = strlen(ends[i]);
		if (rest.len > n && !memcmp(rest.p + rest.len - n, ends[i], n)) {
			rest.len -= (uint32_t)n;
			break;
		}
	}
	char *dotted = fm_arena_strdup(arena, rest.p, rest.len);
	for (uint32_t i = 0; i < rest.len; i++)
		if (dotted[i] == '/')
			dotted[i] = '.';
	return (struct fm_str){ dotted, rest.len };
}

struct fm_str fm_name_without_tags(struct fm_arena *arena, struct fm_str name)
{
	static const char tag[] = "[abi:";
	char *out = fm_arena_strdup(arena, name.p, name.len);
	uint32_t n = 0;
	for (uint32_t i = 0; i < name.len;) {
		const char *close = NULL;
		if (name.len - i > sizeof(tag) - 1 && !memcmp(name.p + i, tag, sizeof(tag) - 1))
			close = memchr(name.p + i, ']', name.len - i);
		if (close)
			i = (uint32_t)(close - name.p) + 1;
		else
			out[n++] = name.p[i++];
	}
	return (struct fm_str){ out, n };
}

bool fm_name_is_go_between(struct fm_str path)
{
	static const char *const names[] = { "libc.so",   "libc-",         "libc.musl",  "libm.so",  "libm-",
					     "libdl.so",  "librt.so",      "libpthread", "ld-linux", "ld-musl",
					     "ld-2.",     "ld.so",         "libstdc++.", "libgcc_s", "libc++.so",
					     "libc++abi", "_agent.abi3.so" };
	struct fm_str name = fm_name_base(path);
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		if (name.len >= strlen(names[i]) && !memcmp(name.p, names[i], strlen(names[i])))
			return true;
	return false;
}
