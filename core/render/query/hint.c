// SPDX-License-Identifier: Apache-2.0
#include "render/query/hint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "render/query/tables.h"

#define MAX_NAME 48

// How many letters have to be changed, added or left out to make one name of the other.
static unsigned distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);
	unsigned row[MAX_NAME + 1];
	if (n > MAX_NAME || m > MAX_NAME)
		return UINT32_MAX;
	for (size_t k = 0; k <= m; k++)
		row[k] = (unsigned)k;
	for (size_t i = 1; i <= n; i++) {
		unsigned diagonal = row[0];
		row[0] = (unsigned)i;
		for (size_t k = 1; k <= m; k++) {
			unsigned above = row[k];
			unsigned other = diagonal + (tolower((uint8_t)a[i - 1]) != tolower((uint8_t)b[k - 1]));
			row[k] = FM_MIN(other, FM_MIN(above, row[k - 1]) + 1);
			diagonal = above;
		}
	}
	return row[m];
}

struct nearest {
	const char *wanted;
	const struct fm_query_table *table;
	const char *name; // NULL: nothing is near
	unsigned score;   // the lower, the nearer
};

// One name that is in the other is near, however much is missing: "wall" for wall_s.
static void consider(struct nearest *best, const struct fm_query_table *table, const char *name, unsigned penalty)
{
	size_t n = strlen(best->wanted);
	unsigned letters = distance(best->wanted, name);
	bool is_part = n >= 3 && (strcasestr(name, best->wanted) || strcasestr(best->wanted, name));
	unsigned score = (is_part ? 1 : letters) * 4 + penalty;
	if ((is_part || letters <= 1 + n / 4) && (!best->name || score < best->score))
		*best = (struct nearest){ best->wanted, table, name, score };
}

static bool has_word(const char *sql, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = sql; (p = strcasestr(p, word)); p++) {
		bool begins = p == sql || !(isalnum((uint8_t)p[-1]) || p[-1] == '_');
		if (begins && !(isalnum((uint8_t)p[n]) || p[n] == '_'))
			return true;
	}
	return false;
}

static void find_column(struct nearest *best, const char *sql)
{
	const struct fm_query_table *t;
	for (unsigned i = 0; (t = fm_query_table_at(i)); i++)
		for (unsigned c = 0; c < t->n_columns; c++)
			consider(best, t, t->columns[c].name, has_word(sql, t->name) ? 0 : 2);
}

static void find_table(struct nearest *best)
{
	const struct fm_query_table *t;
	for (unsigned i = 0; (t = fm_query_table_at(i)); i++)
		consider(best, t, t->name, 0);
}

static const char *last_name(const char *dotted)
{
	const char *dot = strrchr(dotted, '.');
	return dot ? dot + 1 : dotted;
}

enum fm_err fm_query_explain(const char *message, const char *sql, struct fm_diag *diag)
{
	static const char no_column[] = "no such column: ", no_table[] = "no such table: ";
	struct nearest best = { 0 };
	char quoted[MAX_NAME + 3];
	if (!strncmp(message, no_column, sizeof(no_column) - 1)) {
		best.wanted = last_name(message + sizeof(no_column) - 1);
		snprintf(quoted, sizeof(quoted), "\"%.*s\"", MAX_NAME, best.wanted);
		if (strstr(sql, quoted))
			return fm_diag_set(diag, FM_E_USAGE, "%s; a text needs single quotes: '%.*s'", message,
					   MAX_NAME, best.wanted);
		find_column(&best, sql);
		if (best.name && !has_word(sql, best.table->name))
			return fm_diag_set(diag, FM_E_USAGE, "%s; the table %s has %s", message, best.table->name,
					   best.name);
	} else if (!strncmp(message, no_table, sizeof(no_table) - 1)) {
		best.wanted = last_name(message + sizeof(no_table) - 1);
		find_table(&best);
	} else {
		return fm_diag_set(diag, FM_E_USAGE, "%s", message);
	}
	if (best.name)
		return fm_diag_set(diag, FM_E_USAGE, "%s; did you mean %s?", message, best.name);
	return fm_diag_set(diag, FM_E_USAGE, "%s; 'fathom query --tables' lists tables and columns", message);
}
