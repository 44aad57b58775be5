// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

static bool takes_value(enum fm_option_kind kind)
{
	return kind == FM_OPT_TEXT || kind == FM_OPT_TEXTS || kind == FM_OPT_CHOICE || kind == FM_OPT_UINT ||
	       kind == FM_OPT_INT || kind == FM_OPT_REAL;
}

static const struct fm_option *find_by_name(const struct fm_option *options, const char *name, size_t len)
{
	for (const struct fm_option *o = options; o->kind; o++)
		if (o->name && strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	return NULL;
}

static const struct fm_option *find_by_letter(const struct fm_option *options, char letter)
{
	for (const struct fm_option *o = options; o->kind; o++)
		if (o->letter == letter)
			return o;
	return NULL;
}

// The word as the table has it, whatever its case here; NULL when it is none of them. Kept until
// the program ends.
static const char *one_of(const char *words, const char *value)
{
	size_t len = strlen(value);
	for (const char *w = words; len && *w;) {
		size_t n = strcspn(w, "|");
		if (n == len && !strncasecmp(w, value, n))
			return memcmp(w, value, n) ? fm_strdup_n(w, n) : value;
		w += n + (w[n] == '|');
	}
	return NULL;
}

static bool parse_uint(const char *text, uint64_t *ret)
{
	if (*text < '0' || *text > '9') // strtoull would take "-1" and " 1"
		return false;
	errno = 0;
	char *end;
	uint64_t v = strtoull(text, &end, 10), scale = 1;
	if (*end == 'k')
		scale = 1000, end++;
	else if (*end == 'M')
		scale = 1000000, end++;
	if (errno || *end || __builtin_mul_overflow(v, scale, &v))
		return false;
	*ret = v;
	return true;
}

static bool parse_int(const char *text, int64_t *ret)
{
	const char *digits = text + (*text == '-' || *text == '+');
	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	char *end;
	int64_t v = strtoll(text, &end, 10);
	if (errno || *end)
		return false;
	*ret = v;
	return true;
}

static bool parse_real(const char *text, double *ret)
{
	if ((*text < '0' || *text > '9') && *text != '.')
		return false;
	char *end;
	double v = strtod(text, &end);
	if (*end == '%' || *end == 's')
		end++;
	if (*end || !isfinite(v))
		return false;
	*ret = v;
	return true;
}

const char *fm_option_store(const struct fm_option *o, const char *value)
{
	switch (o->kind) {
	case FM_OPT_FLAG:
		*(bool *)o->target = true;
		return NULL;
	case FM_OPT_NO_FLAG:
		*(bool *)o->target = false;
		return NULL;
	case FM_OPT_TEXT:
	case FM_OPT_OPTIONAL_TEXT:
		*(const char **)o->target = value ? value : "";
		return NULL;
	case FM_OPT_TEXTS: {
		struct fm_option_texts *texts = o->target;
		if (texts->n == FM_OPTION_MAX_TEXTS)
			return "given less often";
		texts->v[texts->n++] = value;
		return NULL;
	}
	case FM_OPT_CHOICE:
		value = one_of(o->argument, value);
		if (!value)
			return o->argument;
		*(const char **)o->target = value;
		return NULL;
	case FM_OPT_UINT:
		return parse_uint(value, o->target) ? NULL : "a whole number";
	case FM_OPT_INT:
		return parse_int(value, o->target) ? NULL : "a whole number";
	case FM_OPT_REAL:
		return parse_real(value, o->target) ? NULL : "a number that is not negative";
	case FM_OPT_NONE:
	case FM_OPT_IGNORED:
		break;
	}
	return NULL;
}

struct parse {
	const struct fm_usage *usage;
	char **argv;
	int argc, i;
	bool is_help;
	bool is_ended; // the last option was taken: the rest are operands
};

// The rows of a table and of a command line meet here. False: a line was said.
static bool take(struct parse *p, const struct fm_option *o, const char *shown, int shown_len, const char *value)
{
	const char *command = p->usage->command;
	if (takes_value(o->kind)) {
		if (!value && p->i + 1 < p->argc)
			value = p->argv[++p->i];
		if (!value) {
			fm_say("%.*s needs a value (%s); 'fathom %s --help' explains it", shown_len, shown, o->argument,
			       command);
			return false;
		}
	} else if (value && o->kind != FM_OPT_OPTIONAL_TEXT) {
		fm_say("%.*s takes no value; 'fathom %s --help' explains it", shown_len, shown, command);
		return false;
	}
	const char *expected = fm_option_store(o, value);
	if (expected)
		fm_say("%.*s must be %s, not '%s'", shown_len, shown, expected, value);
	return !expected;
}

static bool take_long(struct parse *p, const char *arg)
{
	const char *name = arg + 2;
	size_t len = strcspn(name, "=");
	const char *value = name[len] ? name + len + 1 : NULL;
	if (len == 4 && !memcmp(name, "help", 4) && !value) {
		p->is_help = true;
		return true;
	}
	const struct fm_option *o = find_by_name(p->usage->options, name, len);
	if (!o) {
		fm_say("unknown option --%.*s; 'fathom %s --help' lists the options", (int)len, name,
		       p->usage->command);
		return false;
	}
	return take(p, o, arg, (int)len + 2, value);
}

static bool is_number(const char *text)
{
	return text && *text && !text[strspn(text, "0123456789")];
}

static bool take_letters(struct parse *p, const char *arg)
{
	for (const char *c = arg + 1; *c; c++) {
		const char *behind = c[1] ? c + 1 : p->i + 1 < p->argc ? p->argv[p->i + 1] : NULL;
		if (*c == p->usage->number_letter && is_number(behind))
			return take(p,
				    find_by_name(p->usage->options, p->usage->number_option,
						 strlen(p->usage->number_option)),
				    arg, (int)(c + 1 - arg), c[1] ? c + 1 : NULL);
		const struct fm_option *o = find_by_letter(p->usage->options, *c);
		if (!o && *c == 'h') {
			p->is_help = true;
			return true;
		}
		if (!o) {
			fm_say("unknown option -%c; 'fathom %s --help' lists the options", *c, p->usage->command);
			return false;
		}
		char shown[3] = { '-', *c, 0 };
		if (takes_value(o->kind)) {
			const char *value = c[1] == '=' ? c + 2 : c[1] ? c + 1 : NULL;
			p->is_ended |= *c == p->usage->last_option;
			return take(p, o, shown, 2, value);
		}
		if (!take(p, o, shown, 2, NULL))
			return false;
	}
	return true;
}

static unsigned help_width(void)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 40)
		return 100;
	return FM_MIN(size.ws_col, 110);
}

