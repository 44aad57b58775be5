// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/owner.h"
#include "base/toml.h"
#include "cli/project/project.h"

#define MAX_FILE_BYTES (1u << 20) // a pyproject.toml is a few kB

// Options keep pointers to their text: what they point to stays until the program ends.
static struct fm_arena kept;

static bool is_flag(const struct fm_option *o)
{
	return o->kind == FM_OPT_FLAG || o->kind == FM_OPT_NO_FLAG;
}

// A project's file comes with the project, often from strangers. It may say how to measure; what
// runs, who may watch and where files are written is for whoever types the command.
static bool is_personal(const struct fm_option *o)
{
	static const char *const names[] = { "python", "listen", "token", "output-dir" };
	for (size_t i = 0; i < FM_ARRAY_LEN(names); i++)
		if (!strcmp(o->name, names[i]))
			return true;
	return false;
}

struct file {
	const struct fm_option *options;
	bool is_strict;
};

static const struct fm_option *find(const struct fm_option *options, struct fm_str key)
{
	for (const struct fm_option *o = options; o->kind; o++) {
		size_t i = 0;
		while (o->name && i < key.len && o->name[i] &&
		       (o->name[i] == key.p[i] || (o->name[i] == '-' && key.p[i] == '_')))
			i++;
		if (o->name && i == key.len && !o->name[i])
			return o;
	}
	return NULL;
}

static const char *kept_text(const struct fm_toml_value *v)
{
	char *copy = fm_arena_strdup(&kept, v->text.p, v->text.len);
	size_t n = 0;
	for (size_t i = 0; v->kind == FM_TOML_NUMBER && i <= v->text.len; i++) // 10_000 is ten thousand
		if (copy[i] != '_')
			copy[n++] = copy[i];
	return copy;
}

// Of a list of regular expressions: one that fits whatever one of them does.
static void add_pattern(void *ctx, struct fm_str pattern)
{
	struct fm_buf *all = ctx;
	fm_buf_str(all, all->len ? "|(" : "(");
	fm_buf_bytes(all, pattern.p, pattern.len);
	fm_buf_u8(all, ')');
}

static enum fm_err apply_value(void *ctx, const struct fm_toml_value *v, struct fm_diag *diag)
{
	const struct file *file = ctx;
	const struct fm_option *o = find(file->options, v->key);
	int key_len = (int)FM_MIN(v->key.len, 60u), text_len = (int)FM_MIN(v->text.len, 100u);
	if (o && is_personal(o))
		return fm_diag_set(diag, FM_E_USAGE,
				   "line %u: %s is not for a project's file; give --%s or its FATHOM_* variable",
				   v->line, o->name, o->name);
	bool is_hidden = o && file->is_strict && !o->help; // not for people, so not for their files
	if (!o || o->kind == FM_OPT_IGNORED || is_hidden)
		return file->is_strict
			       ? fm_diag_set(
					 diag, FM_E_USAGE,
					 "line %u: [tool.fathom] has no '%.*s'; 'fathom run --help' lists the options",
					 v->line, key_len, v->key.p)
			       : FM_OK;
	if (v->kind == FM_TOML_BOOL && (is_flag(o) || o->kind == FM_OPT_OPTIONAL_TEXT)) {
		if (v->text.p[0] == 't')
			fm_option_store(o, NULL);
		return FM_OK;
	}
	const char *expected = "true or false";
	if (v->kind == FM_TOML_OTHER && !strcmp(o->name, "redact-also")) {
		struct fm_buf all = { 0 };
		bool is_list = fm_toml_strings(v->text, add_pattern, &all);
		expected =
			is_list ? fm_option_store(o, all.len ? fm_arena_strdup(&kept, (char *)all.data, all.len) : NULL)
				: "a list of regular expressions in quotes";
		fm_buf_deinit(&all);
	} else if (v->kind == FM_TOML_OTHER || v->kind == FM_TOML_BOOL)
		expected = "one value in quotes, or a number";
	else if (!is_flag(o))
		expected = fm_option_store(o, kept_text(v));
	if (expected)
		return fm_diag_set(diag, FM_E_USAGE, "line %u: %s must be %s, not '%.*s'", v->line, o->name, expected,
				   text_len, v->text.p);
	return FM_OK;
}

