// SPDX-License-Identifier: Apache-2.0
// From a word to the function or line that is meant.
#include "aggregate/analysis/focus.h"

#include <stdlib.h>

#define MAX_COMPARED 64 // bytes of a name that are compared when nothing is called exactly that

enum { NO_MATCH, BY_LAST_PART, BY_NAME };

// "app.py:20"; false: there is no number behind the last colon.
static bool split_place(struct fm_str word, struct fm_str *ret_file, uint32_t *ret_line)
{
	uint32_t i = word.len;
	uint64_t line = 0, unit = 1;
	while (i && word.p[i - 1] >= '0' && word.p[i - 1] <= '9' && unit < 10000000000) {
		line += (uint64_t)(word.p[--i] - '0') * unit;
		unit *= 10;
	}
	if (i == word.len || i < 2 || word.p[i - 1] != ':' || !line || line > UINT32_MAX)
		return false;
	*ret_file = (struct fm_str){ word.p, i - 1 };
	*ret_line = (uint32_t)line;
	return true;
}

static bool ends_with(struct fm_str s, struct fm_str end, char before)
{
	return s.len >= end.len && !memcmp(s.p + s.len - end.len, end.p, end.len) &&
	       (s.len == end.len || s.p[s.len - end.len - 1] == before);
}

static bool is_file(struct fm_str file, struct fm_str word)
{
	return file.len && word.len && ends_with(file, word, '/');
}

// "module.Class.method" for "Class.method".
static bool is_in_module(struct fm_str module, struct fm_str name, struct fm_str word)
{
	return module.len && word.len == module.len + 1 + name.len && !memcmp(word.p, module.p, module.len) &&
	       word.p[module.len] == '.' && ends_with(word, name, '.');
}

static int match_name(struct fm_str name, struct fm_str word)
{
	return fm_str_eq(name, word)                                                            ? BY_NAME
	       : ends_with(name, word, '.') || (ends_with(name, word, ':') && word.p[0] != ':') ? BY_LAST_PART
												: NO_MATCH;
}

static int match(const struct fm_function *f, struct fm_str word)
{
	if (fm_str_eq(f->full_name, word) || is_in_module(f->module, f->name, word))
		return BY_NAME;
	return match_name(f->name, word);
}

static int match_traced(const struct fm_traced_function *f, struct fm_str word)
{
	return fm_str_eq(f->plain_name, word) ? FM_MAX(BY_LAST_PART, match_name(f->name, word))
					      : match_name(f->name, word);
}

// A def, not the lambda or comprehension that stands somewhere in a line.
static bool begins_at(struct fm_str name, struct fm_str file, uint32_t at, struct fm_str wanted_file, uint32_t line)
{
	bool is_inside = name.len && name.p[name.len - 1] == '>' && !ends_with(name, FM_STR_LIT("<module>"), '.');
	return at == line && !is_inside && is_file(file, wanted_file);
}

// ---- who is there ----

struct candidate {
	struct fm_focus_place place;
	uint64_t weight; // to be told first
	int how;
	unsigned distance;
};

struct search {
	struct fm_analysis *a;
	FM_VEC(struct candidate) all;
	struct fm_map of_traced; // traced function -> 1: a sampled one is the same
};

// Functions are the same in the samples and in the trace when name and place are.
static uint32_t traced_as(struct search *s, const struct fm_function *f)
{
	const struct fm_trace_stats *calls = s->a->calls;
	for (uint32_t i = 0; calls && i < calls->functions.n; i++) {
		const struct fm_traced_function *t = &calls->functions.items[i];
		if (t->line == f->line && fm_str_eq(t->name, f->name) && fm_str_eq(t->file, f->file)) {
			*fm_map_at(&s->of_traced, i, NULL) = 1;
			return i;
		}
	}
	return FM_NO_ID;
}

static void add_function(struct search *s, uint32_t function_id, uint64_t weight)
{
	struct fm_focus_place place = { .function_id = function_id, .traced = FM_NO_ID };
	fm_vec_push(&s->all, (struct candidate){ .place = place, .weight = weight });
}

static void add_functions(struct search *s)
{
	const struct fm_summary *t = fm_analysis_summary(s->a);
	uint32_t n = fm_symbolizer_n_functions(s->a->symbolizer);
	bool *is_there = fm_alloc(n + 1);
	for (size_t i = 0; i < t->functions.n; i++) {
		const struct fm_weight *w = &t->functions.items[i].total;
		is_there[t->functions.items[i].function_id] = true;
		add_function(s, t->functions.items[i].function_id,
			     fm_weight_cpu_ns(w) + w->ns[FM_CLASS_WAIT] + w->ns[FM_CLASS_GIL_WAIT]);
	}
	for (size_t i = 0; i < s->a->heap.functions.n; i++) {
		uint32_t id = s->a->heap.functions.items[i].function_id;
		if (id < n && !is_there[id])
			add_function(s, id, 0);
	}
	free(is_there);
}

