// SPDX-License-Identifier: Apache-2.0
// A C name of Cython's is a prefix that says what it is, the scopes around it as <length><name>_,
// and its own name. Python functions have a running number before their name: wrappers odd ones,
// bodies even ones, and the first body none (Cython/Compiler/Naming.py, Symtab.py, Nodes.py):
//
//   __pyx_pw_  5numpy_ 6random_ 8_mt19937_ 7MT19937_ 5 jumped      the wrapper that Python calls
//   __pyx_pf_  5numpy_ 6random_ 8_mt19937_ 7MT19937_ 4 jumped      its body
//   __pyx_f_   5numpy_ 6random_ 7_common_ disc                     a cdef function
#include "symbolize/parts.h"

#include <string.h>

#include "base/compiler.h"

enum shape { ODD, EVEN, PLAIN, MODULE };

static const struct kind {
	const char *prefix;
	enum shape shape;
	const char *what; // after the name
} kinds[] = {
	{ "__pyx_pw_", ODD, " (Cython)" },
	{ "__pyx_pf_", EVEN, " (Cython)" },
	{ "__pyx_gb_", EVEN, " (Cython)" },
	{ "__pyx_f_", PLAIN, " (Cython)" },
	{ "__pyx_getprop_", PLAIN, " (Cython)" },
	{ "__pyx_setprop_", PLAIN, " (Cython)" },
	{ "__pyx_tp_new_", PLAIN, ".__new__ (Cython)" },
	{ "__pyx_tp_dealloc_", PLAIN, ".__del__ (Cython)" },
	{ "__pyx_tp_traverse_", PLAIN, " traversal (Cython)" },
	{ "__pyx_tp_clear_", PLAIN, " clearing (Cython)" },
	{ "__pyx_pymod_exec_", MODULE, " module body (Cython)" },
	{ "__pyx_pymod_create_", MODULE, " module creation (Cython)" },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

// The scope at *p, with its length and underscore; *p moves behind it. Empty: there is none.
static struct fm_str take_scope(const char **p, const char *end)
{
	const char *at = *p;
	size_t len = 0;
	while (at < end && is_digit(*at) && len < 10000)
		len = len * 10 + (size_t)(*at++ - '0');
	if (at == *p || !len || (size_t)(end - at) <= len || at[len] != '_' || is_digit(*at))
		return (struct fm_str){ "", 0 };
	*p = at + len + 1;
	return (struct fm_str){ at, (uint32_t)len };
}

static bool is_numbered(const char *p, const char *end)
{
	const char *at = p;
	while (at < end && is_digit(*at))
		at++;
	return at > p && at < end;
}

// "3foo_bar" may be the scope foo or function number 3, foo_bar. It is the function when the number
// fits its kind and what follows would be no name of that kind.
static bool is_function(enum shape shape, struct fm_str scope, const char *next, const char *end)
{
	if (shape == PLAIN || is_numbered(next, end))
		return false;
	bool is_odd = scope.len % 2;
	if (shape == ODD)
		return is_odd;
	return !is_odd &&
	       !(end - next >= 2 && next[0] == '_' && next[1] == '_'); // Class.__init__ is often the first body
}

bool fm_cython_name(struct fm_buf *b, struct fm_str symbol)
{
	const char *p = symbol.p, *end = symbol.p + symbol.len;
	if (symbol.len > 11 && !memcmp(p, "__pyx_fuse_", 11)) { // one copy of a function with fused types
		p += 11;
		while (p < end && (is_digit(*p) || (*p == '_' && p + 1 < end && is_digit(p[1]))))
			p++;
	}
	const struct kind *kind = NULL;
	for (size_t i = 0; i < FM_ARRAY_LEN(kinds) && !kind; i++) {
		size_t n = strlen(kinds[i].prefix);
		if ((size_t)(end - p) > n && !memcmp(p, kinds[i].prefix, n)) {
			kind = &kinds[i];
			p += n;
		}
	}
	if (!kind)
		return false;
	size_t before = b->len;
	if (kind->shape != MODULE) {
		for (;;) {
			const char *next = p;
			struct fm_str scope = take_scope(&next, end);
			if (!scope.len || (b->len > before && is_function(kind->shape, scope, next, end)))
				break;
			fm_buf_bytes(b, scope.p, scope.len);
			fm_buf_u8(b, '.');
			p = next;
		}
		while (p < end && is_digit(*p))
			p++;
		if (b->len == before || p == end) { // no scope: not Cython's shape after all
			b->len = before;
			return false;
		}
	}
	fm_buf_bytes(b, p, (size_t)(end - p));
	fm_buf_str(b, kind->what);
	return true;
}
