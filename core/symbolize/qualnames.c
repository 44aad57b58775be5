// SPDX-License-Identifier: Apache-2.0
#include "symbolize/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "symbolize/python_scopes.h"

#define FIRST_MINOR_WITH_QUALNAMES 11

struct fm_qualnames {
	const struct fm_profile *profile;
	struct fm_arena arena;
	bool has_old_python; // among the first n_processes of the profile
	size_t n_processes;
	struct fm_map files;                    // hash of a file's name -> index of scopes + 1
	size_t n_sources;                       // of the profile, that are in `files`
	FM_VEC(struct fm_python_scopes) scopes; // by source; empty until asked for
	FM_VEC(bool) is_read;
};

struct fm_qualnames *fm_qualnames_create(const struct fm_profile *profile)
{
	struct fm_qualnames *q = fm_alloc(sizeof(*q));
	q->profile = profile;
	fm_arena_init(&q->arena);
	return q;
}

void fm_qualnames_destroy(struct fm_qualnames *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->scopes.n; i++)
		fm_python_scopes_deinit(&q->scopes.items[i]);
	fm_vec_deinit(&q->scopes);
	fm_vec_deinit(&q->is_read);
	fm_map_deinit(&q->files);
	fm_arena_deinit(&q->arena);
	free(q);
}

static bool is_old(struct fm_str version)
{
	unsigned minor = 0;
	if (version.len < 3 || memcmp(version.p, "3.", 2) != 0)
		return false;
	for (uint32_t i = 2; i < version.len && version.p[i] >= '0' && version.p[i] <= '9' && minor < 1000; i++)
		minor = minor * 10 + (unsigned)(version.p[i] - '0');
	return minor < FIRST_MINOR_WITH_QUALNAMES;
}

// Without one there is nothing to look for: newer ones say it all.
static bool has_old_python(struct fm_qualnames *q)
{
	for (; q->n_processes < q->profile->processes.n && !q->has_old_python; q->n_processes++)
		q->has_old_python = is_old(q->profile->processes.items[q->n_processes].info.python_version);
	return q->has_old_python;
}

// NULL when the capture does not have that file.
static const struct fm_python_scopes *scopes_of(struct fm_qualnames *q, struct fm_str file)
{
	for (; q->n_sources < q->profile->sources.n; q->n_sources++) {
		struct fm_str name = q->profile->sources.items[q->n_sources].filename;
		*fm_map_at(&q->files, fm_hash_bytes(name.p, name.len), NULL) = q->n_sources + 1;
	}
	const uint64_t *found = fm_map_find(&q->files, fm_hash_bytes(file.p, file.len));
	if (!found || !fm_str_eq(q->profile->sources.items[*found - 1].filename, file))
		return NULL;
	size_t idx = *found - 1;
	fm_vec_grow_to(&q->scopes, idx + 1);
	fm_vec_grow_to(&q->is_read, idx + 1);
	if (!q->is_read.items[idx])
		fm_python_scopes_read(&q->scopes.items[idx], q->profile->sources.items[idx].text);
	q->is_read.items[idx] = true;
	return &q->scopes.items[idx];
}

struct fm_str fm_qualnames_of(struct fm_qualnames *q, const struct fm_code_info *code)
{
	struct fm_str plain = code->name.len ? code->name : FM_STR_LIT("[unnamed]");
	if (code->qualname.len && !fm_str_eq(code->qualname, code->name))
		return code->qualname;
	const struct fm_python_scopes *scopes =
		code->name.len && has_old_python(q) ? scopes_of(q, code->filename) : NULL;
	struct fm_buf name = { 0 };
	if (scopes && fm_python_scopes_qualname(scopes, code->first_line, code->name, &name) &&
	    !fm_str_eq((struct fm_str){ (const char *)name.data, (uint32_t)name.len }, plain))
		plain = (struct fm_str){ fm_arena_strdup(&q->arena, (const char *)name.data, name.len),
					 (uint32_t)name.len };
	fm_buf_deinit(&name);
	return plain;
}