static int by_weight(const void *pa, const void *pb)
{
	const struct candidate *a = pa, *b = pb;
	if (a->how != b->how)
		return FM_ORDER(b->how, a->how);
	if (a->distance != b->distance)
		return FM_ORDER(a->distance, b->distance);
	return a->weight != b->weight                         ? FM_ORDER(b->weight, a->weight)
	       : a->place.function_id != b->place.function_id ? FM_ORDER(a->place.function_id, b->place.function_id)
	       : a->place.file_id != b->place.file_id         ? FM_ORDER(a->place.file_id, b->place.file_id)
	       : a->place.line != b->place.line               ? FM_ORDER(a->place.line, b->place.line)
							      : FM_ORDER(a->place.traced, b->place.traced);
}

// Those that match best, as the answer. False: none does.
static bool take(struct search *s, bool is_exact, size_t n_most, struct fm_focus_found *ret)
{
	if (s->all.n)
		qsort(s->all.items, s->all.n, sizeof(*s->all.items), by_weight);
	ret->is_exact = is_exact;
	while (ret->n < s->all.n && s->all.items[ret->n].how == s->all.items[0].how &&
	       s->all.items[0].how != NO_MATCH && ret->n < n_most) {
		if (ret->n < FM_FOCUS_MAX_FOUND)
			ret->places[ret->n] = s->all.items[ret->n].place;
		ret->n++;
	}
	return ret->n > 0;
}

static bool find_by_name(struct search *s, struct fm_str word, struct fm_focus_found *ret)
{
	for (size_t i = 0; i < s->all.n; i++)
		s->all.items[i].how = match(fm_analysis_function(s->a, s->all.items[i].place.function_id), word);
	for (size_t i = 0; i < s->all.n; i++)
		if (s->all.items[i].how)
			s->all.items[i].place.traced =
				traced_as(s, fm_analysis_function(s->a, s->all.items[i].place.function_id));
	const struct fm_trace_stats *calls = s->a->calls;
	for (uint32_t i = 0; calls && i < calls->functions.n; i++) {
		int how = match_traced(&calls->functions.items[i], word);
		if (how && !fm_map_find(&s->of_traced, i))
			fm_vec_push(&s->all, (struct candidate){ .place = { FM_NO_ID, i, FM_NO_ID, 0 },
								 .weight = calls->functions.items[i].total_ns,
								 .how = how });
	}
	return take(s, true, SIZE_MAX, ret);
}

// The function that begins there: of several in one file, the heaviest.
static bool find_definition(struct search *s, struct fm_str file, uint32_t line, struct fm_focus_found *ret)
{
	const struct fm_trace_stats *calls = s->a->calls;
	for (size_t i = 0; i < s->all.n; i++) {
		const struct fm_function *f = fm_analysis_function(s->a, s->all.items[i].place.function_id);
		s->all.items[i].how = begins_at(f->name, f->file, f->line, file, line) ? BY_NAME : NO_MATCH;
		if (s->all.items[i].how)
			s->all.items[i].place.traced = traced_as(s, f);
	}
	for (uint32_t i = 0; calls && i < calls->functions.n; i++) {
		const struct fm_traced_function *f = &calls->functions.items[i];
		if (begins_at(f->name, f->file, f->line, file, line) && !fm_map_find(&s->of_traced, i))
			fm_vec_push(&s->all, (struct candidate){ .place = { FM_NO_ID, i, FM_NO_ID, line },
								 .weight = f->total_ns,
								 .how = BY_NAME });
	}
	struct fm_focus_found found = { 0 };
	if (!take(s, true, SIZE_MAX, &found))
		return false;
	size_t kept = 0; // one of each file
	for (size_t i = 0; i < FM_MIN(found.n, (size_t)FM_FOCUS_MAX_FOUND); i++) {
		bool is_known = false;
		for (size_t k = 0; k < kept; k++)
			is_known |=
				fm_str_eq(fm_focus_file(s->a, &found.places[k]), fm_focus_file(s->a, &found.places[i]));
		if (!is_known)
			found.places[kept++] = found.places[i];
	}
	found.n = found.n > FM_FOCUS_MAX_FOUND ? found.n : kept;
	*ret = found;
	return true;
}

