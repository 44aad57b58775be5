// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/kernel.h"

// Of this process: keys come from files, and whoever knew where each one goes could choose them so
// that all go to one place. A fuzzer wants the same again.
static uint64_t secret;

#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
__attribute__((constructor)) static void make_secret(void)
{
	if (fm_getrandom(&secret, sizeof(secret), GRND_NONBLOCK) != sizeof(secret))
		secret = (uintptr_t)&secret; // at least where this lies is not known
}
#endif

static uint64_t hash_from(uint64_t h, const void *p, size_t len)
{
	const uint8_t *b = p;
	for (; len >= 8; b += 8, len -= 8) {
		uint64_t word;
		memcpy(&word, b, 8);
		h = fm_hash_u64(h ^ word);
	}
	uint64_t rest = 0;
	if (len) // b may be NULL when there is nothing
		memcpy(&rest, b, len);
	return fm_hash_u64(h ^ rest);
}

uint64_t fm_hash_bytes(const void *p, size_t len)
{
	return hash_from(0x9e3779b97f4a7c15u ^ len, p, len);
}

void fm_map_deinit(struct fm_map *map)
{
	free(map->entries);
	*map = (struct fm_map){ 0 };
}

static struct fm_map_entry *map_slot(const struct fm_map *map, uint64_t key)
{
	size_t mask = map->cap - 1;
	size_t i = fm_hash_u64(key ^ secret) & mask;
	while (map->entries[i].used && map->entries[i].key != key)
		i = (i + 1) & mask;
	return &map->entries[i];
}

uint64_t *fm_map_find(const struct fm_map *map, uint64_t key)
{
	if (!map->cap)
		return NULL;
	struct fm_map_entry *e = map_slot(map, key);
	return e->used ? &e->value : NULL;
}

static void map_resize(struct fm_map *map, size_t cap)
{
	struct fm_map old = *map;
	map->cap = cap;
	map->entries = fm_alloc(map->cap * sizeof(*map->entries));
	for (size_t i = 0; i < old.cap; i++)
		if (old.entries[i].used)
			*map_slot(map, old.entries[i].key) = old.entries[i];
	free(old.entries);
}

uint64_t *fm_map_at(struct fm_map *map, uint64_t key, bool *ret_is_new)
{
	if (map->n * 4 >= map->cap * 3)
		map_resize(map, map->cap ? map->cap * 2 : 64);
	struct fm_map_entry *e = map_slot(map, key);
	if (ret_is_new)
		*ret_is_new = !e->used;
	if (!e->used) {
		*e = (struct fm_map_entry){ .key = key, .used = true };
		map->n++;
	}
	return &e->value;
}

void fm_intern_deinit(struct fm_intern *in)
{
	fm_arena_deinit(&in->arena);
	fm_vec_deinit(&in->strings);
	free(in->table);
	*in = (struct fm_intern){ 0 };
}

static uint32_t *intern_slot(const struct fm_intern *in, struct fm_str s)
{
	size_t mask = in->cap - 1;
	size_t i = hash_from(secret ^ s.len, s.p, s.len) & mask;
	while (in->table[i] && !fm_str_eq(in->strings.items[in->table[i] - 1], s))
		i = (i + 1) & mask;
	return &in->table[i];
}

uint32_t fm_intern_id(struct fm_intern *in, struct fm_str s, bool *ret_is_new)
{
	if (in->strings.n * 4 >= in->cap * 3) {
		in->cap = in->cap ? in->cap * 2 : 256;
		free(in->table);
		in->table = fm_alloc(in->cap * sizeof(*in->table));
		for (size_t i = 0; i < in->strings.n; i++)
			*intern_slot(in, in->strings.items[i]) = (uint32_t)i + 1;
	}
	uint32_t *slot = intern_slot(in, s);
	if (ret_is_new)
		*ret_is_new = *slot == 0;
	if (*slot == 0) {
		char *copy = fm_arena_strdup(&in->arena, s.p, s.len);
		fm_vec_push(&in->strings, (struct fm_str){ copy, s.len });
		*slot = (uint32_t)in->strings.n;
	}
	return *slot - 1;
}

uint32_t fm_intern_find(const struct fm_intern *in, struct fm_str s)
{
	uint32_t id = in->cap ? *intern_slot(in, s) : 0;
	return id ? id - 1 : UINT32_MAX;
}
