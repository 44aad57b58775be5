// SPDX-License-Identifier: Apache-2.0
#include "aggregate/tree/attribution.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/tally/weight.h"
#include "base/compiler.h"

// The user's own files are a configuration, or what a tool was pointed at, when they have less of
// the time of the package that runs.
#define LITTLE 0.1

// What follows the last "word" in the path; "" when it is not there.
static struct fm_str after(struct fm_str path, const char *word)
{
	size_t n = strlen(word);
	for (size_t i = path.len; i-- > 0;)
		if (i + n <= path.len && !memcmp(path.p + i, word, n))
			return (struct fm_str){ path.p + i + n, path.len - (uint32_t)(i + n) };
	return FM_STR_LIT("");
}

static struct fm_str base_of(struct fm_str path)
{
	struct fm_str base = after(path, "/");
	return base.len ? base : path;
}

// "numpy" of "numpy.libs/libopenblas.so", "_json.cpython-311.so" and "_pytest.python": a package's
// own helpers are its own. "<doctest shop.price[0]>" is no path, and stays whole.
static struct fm_str first_part(struct fm_str s)
{
	if (s.len && s.p[0] == '<')
		return s;
	while (s.len > 1 && s.p[0] == '_')
		s = (struct fm_str){ s.p + 1, s.len - 1 };
	uint32_t n = 0;
	while (n < s.len && s.p[n] != '.' && s.p[n] != '/')
		n++;
	return (struct fm_str){ s.p, n };
}

static bool is_everybodys(struct fm_str path)
{
	static const char *const bases[] = { "libc.",    "libc-",    "ld-",        "ld.",
					     "libm.",    "libm-",    "libpthread", "libdl",
					     "librt",    "libgcc_s", "libstdc++",  "libpython",
					     "[kernel]", "[vdso]",   "linux-vdso", "_agent.abi3" };
	struct fm_str base = base_of(path);
	for (size_t i = 0; i < FM_ARRAY_LEN(bases); i++)
		if (fm_str_starts_with(base, bases[i]))
			return true;
	return !path.len;
}

bool fm_package_is_interpreter(const struct fm_function *f)
{
	return f->kind == FM_FRAME_NATIVE && (f->is_plumbing || fm_str_starts_with(base_of(f->path), "python") ||
					      fm_str_starts_with(base_of(f->path), "libpython"));
}

// Libraries of packages and of the standard library; "" for any other.
static struct fm_str installed_part(struct fm_str path)
{
	static const char *const homes[] = { "/site-packages/", "/dist-packages/", "/lib-dynload/" };
	for (size_t i = 0; i < FM_ARRAY_LEN(homes); i++) {
		struct fm_str rest = after(path, homes[i]);
		if (rest.len)
			return first_part(rest);
	}
	return FM_STR_LIT("");
}

static bool is_systems(struct fm_str path)
{
	return fm_str_starts_with(path, "/usr/lib") || fm_str_starts_with(path, "/lib") ||
	       fm_str_starts_with(path, "[");
}

struct fm_str fm_package_name(const struct fm_function *f)
{
	if (f->kind == FM_FRAME_ERROR || f->is_plumbing)
		return FM_STR_LIT("");
	if (f->kind == FM_FRAME_PYTHON) {
		// What stands between the interpreter and the first line of a module or a thread.
		if (fm_str_eq(f->module, FM_STR_LIT("runpy")) || fm_str_eq(f->module, FM_STR_LIT("threading")))
			return FM_STR_LIT("");
		return f->is_ours ? FM_STR_LIT("[fathom]") : first_part(f->module);
	}
	if (is_everybodys(f->path) || fm_package_is_interpreter(f))
		return FM_STR_LIT("");
	struct fm_str package = installed_part(f->path);
	return package.len ? package : first_part(base_of(f->path));
}

bool fm_package_is_none(const struct fm_function *f)
{
	return f->kind == FM_FRAME_NATIVE && !fm_package_is_interpreter(f) && !is_everybodys(f->path) &&
	       !is_systems(f->path) && !installed_part(f->path).len;
}