// Up to MAX_FILE_BYTES + 1 bytes into text.
static size_t read_all(int fd, char *text)
{
	size_t len = 0;
	for (ssize_t n; len <= MAX_FILE_BYTES && (n = read(fd, text + len, MAX_FILE_BYTES + 1 - len)) > 0;)
		len += (size_t)n;
	return len;
}

// A file that is not believed costs a line where its owner may have meant us: most projects' files
// do not.
static void say_not_obeyed(const char *path, const char *subject, const char *why)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *text = fm_alloc(MAX_FILE_BYTES + 1);
	struct stat st;
	bool is_regular = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	if (!is_regular || memmem(text, read_all(fd, text), "fathom", strlen("fathom")))
		fm_say("%.500s is ignored: %s %s; give its options on the command line, or as FATHOM_* variables", path,
		       subject, why);
}

static enum fm_err apply_text(struct file *file, const char *path, struct fm_str text, struct fm_diag *diag)
{
	struct fm_diag why;
	enum fm_err err = fm_toml_read(text, "tool.fathom", apply_value, file, &why);
	return err ? fm_diag_set(diag, err, "%.200s, %.300s", path, why.text) : FM_OK;
}

static enum fm_err apply_file(const struct fm_option *options, bool is_strict, struct fm_diag *diag)
{
	char root[PATH_MAX], path[PATH_MAX + 32];
	const char *why_not;
	bool is_project = fm_project_root(root, sizeof(root), &why_not);
	if (!is_project && !why_not)
		return FM_OK;
	snprintf(path, sizeof(path), "%s/pyproject.toml", root);
	if (!is_project) {
		if (access(path, F_OK) == 0)
			say_not_obeyed(path, "its folder", why_not);
		return FM_OK;
	}
	_cleanup_close_ int fd = fm_open_believed(path, geteuid(), &why_not);
	if (fd < 0 && why_not) {
		say_not_obeyed(path, "it", why_not);
		return FM_OK;
	}
	if (fd < 0)
		return errno == ENOENT ? FM_OK
				       : fm_diag_set(diag, FM_E_IO, "cannot read %s: %s", path, strerror(errno));
	_cleanup_free_ char *text = fm_alloc(MAX_FILE_BYTES + 1);
	size_t len = read_all(fd, text);
	if (len > MAX_FILE_BYTES)
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "%s is larger than %u bytes", path, MAX_FILE_BYTES);
	return apply_text(&(struct file){ options, is_strict }, path, (struct fm_str){ text, (uint32_t)len }, diag);
}

static bool is_one_of(const char *value, const char *const *words)
{
	for (; *words; words++)
		if (!strcasecmp(value, *words))
			return true;
	return false;
}

static enum fm_err apply_variable(const struct fm_option *o, const char *name, const char *value, struct fm_diag *diag)
{
	static const char *const yes[] = { "1", "true", "yes", "on", NULL }, *const no[] = { "",   "0",   "false",
											     "no", "off", NULL };
	const char *expected = NULL;
	if (!is_flag(o))
		expected = fm_option_store(o, value);
	else if (is_one_of(value, yes))
		fm_option_store(o, NULL);
	else if (!is_one_of(value, no))
		expected = "1 or 0";
	if (expected)
		return fm_diag_set(diag, FM_E_USAGE, "%s must be %s, not '%.100s'", name, expected, value);
	return FM_OK;
}

enum fm_err fm_defaults_apply(const struct fm_option *options, bool is_strict, struct fm_diag *diag)
{
	enum fm_err err = apply_file(options, is_strict, diag);
	for (const struct fm_option *o = options; !err && o->kind; o++) {
		char name[64];
		if (!o->name || o->kind == FM_OPT_IGNORED)
			continue;
		int n = snprintf(name, sizeof(name), "FATHOM_%s", o->name);
		for (int i = 0; i < n && i < (int)sizeof(name); i++)
			name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
		const char *value = getenv(name);
		if (value)
			err = apply_variable(o, name, value, diag);
	}
	return err;
}