bool fm_options_parse(const struct fm_usage *usage, int argc, char **argv, struct fm_operands *ret, int *ret_exit)
{
	struct parse p = { .usage = usage, .argv = argv, .argc = argc };
	*ret_exit = FM_EXIT_USAGE;
	int n_operands = 0;
	bool only_operands = false;
	// Operands are moved to the front, so that argv[1 .. n_operands] are theirs; what is
	// overwritten was read already.
	for (p.i = 1; p.i < argc && !p.is_help; p.i++) {
		char *arg = argv[p.i];
		only_operands |= p.is_ended;
		if (only_operands || arg[0] != '-' || !arg[1]) {
			argv[++n_operands] = arg;
			only_operands |= usage->stop_at_first_operand;
		} else if (!strcmp(arg, "--")) {
			only_operands = true;
		} else if (!(arg[1] == '-' ? take_long(&p, arg) : take_letters(&p, arg))) {
			return false;
		}
	}
	if (p.is_help) {
		fm_options_help(usage, stdout, help_width());
		*ret_exit = FM_EXIT_OK;
		return false;
	}
	if ((unsigned)n_operands < usage->min_operands) {
		fm_say("%s; 'fathom %s --help' has examples", usage->missing_operand, usage->command);
		return false;
	}
	if ((unsigned)n_operands > usage->max_operands) {
		fm_say("'%s' is one argument too many; 'fathom %s --help' shows the usage",
		       argv[usage->max_operands + 1], usage->command);
		return false;
	}
	if (n_operands + 1 < argc)
		argv[n_operands + 1] = NULL;
	*ret = (struct fm_operands){ argv + 1, n_operands };
	return true;
}

const char *fm_options_misplaced(const struct fm_option *options, char **words, int n)
{
	for (int i = 0; i < n && strcmp(words[i], "--") != 0; i++) {
		const char *name = words[i] + 2;
		const struct fm_option *o =
			strncmp(words[i], "--", 2) ? NULL : find_by_name(options, name, strcspn(name, "="));
		if (o && o->help)
			return words[i];
	}
	return NULL;
}

// Words of text from column `at`, continued at column `indent`; ends the line.
static void print_wrapped(FILE *out, const char *text, unsigned at, unsigned indent, unsigned width)
{
	bool is_first = true;
	while (*text) {
		size_t n = strcspn(text, " ");
		if (!is_first && at + 1 + n > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			is_first = true;
		}
		fprintf(out, "%s%.*s", is_first ? "" : " ", (int)n, text);
		at += (unsigned)n + !is_first;
		is_first = false;
		text += n + strspn(text + n, " ");
	}
	fputc('\n', out);
}

#define HELP_COLUMN 30

static void print_option(FILE *out, const struct fm_option *o, unsigned width)
{
	struct fm_buf left = { 0 };
	fm_buf_str(&left, "  ");
	if (o->letter)
		fm_buf_printf(&left, "-%c%s", o->letter, o->name ? ", " : "");
	else
		fm_buf_str(&left, "    ");
	if (o->name)
		fm_buf_printf(&left, "--%s", o->name);
	if (o->kind == FM_OPT_OPTIONAL_TEXT)
		fm_buf_printf(&left, "[=%s]", o->argument);
	else if (takes_value(o->kind))
		fm_buf_printf(&left, " %s", o->argument);
	fputs((const char *)left.data, out);
	unsigned at = (unsigned)left.len;
	if (at + 2 > HELP_COLUMN) {
		fputc('\n', out);
		at = 0;
	}
	fprintf(out, "%*s", (int)(HELP_COLUMN - at), "");
	print_wrapped(out, o->help, HELP_COLUMN, HELP_COLUMN, width);
	fm_buf_deinit(&left);
}

void fm_options_help(const struct fm_usage *usage, FILE *out, unsigned width)
{
	const char *operands = usage->operands ? usage->operands : "";
	fprintf(out, "usage: fathom %s [options]%s%s\n\n", usage->command, *operands ? " " : "", operands);
	print_wrapped(out, usage->about, 0, 0, width);
	fputs("\nOptions:\n", out);
	bool has_h = find_by_letter(usage->options, 'h') != NULL;
	for (const struct fm_option *o = usage->options; o->kind; o++)
		if (o->help)
			print_option(out, o, width);
	print_option(out, &(struct fm_option){ "help", has_h ? 0 : 'h', FM_OPT_FLAG, NULL, NULL, "this text" }, width);
	if (usage->examples)
		fprintf(out, "\nExamples:\n%s", usage->examples);
}