// Lines of the file: that one, or else those that are near.
static bool find_line(struct search *s, struct fm_str file, uint32_t line, bool is_exact, struct fm_focus_found *ret)
{
	const struct fm_view *v = &s->a->view;
	struct fm_map seen = { 0 };
	s->all.n = 0;
	for (uint32_t i = 1; i < v->nodes.n; i++) {
		const struct fm_node *node = &v->nodes.items[i];
		bool is_new = false;
		if (!node->line || (is_exact && node->line != line))
			continue;
		const struct fm_function *f = fm_analysis_function(s->a, node->function_id);
		if (!is_file(f->file, file))
			continue;
		fm_map_at(&seen, (uint64_t)f->file_id << 32 | node->line, &is_new);
		if (is_new)
			fm_vec_push(&s->all,
				    (struct candidate){ .place = { FM_NO_ID, FM_NO_ID, f->file_id, node->line },
							.how = BY_NAME,
							.distance = node->line > line ? node->line - line
										      : line - node->line });
	}
	fm_map_deinit(&seen);
	return take(s, is_exact, is_exact ? SIZE_MAX : 5, ret);
}

// ---- what it may have been ----

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

// How many letters are to be put in, left out or changed (Levenshtein), small and capital alike.
static unsigned distance(struct fm_str a, struct fm_str b)
{
	unsigned row[MAX_COMPARED + 1];
	uint32_t n = FM_MIN(b.len, (uint32_t)MAX_COMPARED), m = FM_MIN(a.len, (uint32_t)MAX_COMPARED);
	for (uint32_t k = 0; k <= n; k++)
		row[k] = k;
	for (uint32_t i = 0; i < m; i++) {
		unsigned corner = row[0];
		row[0] = i + 1;
		for (uint32_t k = 0; k < n; k++) {
			unsigned changed = corner + (lower(a.p[i]) != lower(b.p[k]));
			corner = row[k + 1];
			row[k + 1] = FM_MIN(changed, FM_MIN(row[k], row[k + 1]) + 1);
		}
	}
	return row[n];
}

static struct fm_str last_part(struct fm_str name)
{
	uint32_t from = name.len;
	while (from && name.p[from - 1] != '.' && name.p[from - 1] != ':')
		from--;
	return (struct fm_str){ name.p + from, name.len - from };
}

// Names that half of the letters fit.
static void find_near(struct search *s, struct fm_str word, struct fm_focus_found *ret)
{
	for (size_t i = 0; i < s->all.n; i++) {
		struct candidate *c = &s->all.items[i];
		struct fm_str name = fm_focus_name(s->a, &c->place);
		c->distance = FM_MIN(distance(name, word), distance(last_part(name), word));
		c->how = c->distance <= FM_MIN(word.len, (uint32_t)MAX_COMPARED) / 2 ? BY_NAME : NO_MATCH;
	}
	take(s, false, 5, ret);
}

static void add_traced(struct search *s)
{
	for (uint32_t i = 0; s->a->calls && i < s->a->calls->functions.n; i++)
		if (!fm_map_find(&s->of_traced, i))
			fm_vec_push(&s->all, (struct candidate){ .place = { FM_NO_ID, i, FM_NO_ID, 0 },
								 .weight = s->a->calls->functions.items[i].total_ns });
}

void fm_focus_find(struct fm_focus_found *ret, struct fm_analysis *a, struct fm_str word)
{
	struct search s = { .a = a };
	struct fm_str file;
	uint32_t line;
	*ret = (struct fm_focus_found){ 0 };
	add_functions(&s);
	bool is_found = word.len && find_by_name(&s, word, ret);
	if (!is_found && split_place(word, &file, &line))
		is_found = find_definition(&s, file, line, ret) || find_line(&s, file, line, true, ret) ||
			   find_line(&s, file, line, false, ret);
	if (!is_found && word.len) {
		s.all.n = 0;
		add_functions(&s);
		add_traced(&s);
		find_near(&s, word, ret);
	}
	fm_map_deinit(&s.of_traced);
	fm_vec_deinit(&s.all);
}

struct fm_str fm_focus_name(const struct fm_analysis *a, const struct fm_focus_place *place)
{
	return place->function_id != FM_NO_ID ? fm_analysis_function(a, place->function_id)->name
	       : place->traced != FM_NO_ID    ? a->calls->functions.items[place->traced].name
					      : FM_STR_LIT("");
}

struct fm_str fm_focus_file(const struct fm_analysis *a, const struct fm_focus_place *place)
{
	if (place->function_id != FM_NO_ID) {
		const struct fm_function *f = fm_analysis_function(a, place->function_id);
		return f->file.len ? f->file : f->path;
	}
	if (place->traced != FM_NO_ID)
		return a->calls->functions.items[place->traced].file;
	for (uint32_t i = 0; i < fm_symbolizer_n_functions(a->symbolizer); i++)
		if (fm_analysis_function(a, i)->file_id == place->file_id)
			return fm_analysis_function(a, i)->file;
	return FM_STR_LIT("");
}

uint32_t fm_focus_line(const struct fm_analysis *a, const struct fm_focus_place *place)
{
	return place->function_id != FM_NO_ID ? fm_analysis_function(a, place->function_id)->line
	       : place->traced != FM_NO_ID    ? a->calls->functions.items[place->traced].line
					      : place->line;
}
