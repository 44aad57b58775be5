// SPDX-License-Identifier: Apache-2.0
#include "format/redact.h"

#include <regex.h>
#include <stdlib.h>

#include "base/mem.h"

// A longer line is data, and is masked unread: matching takes time by the square of it, at worst.
#define MAX_LINE_BYTES 8192u

// How secrets are called. What follows is no letter: a tokenizer is none.
#define KEY                                                                                                       \
	"(passw(or)?d|passphrase|secret|token|(api|access|private|auth|signing|encryption)[_-]?key|credentials?|" \
	"authorization|bearer)"
// The value follows in the same word: name=..., "name": ...
#define IN_WORD KEY "[]\"')]*[[:space:]]*[=:]+[[:space:]]*|bearer[[:space:]]+"
// The value is the next word.
#define OPTION "^(--?[a-z0-9_.-]*" KEY "|bearer)$"
// In a line: a name, and behind it something in quotes; or a command for a shell.
#define IN_LINE KEY "[]\"')]*[[:space:]]*[=:,(].*[\"'`]|bearer[[:space:]]+[a-z0-9]|^[[:space:]]*[!%].*" KEY
// What is a secret by its looks: a password in an address; keys of clouds and services; tokens of
// three parts; private keys.
#define LOOKS                                                                                            \
	"://[^/@:[:space:]]*:[^/@[:space:]]+@|A(KIA|SIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|"        \
	"github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}|"           \
	"sk[-_][A-Za-z0-9_-]{20,}|AIza[0-9A-Za-z_-]{30,}|eyJ[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]{10,}\\.|" \
	"[0-9a-fA-F]{40,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
#define KEY_END "-----END [A-Z ]*PRIVATE KEY-----"

enum { WORD, NEXT, LINE, SHAPE, END, N_OWN, ALSO = N_OWN, N_RULES };

struct fm_redact {
	regex_t rules[N_RULES];
	unsigned n_rules; // ALSO may be missing
};

// Where the rule fits in text from `from` on. Of at most MAX_LINE_BYTES: REG_STARTEND is told the
// end, but sanitizers look for a NUL as well.
static bool find(const struct fm_redact *r, unsigned rule, struct fm_str text, size_t from, regmatch_t *ret)
{
	char copy[MAX_LINE_BYTES + 1];
	if (rule >= r->n_rules || from > text.len || text.len > MAX_LINE_BYTES)
		return false;
	memcpy(copy, text.len ? text.p : "", text.len);
	copy[text.len] = 0;
	*ret = (regmatch_t){ .rm_so = (regoff_t)from, .rm_eo = (regoff_t)text.len };
	return regexec(&r->rules[rule], copy, 1, ret, REG_STARTEND | (from ? REG_NOTBOL : 0)) == 0;
}

static bool has(const struct fm_redact *r, unsigned rule, struct fm_str text)
{
	regmatch_t ignored;
	return find(r, rule, text, 0, &ignored);
}

enum fm_err fm_redact_create(const char *also, struct fm_redact **ret, struct fm_diag *diag)
{
	static const struct {
		const char *text;
		int flags;
	} own[N_OWN] = {
		{ IN_WORD, REG_ICASE }, { OPTION, REG_ICASE }, { IN_LINE, REG_ICASE }, { LOOKS, 0 }, { KEY_END, 0 }
	};
	struct fm_redact *r = fm_alloc(sizeof(*r));
	int failed = 0;
	for (; r->n_rules < N_OWN && !failed; r->n_rules += !failed)
		failed = regcomp(&r->rules[r->n_rules], own[r->n_rules].text, own[r->n_rules].flags | REG_EXTENDED);
	if (!failed && also && *also) {
		failed = regcomp(&r->rules[ALSO], also, REG_EXTENDED);
		r->n_rules += !failed;
	}
	bool is_empty = !failed && has(r, ALSO, FM_STR_LIT("")); // it would fit everywhere, and mask nothing
	if (!failed && !is_empty) {
		*ret = r;
		return FM_OK;
	}
	char why[128] = "it matches the empty string";
	if (failed)
		regerror(failed, &r->rules[r->n_rules], why, sizeof(why));
	fm_redact_destroy(r);
	return fm_diag_set(diag, FM_E_USAGE, "--redact-also wants a regular expression, not '%.100s': %s",
			   also ? also : "", why);
}