bool fm_package_is_importlib(const struct fm_function *f)
{
	return f->kind == FM_FRAME_PYTHON && (fm_str_starts_with(f->file, "<frozen importlib._bootstrap") ||
					      fm_str_eq(f->module, FM_STR_LIT("importlib"))); // import_module()
}

bool fm_package_is_import(const struct fm_function *f)
{
	// The last part of a name: from 3.11 on methods have their class.
	static const char *const names[] = {
		"import_module",    "reload",      "__import__",     "_gcd_import", "_find_and_load",
		"_handle_fromlist", "_load",       "_load_unlocked", "_find_spec",  "find_spec",
		"exec_module",      "load_module", "_exec",          "get_code",    "create_module",
	};
	if (!fm_package_is_importlib(f))
		return false;
	const char *dot = f->name.len ? memrchr(f->name.p, '.', f->name.len) : NULL;
	const char *start = dot ? dot + 1 : f->name.p;
	struct fm_str last = { start, (uint32_t)(f->name.p + f->name.len - start) };
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		if (fm_str_eq(last, fm_str_of(names[i])))
			return true;
	return false;
}

bool fm_package_is_first(const struct fm_function *f)
{
	static const char *const names[] = { "site", "encodings", "codecs",        "getpath",       "zipimport", "abc",
					     "io",   "os",        "sitecustomize", "usercustomize", "[fathom]" };
	struct fm_str package = f->kind == FM_FRAME_PYTHON ? fm_package_name(f) : FM_STR_LIT("");
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		if (fm_str_eq(package, fm_str_of(names[i])))
			return true;
	return false;
}

bool fm_package_is_comprehension(const struct fm_function *f)
{
	static const char *const ends[] = { "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>" };
	for (size_t i = 0; i < FM_ARRAY_LEN(ends); i++) {
		size_t n = strlen(ends[i]);
		if (f->kind == FM_FRAME_PYTHON && f->name.len >= n && !memcmp(f->name.p + f->name.len - n, ends[i], n))
			return true;
	}
	return false;
}

// ---- the program itself ----

// "/env/bin/black": a few lines that installers write to call the package.
static bool is_starter(const struct fm_function *f)
{
	const char *slash = f->file.len ? memrchr(f->file.p, '/', f->file.len) : NULL;
	size_t folder = slash ? (size_t)(slash - f->file.p) : 0;
	return folder >= 4 && !memcmp(slash - 4, "/bin", 4) && !memchr(slash, '.', f->file.len - folder);
}

static bool has_file(const struct fm_function *f)
{
	return f->file.len && f->file.p[0] != '<';
}

enum kind { OTHER, WAY, PROGRAM, COMPILED, USERS };

// WAY: what stands between the interpreter and the program. COMPILED: the same to look at, and a
// program if a script calls it (black's package is made by mypyc, and has no Python code).
static enum kind kind_of(const struct fm_function *f)
{
	if (f->kind != FM_FRAME_PYTHON)
		return f->kind == FM_FRAME_NATIVE && !fm_package_is_interpreter(f) && installed_part(f->path).len
			       ? COMPILED
			       : WAY;
	if (!f->is_library && has_file(f))
		return is_starter(f) ? WAY : USERS;
	if (f->is_ours || fm_package_is_importlib(f) || fm_package_is_first(f))
		return OTHER;
	return fm_package_name(f).len ? f->is_library ? PROGRAM : OTHER : WAY;
}

// CPU time of each node with all that is below it.
static uint64_t *times_of_nodes(const struct fm_view *view, const struct fm_tally *tally)
{
	uint64_t *ns = fm_alloc((view->nodes.n + 1) * sizeof(*ns));
	for (size_t i = 0; i < tally->cells.n; i++)
		if (fm_class_is_cpu(tally->cells.items[i].class))
			ns[fm_view_node(view, tally->cells.items[i].stack_id)] += tally->cells.items[i].weight_ns;
	for (size_t i = view->nodes.n; i-- > 1;)
		ns[view->nodes.items[i].parent] += ns[i];
	return ns;
}

struct candidate {
	struct fm_str package; // "" = none
	uint64_t ns;           // below it
	size_t n_nodes;        // the same; where no CPU time was counted it decides
};

