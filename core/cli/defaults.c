#include "cli/defaults.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/toml.h"
#include "cli/project.h"

#define MAX_FILE_BYTES (1u << 20) // a pyproject.toml is a few kB

// Options keep pointers to their text: what they point to stays until the program ends.
static struct fm_arena kept;

static bool is_flag(const struct fm_option *o)
{
	return o->kind == FM_OPT_FLAG || o->kind == FM_OPT_NO_FLAG;
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

static enum fm_err apply_value(void *ctx, const struct fm_toml_value *v, struct fm_diag *diag)
{
	const struct file *file = ctx;
	const struct fm_option *o = find(file->options, v->key);
	int key_len = (int)FM_MIN(v->key.len, 60u), text_len = (int)FM_MIN(v->text.len, 100u);
	if (!o || o->kind == FM_OPT_IGNORED)
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
	if (v->kind == FM_TOML_OTHER || v->kind == FM_TOML_BOOL)
		expected = "one value in quotes, or a number";
	else if (!is_flag(o))
		expected = fm_option_store(o, kept_text(v));
	if (expected)
		return fm_diag_set(diag, FM_E_USAGE, "line %u: %s must be %s, not '%.*s'", v->line, o->name, expected,
				   text_len, v->text.p);
	return FM_OK;
}

static enum fm_err apply_file(const struct fm_option *options, bool is_strict, struct fm_diag *diag)
{
	char root[PATH_MAX], path[PATH_MAX + 32];
	if (!fm_project_root(root, sizeof(root)))
		return FM_OK;
	snprintf(path, sizeof(path), "%s/pyproject.toml", root);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? FM_OK
				       : fm_diag_set(diag, FM_E_IO, "cannot read %s: %s", path, strerror(errno));
	_cleanup_free_ char *text = fm_alloc(MAX_FILE_BYTES + 1);
	size_t len = fread(text, 1, MAX_FILE_BYTES + 1, f);
	if (len > MAX_FILE_BYTES)
		return fm_diag_set(diag, FM_E_UNSUPPORTED, "%s is larger than %u bytes", path, MAX_FILE_BYTES);
	struct fm_diag why;
	struct file file = { options, is_strict };
	enum fm_err err = fm_toml_read((struct fm_str){ text, (uint32_t)len }, "tool.fathom", apply_value, &file, &why);
	if (err)
		return fm_diag_set(diag, err, "%.200s, %.300s", path, why.text);
	return FM_OK;
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
