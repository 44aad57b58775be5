// SPDX-License-Identifier: Apache-2.0
#include "symbolize/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/compiler.h"

// libiberty's, whose header lies elsewhere on each distribution, and on some nowhere: libiberty/demangle.h
// (Debian), demangle.h (Fedora, RHEL).
char *cplus_demangle(const char *mangled, int options);
#define DMGL_PARAMS (1 << 0)
#define DMGL_ANSI (1 << 1)
#define DMGL_AUTO (1 << 8)

// Longer names come from templates gone wild or from hostile files; demangling them costs more than
// it tells.
#define MAX_SYMBOL_BYTES 8192
#define MAX_LIST 20 // characters of a template argument list that a table has room for: <double, 3>, <int, char>

// Where a compiler-made suffix begins, or the length. GCC: .cold .part.0 .isra.0 .constprop.0
// .lto_priv.0; LLVM:
// .llvm.123; the linker: @@GLIBC_2.2.5
static size_t plain_length(const char *symbol)
{
	static const char *const suffixes[] = {
		".cold", ".part.", ".isra.", ".constprop.", ".lto_priv.", ".llvm.", "@"
	};
	size_t len = strlen(symbol);
	for (size_t i = 0; i < FM_ARRAY_LEN(suffixes); i++) {
		const char *at = strstr(symbol, suffixes[i]);
		if (at && at > symbol)
			len = FM_MIN(len, (size_t)(at - symbol));
	}
	return len;
}

static bool starts_with(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);
	return (size_t)(end - p) >= n && !memcmp(p, word, n);
}

// The '>' that closes the '<' at p, or NULL. Parentheses and arrows inside are passed over.
static const char *closing(const char *p, const char *end)
{
	int depth = 0;
	for (; p < end; p++) {
		if (*p == '<')
			depth++;
		else if (*p == '>' && p[-1] != '-' && p[-1] != '=' && --depth == 0)
			return p;
	}
	return NULL;
}

// The end of "operator<<" and its kin when p stands behind the word operator, or p.
static const char *skip_operator(const char *p, const char *end)
{
	static const char *const operators[] = { "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">" };
	for (size_t i = 0; i < FM_ARRAY_LEN(operators); i++)
		if (starts_with(p, end, operators[i]))
			return p + strlen(operators[i]);
	return p;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct fm_str fm_demangle_shorten(struct fm_arena *arena, struct fm_str name, unsigned max_list)
{
	struct fm_buf b = { 0 };
	const char *p = name.p, *end = name.p + name.len;
	while (p < end) {
		if (starts_with(p, end, "operator") && (p == name.p || !is_word(p[-1]))) {
			const char *after = skip_operator(p + strlen("operator"), end);
			fm_buf_bytes(&b, p, (size_t)(after - p));
			p = after;
			continue;
		}
		if (*p == '<') {
			// Rust: "<Vec<T> as Trait>::f" and "slice::<impl [T]>::len" say what f
			// belongs to. Only what is inside them may go; "f::<T>" and "Vec<T>" are
			// argument lists.
			bool is_path = p == name.p || p[-1] == '<' || p[-1] == ' ' || p[-1] == '&' || p[-1] == '(' ||
				       starts_with(p, end, "<impl ");
			const char *close = closing(p, end);
			if (!is_path && close && close - p - 1 > (ptrdiff_t)max_list) {
				fm_buf_str(&b, "<...>");
				p = close + 1;
				continue;
			}
		}
		fm_buf_u8(&b, (uint8_t)*p++);
	}
	struct fm_str ret = { fm_arena_strdup(arena, (char *)b.data, b.len), (uint32_t)b.len };
	fm_buf_deinit(&b);
	return ret;
}

// PyO3's wrappers: crate::__pyfunction_NAME and Class::__pymethod_NAME__ are what Python calls.
static bool name_pyo3(struct fm_buf *b, struct fm_str nice)
{
	static const struct {
		const char *start, *end;
	} kinds[] = { { "__pyfunction_", "" }, { "__pymethod_", "__" } };
	for (size_t i = 0; i < FM_ARRAY_LEN(kinds); i++) {
		const char *at = memmem(nice.p, nice.len, kinds[i].start, strlen(kinds[i].start));
		if (!at)
			continue;
		const char *name = at + strlen(kinds[i].start), *end = name, *stop = nice.p + nice.len;
		while (end < stop && is_word(*end))
			end++;
		size_t len = (size_t)(end - name), cut = strlen(kinds[i].end);
		if (len > cut && !memcmp(end - cut, kinds[i].end, cut))
			len -= cut;
		if (!len)
			return false;
		fm_buf_bytes(b, nice.p, (size_t)(at - nice.p));
		fm_buf_bytes(b, name, len);
		fm_buf_str(b, " (PyO3)");
		return true;
	}
	return false;
}

static struct fm_str keep(struct fm_arena *arena, const void *p, size_t len)
{
	return (struct fm_str){ fm_arena_strdup(arena, p, len), (uint32_t)len };
}

static struct fm_str with_suffix(struct fm_arena *arena, struct fm_str s, const char *suffix)
{
	size_t n = strlen(suffix);
	char *whole = fm_arena_alloc(arena, s.len + n + 1);
	memcpy(whole, s.p, s.len);
	memcpy(whole + s.len, suffix, n);
	return (struct fm_str){ whole, s.len + (uint32_t)n };
}

struct fm_pretty fm_demangle(struct fm_arena *arena, struct fm_str symbol)
{
	const char *whole = fm_arena_strdup(arena, symbol.p, symbol.len);
	size_t len = plain_length(whole);
	bool is_stub = symbol.len > 4 && !memcmp(symbol.p + symbol.len - 4, "@plt", 4);
	char *plain = fm_arena_strdup(arena, whole, len);
	struct fm_pretty ret = { { plain, (uint32_t)len }, { plain, (uint32_t)len } };
	if (is_stub) {
		struct fm_pretty inner = len < symbol.len ? fm_demangle(arena, ret.name) : ret;
		ret.name = with_suffix(arena, inner.name, "@plt");
		ret.full = with_suffix(arena, inner.full, "@plt");
		return ret;
	}
	if (len > MAX_SYMBOL_BYTES || plain[0] != '_')
		return ret;
	struct fm_buf b = { 0 };
	if (fm_cython_name(&b, ret.full)) {
		ret.name = keep(arena, b.data, b.len);
	} else {
		_cleanup_free_ char *nice = cplus_demangle(plain, DMGL_AUTO | DMGL_ANSI);
		_cleanup_free_ char *full = nice ? cplus_demangle(plain, DMGL_AUTO | DMGL_ANSI | DMGL_PARAMS) : NULL;
		if (nice && *nice) {
			struct fm_str text = fm_str_of(nice);
			if (name_pyo3(&b, text))
				text = (struct fm_str){ (char *)b.data, (uint32_t)b.len };
			ret.name = fm_demangle_shorten(arena, text, MAX_LIST);
			const char *most = full && *full ? full : nice;
			ret.full = keep(arena, most, strlen(most));
		}
	}
	fm_buf_deinit(&b);
	return ret;
}