// The package that most of the time is below, of those that nothing but the way leads to.
static struct candidate find_package(const struct fm_view *view, const struct fm_symbolizer *symbolizer,
				     const uint8_t *kinds, const uint64_t *ns)
{
	struct candidate best = { FM_STR_LIT(""), 0, 0 };
	enum { NO, NATIVE, PYTHON }; // whether it is the way, and has Python code on it
	uint8_t *is_way = fm_alloc(view->nodes.n + 1);
	is_way[0] = NATIVE;
	for (size_t i = 1; i < view->nodes.n; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		uint8_t kind = kinds[node->function_id], way = is_way[node->parent];
		bool is_python = fm_symbolizer_function(symbolizer, node->function_id)->kind == FM_FRAME_PYTHON;
		if (kind == COMPILED)
			kind = way == PYTHON ? PROGRAM : WAY;
		if (way != NO && kind == WAY)
			is_way[i] = is_python ? PYTHON : way;
		if (way == NO || kind != PROGRAM)
			continue;
		size_t end = i + 1; // a node is followed by all that is below it
		while (end < view->nodes.n && view->nodes.items[end].depth > node->depth)
			end++;
		if (ns[i] > best.ns || (ns[i] == best.ns && end - i > best.n_nodes))
			best = (struct candidate){
				fm_package_name(fm_symbolizer_function(symbolizer, node->function_id)), ns[i], end - i
			};
	}
	free(is_way);
	return best;
}

// A script of the user's that runs by itself: what works for it in threads and processes without its code (joblib's,
// for scikit-learn) is not the program, however much that is.
static bool has_users_script(const struct fm_view *view, const struct fm_symbolizer *symbolizer, const uint8_t *kinds)
{
	bool *is_way = fm_alloc(view->nodes.n + 1), has_script = false;
	is_way[0] = true;
	for (size_t i = 1; i < view->nodes.n && !has_script; i++) {
		const struct fm_node *node = &view->nodes.items[i];
		uint8_t kind = kinds[node->function_id];
		is_way[i] = is_way[node->parent] && (kind == WAY || kind == COMPILED);
		has_script =
			is_way[node->parent] && kind == USERS &&
			fm_str_eq(fm_symbolizer_function(symbolizer, node->function_id)->name, FM_STR_LIT("<module>"));
	}
	free(is_way);
	return has_script;
}

// What the user's files do and call.
static bool is_users_little(const struct fm_view *view, const uint8_t *kinds, const uint64_t *ns, uint64_t program_ns)
{
	uint64_t users_ns = 0;
	bool has_users = false;
	for (size_t i = 1; i < view->nodes.n;) {
		const struct fm_node *node = &view->nodes.items[i];
		bool is_users = kinds[node->function_id] == USERS;
		has_users |= is_users;
		users_ns += is_users ? ns[i] : 0;
		for (i++; is_users && i < view->nodes.n && view->nodes.items[i].depth > node->depth;)
			i++;
	}
	return !has_users || (double)users_ns < LITTLE * (double)program_ns;
}

bool *fm_package_find_main(const struct fm_view *view, const struct fm_tally *tally,
			   const struct fm_symbolizer *symbolizer)
{
	uint32_t n = fm_symbolizer_n_functions(symbolizer);
	uint8_t *kinds = fm_alloc(n + 1); // asked for by millions of nodes
	bool *ret = NULL;
	for (uint32_t i = 0; i < n; i++)
		kinds[i] = (uint8_t)kind_of(fm_symbolizer_function(symbolizer, i));
	uint64_t *ns = times_of_nodes(view, tally);
	struct candidate program = find_package(view, symbolizer, kinds, ns);
	if (program.package.len && !has_users_script(view, symbolizer, kinds) &&
	    is_users_little(view, kinds, ns, program.ns))
		ret = fm_alloc((n + 1) * sizeof(*ret));
	for (uint32_t i = 0; ret && i < n; i++) {
		const struct fm_function *f = fm_symbolizer_function(symbolizer, i);
		ret[i] = f->kind == FM_FRAME_PYTHON && !f->is_ours && fm_str_eq(fm_package_name(f), program.package);
	}
	free(ns);
	free(kinds);
	return ret;
}