void fm_redact_destroy(struct fm_redact *r)
{
	for (unsigned i = 0; r && i < r->n_rules; i++)
		regfree(&r->rules[i]);
	free(r);
}

// Appends text with whatever fits the rule masked. True when something was.
static bool mask_matches(const struct fm_redact *r, unsigned rule, struct fm_str text, struct fm_buf *out)
{
	size_t at = 0;
	regmatch_t m;
	bool is_any = false;
	while (at < text.len && find(r, rule, text, at, &m) && m.rm_eo > m.rm_so) {
		fm_buf_bytes(out, text.p + at, (size_t)m.rm_so - at);
		fm_buf_str(out, FM_REDACTED);
		at = (size_t)m.rm_eo;
		is_any = true;
	}
	fm_buf_bytes(out, text.p + at, text.len - at);
	return is_any;
}

static bool mask_word(const struct fm_redact *r, struct fm_str word, struct fm_buf *out)
{
	struct fm_buf some = { 0 };
	regmatch_t m;
	bool is_named = find(r, WORD, word, 0, &m) && (size_t)m.rm_eo < word.len;
	if (is_named)
		word.len = (uint32_t)m.rm_eo;
	bool is_any = mask_matches(r, SHAPE, word, &some);
	struct fm_str rest = { some.data ? (const char *)some.data : "", (uint32_t)some.len };
	is_any |= mask_matches(r, ALSO, rest, out);
	if (is_named)
		fm_buf_str(out, FM_REDACTED);
	fm_buf_deinit(&some);
	return is_any || is_named;
}

uint32_t fm_redact_command(const struct fm_redact *r, struct fm_str joined, struct fm_buf *out)
{
	uint32_t n_masked = 0;
	bool is_next = false; // this word is the value of the one before
	for (const char *p = joined.p, *end = joined.p + joined.len; p < end;) {
		const char *nul = memchr(p, 0, (size_t)(end - p));
		struct fm_str word = { p, (uint32_t)((nul ? nul : end) - p) };
		if (word.len > MAX_LINE_BYTES || (is_next && word.len)) {
			fm_buf_str(out, FM_REDACTED);
			n_masked++;
		} else {
			n_masked += mask_word(r, word, out);
		}
		is_next = !is_next && has(r, NEXT, word);
		if (nul)
			fm_buf_u8(out, 0);
		p = nul ? nul + 1 : end;
	}
	return n_masked;
}

// Only its indentation is left.
static void mask_line(struct fm_str line, struct fm_buf *out)
{
	uint32_t n = 0;
	while (n < line.len && (line.p[n] == ' ' || line.p[n] == '\t'))
		n++;
	fm_buf_bytes(out, line.p, n);
	fm_buf_str(out, FM_REDACTED);
}

uint32_t fm_redact_source(const struct fm_redact *r, struct fm_str text, struct fm_buf *out)
{
	uint32_t n_masked = 0;
	bool is_in_key = false; // a private key goes over several lines
	for (const char *p = text.p, *end = text.p + text.len; p < end;) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		struct fm_str line = { p, (uint32_t)((newline ? newline : end) - p) };
		bool is_long = line.len > MAX_LINE_BYTES;
		bool is_masked =
			is_in_key || is_long || has(r, SHAPE, line) || has(r, LINE, line) || has(r, ALSO, line);
		if (!is_long && memmem(line.p, line.len, "-----BEGIN", 10) && has(r, SHAPE, line))
			is_in_key = true;
		if (is_in_key && !is_long && has(r, END, line))
			is_in_key = false;
		if (is_masked)
			mask_line(line, out);
		else
			fm_buf_bytes(out, line.p, line.len);
		n_masked += is_masked;
		if (newline)
			fm_buf_u8(out, '\n');
		p = newline ? newline + 1 : end;
	}
	return n_masked;
}
